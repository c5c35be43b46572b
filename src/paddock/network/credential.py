"""Secrets that the proxy adds to outgoing requests: for which hosts, and as which header. Pure.

The proxy knows where a request goes by where its own connection leads, never by what the request says. No
value is ever part of a text that somebody reads.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass, field

from paddock.errors import SecretUnusable
from paddock.model.endpoint import Endpoint
from paddock.model.network_secret import TEMPLATE_MARK, NetworkSecret, Scheme, SecretHost

VALUE_LIMIT_BYTES = 16 * 1024
"""The longest secret; servers take some 8 KiB of headers."""

REFLECTING_METHOD = b"TRACE"
"""A server answers it with the request that it got (RFC 9110, section 9.3.8)."""


@dataclass(frozen=True, slots=True)
class Credential:
    """One secret, ready to be sent."""

    name: str
    hosts: tuple[SecretHost, ...]
    header: bytes
    value: bytes = field(repr=False)

    def is_for(self, scheme: Scheme, endpoint: Endpoint) -> bool:
        """Return whether the server at an endpoint may get it."""
        return any(host.has(scheme, endpoint.host, endpoint.port) for host in self.hosts)


def make_credential(name: str, declared: NetworkSecret, content: bytes) -> Credential:
    """Make the credential from the content of the file or variable. Raises SecretUnusable."""
    secret = content.strip()
    if not secret:
        raise SecretUnusable(name, "is empty")
    if len(secret) > VALUE_LIMIT_BYTES or not all(0x20 <= byte < 0x7F for byte in secret):
        raise SecretUnusable(name, f"is not a line of ASCII of at most {VALUE_LIMIT_BYTES} bytes")
    if declared.basic_user is not None:
        value = b"Basic " + base64.b64encode(declared.basic_user.encode() + b":" + secret)
    else:
        # White space around a value is not part of it, and an error that refused it would reveal the value.
        value = declared.template.strip().encode().replace(TEMPLATE_MARK.encode(), secret)
    hosts = tuple(map(SecretHost.parse, declared.hosts))
    return Credential(name, hosts, (declared.header or "Authorization").encode(), value)


class Credentials:
    """The secrets of one command. Of several for the same host, the first gives each header."""

    def __init__(self, credentials: Iterable[Credential] = ()) -> None:
        self._credentials = tuple(credentials)

    @property
    def open_tls(self) -> bool:
        """Return whether there is a host whose TLS the proxy opens."""
        return any(host.scheme is Scheme.HTTPS for each in self._credentials for host in each.hosts)

    def opens_tls_to(self, endpoint: Endpoint) -> bool:
        """Return whether the proxy opens TLS to a host, because a secret is for that host."""
        return any(each.is_for(Scheme.HTTPS, endpoint) for each in self._credentials)

    def headers_for(self, scheme: Scheme, endpoint: Endpoint, method: bytes) -> dict[bytes, bytes]:
        """Return the headers to add to a request to a host, in place of those that its sender wrote."""
        if method.upper() == REFLECTING_METHOD:
            return {}
        found: dict[bytes, bytes] = {}
        for credential in self._credentials:
            if credential.is_for(scheme, endpoint):
                found.setdefault(credential.header.lower(), credential.value)
        return found
