"""Checks the capabilities that a server announces. Pure."""

from __future__ import annotations

from paddock.errors import CapabilityMissing
from paddock.protocol.session import EnvironmentInfo


def require(environment: EnvironmentInfo, capability: str, purpose: str) -> None:
    """Raise CapabilityMissing unless the server offers a capability; `purpose` says why it is needed."""
    if not environment.capabilities.get(capability, False):
        raise CapabilityMissing(purpose, capability)
