"""`http/request`, `environmentConfig/read` and capability discovery: questions to the executor's host."""

from __future__ import annotations

from typing import Literal

from paddock.protocol.path import HostPath
from paddock.protocol.sandbox import SandboxContext
from paddock.protocol.structure import Params, Unsigned


class HttpHeader(Params, frozen=True, kw_only=True):
    """A header; its value may be completed from a variable of the server's environment."""

    name: str
    value: str
    value_env_var: str | None = None


class HttpRequestParams(Params, frozen=True, kw_only=True):
    """An HTTP request made from the executor's host."""

    method: str
    url: str
    request_id: str
    headers: list[HttpHeader] = []
    body_base64: bytes | None = None
    timeout_ms: Unsigned | None = None
    redirect_policy: Literal["follow", "stop"] | None = None
    stream_response: bool = False


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
