"""`initialize` and `environment/*`."""

from __future__ import annotations

from typing import ClassVar

from paddock.protocol.structure import Params, Result


class ClientCapabilities(Params, frozen=True, kw_only=True):
    """What the client understands beyond the reference protocol.

    Without `extensions` the client gets exactly the shapes of the reference
    protocol. `notifications` names the optional notifications it wants.
    """

    extensions: bool = False
    notifications: list[str] = []


class InitializeParams(Params, frozen=True, kw_only=True):
    """The first request of a connection."""

    EXTENSIONS: ClassVar[frozenset[str]] = frozenset({"capabilities"})

    client_name: str
    resume_session_id: str | None = None
    capabilities: ClientCapabilities | None = None


class Shell(Result, frozen=True, kw_only=True):
    """The user's shell on the server's host."""

    name: str
    path: str


class EnvironmentInfo(Result, frozen=True, kw_only=True):
    """What a client needs to know of the server's host; locations are `file:` URIs."""

    shell: Shell
    executor_version: str
    provider_id: str
    cwd: str
    user_home_dir: str
    platform_os: str
    prepend_path_dirs: list[str]
    temporary_directories: list[str]
    temp_dir: str
    capabilities: dict[str, bool]


class InitializeResult(Result, frozen=True, kw_only=True):
    """The session that this connection is attached to."""

    session_id: str
    environment_info: EnvironmentInfo


class EnvironmentStatus(Result, frozen=True, kw_only=True):
    """Whether the environment takes commands."""

    status: str
