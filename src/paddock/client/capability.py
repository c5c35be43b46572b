"""The capabilities that a server says it has. Pure."""

from __future__ import annotations

from paddock.errors import CapabilityMissing
from paddock.protocol.session import EnvironmentInfo


def require(environment: EnvironmentInfo, capability: str, purpose: str) -> None:
    """Raise CapabilityMissing unless the server offers a capability; `purpose` says what it is needed for."""
    if not environment.capabilities.get(capability, False):
        raise CapabilityMissing(purpose, capability)
