"""Connections that a command requested from its proxy and did not get."""

from __future__ import annotations

from paddock.errors.base import PaddockError


class ProxyError(PaddockError):
    """A connection that a command requested from the proxy failed."""


class ProxyRequestError(ProxyError):
    """A client's request to the proxy makes no sense. The proxy does not pass it on."""


class HostUnreachable(ProxyError):
    """A host that is allowed has no address, or does not answer there."""

    def __init__(self, target: str, reason: str) -> None:
        super().__init__(target, reason)
        self.target = target
        self.reason = reason

    def __str__(self) -> str:
        return f"can't reach {self.target}: {self.reason}"


class SecretUnusable(ProxyError):
    """A secret that the settings declare can't be read, or can't be sent. Nothing was started."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name = name
        self.reason = reason

    def __str__(self) -> str:
        return f"the secret {self.name!r} {self.reason}"
