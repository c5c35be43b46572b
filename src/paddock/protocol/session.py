"""`initialize` and `environment/*`."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from paddock.protocol.bound import MAX_FEATURES, Name
from paddock.protocol.structure import Params, Result

Features = Annotated[list[Name], Meta(max_length=MAX_FEATURES)]
"""Names of notifications or requests."""


class ClientCapabilities(Params, frozen=True, kw_only=True):
    """What the client understands beyond the reference protocol.

    Without `extensions` the client gets exactly the shapes of the reference
    protocol. `notifications` names the optional notifications it wants, `requests` the
    requests of the server that it answers. The server ignores names that it does not know.
    """

    extensions: bool = False
    """Whether answers may hold fields that the reference protocol does not have."""
    notifications: Features = []
    """Optional notifications that the client wants."""
    requests: Features = []
    """Requests of the server that the client answers."""


class InitializeParams(Params, frozen=True, kw_only=True):
    """The first request of a connection."""

    EXTENSIONS: ClassVar[frozenset[str]] = frozenset({"capabilities"})

    client_name: Name
    """The client's name, for people."""
    resume_session_id: Name | None = None
    """The session to resume; a new one by default."""
    capabilities: ClientCapabilities | None = None
    """What the client understands; by default nothing beyond the reference protocol."""


class Shell(Result, frozen=True, kw_only=True):
    """The user's shell on the server's host."""

    name: str
    path: str


class EnvironmentInfo(Result, frozen=True, kw_only=True):
    """Facts that a client needs about the server's host; locations are `file:` URIs."""

    shell: Shell
    """The shell of the server's user."""
    executor_version: str
    """The version of the server."""
    provider_id: str
    """A stable name of host and user."""
    cwd: str
    """The directory that the server runs in."""
    user_home_dir: str
    """The home of the server's user."""
    platform_os: str
    """The operating system."""
    prepend_path_dirs: list[str]
    """Directories to put in front of PATH; none."""
    temporary_directories: list[str]
    """The directory that TMPDIR names, if any."""
    temp_dir: str
    """Where temporary files go."""
    capabilities: dict[str, bool]
    """What the server can do, by name. Only clients that asked for extensions get them."""


class InitializeResult(Result, frozen=True, kw_only=True):
    """The session that this connection is attached to."""

    session_id: str
    """The session; a later connection can resume it with this id."""
    environment_info: EnvironmentInfo
    """The host, as in the answer to `environment/info`."""


class EnvironmentStatus(Result, frozen=True, kw_only=True):
    """Whether the environment accepts commands."""

    status: str
    """Always `ready`."""
