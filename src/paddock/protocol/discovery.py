"""`environmentConfig/read` and capability discovery: what the host of the executor has to tell agents."""

from __future__ import annotations

from paddock.protocol.path import HostPath
from paddock.protocol.sandbox import SandboxContext
from paddock.protocol.structure import Params


class EnvironmentConfigParams(Params, frozen=True, kw_only=True):
    """Which keys of the host's configuration are wanted."""

    cwd: HostPath
    config_paths: list[list[str]]
    requirements_paths: list[list[str]]


class CapabilityRoot(Params, frozen=True, kw_only=True):
    """A directory that may hold plugins or skills."""

    id: str
    path: HostPath
    sandbox: SandboxContext | None = None


class CapabilityRootsParams(Params, frozen=True, kw_only=True):
    """Look into these directories."""

    roots: list[CapabilityRoot]


class CapabilitiesParams(Params, frozen=True, kw_only=True):
    """Look into the standard places of a working directory."""

    cwd: HostPath
    sandbox: SandboxContext | None = None
