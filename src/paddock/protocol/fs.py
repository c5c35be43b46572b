"""`fs/*`: the parameters of the filesystem methods."""

from __future__ import annotations

from typing import Literal

from paddock.protocol.path import HostPath
from paddock.protocol.sandbox import SandboxContext
from paddock.protocol.structure import Params, Unsigned


class PathParams(Params, frozen=True, kw_only=True):
    """A path and nothing else."""

    path: HostPath
    sandbox: SandboxContext | None = None


class FollowablePathParams(Params, frozen=True, kw_only=True):
    """A path, and whether symbolic links in it are followed."""

    path: HostPath
    follow_symlinks: bool | None = None
    sandbox: SandboxContext | None = None


class WriteFileParams(Params, frozen=True, kw_only=True):
    """Replace the content of a file. The data is checked when it is used, as the reference does."""

    path: HostPath
    data_base64: str
    follow_symlinks: bool | None = None
    sandbox: SandboxContext | None = None


class CreateDirectoryParams(Params, frozen=True, kw_only=True):
    """Make a directory, with its parents unless told otherwise."""

    path: HostPath
    recursive: bool | None = None
    follow_symlinks: bool | None = None
    sandbox: SandboxContext | None = None


class RemoveParams(Params, frozen=True, kw_only=True):
    """Remove a file or a tree."""

    path: HostPath
    recursive: bool | None = None
    force: bool | None = None
    follow_symlinks: bool | None = None
    sandbox: SandboxContext | None = None


class CopyParams(Params, frozen=True, kw_only=True):
    """Copy a file, a link or a tree."""

    source_path: HostPath
    destination_path: HostPath
    recursive: bool
    sandbox: SandboxContext | None = None


class OpenParams(Params, frozen=True, kw_only=True):
    """Open a file under an id of the caller's choice."""

    handle_id: str
    path: HostPath
    mode: Literal["read", "replace"] = "read"
    sandbox: SandboxContext | None = None


class ReadBlockParams(Params, frozen=True, kw_only=True):
    """Read from an open file."""

    handle_id: str
    offset: Unsigned
    len: Unsigned


class WriteBlockParams(Params, frozen=True, kw_only=True):
    """Write to an open file."""

    handle_id: str
    offset: Unsigned
    chunk: bytes


class CloseParams(Params, frozen=True, kw_only=True):
    """Close an open file."""

    handle_id: str


class WalkOptions(Params, frozen=True, kw_only=True):
    """How far a walk goes."""

    max_depth: Unsigned
    max_directories: Unsigned
    max_entries: Unsigned
    follow_directory_symlinks: bool
    prune_hidden_directories: bool = False


class WalkParams(Params, frozen=True, kw_only=True):
    """List a tree."""

    path: HostPath
    options: WalkOptions
    sandbox: SandboxContext | None = None


class WatchMissingParams(Params, frozen=True, kw_only=True):
    """Tell once when one of these paths appears, or `present` vanishes."""

    watch_id: Unsigned
    missing: list[HostPath]
    present: HostPath | None = None
    sandbox: SandboxContext | None = None
