"""`fs/*`: the filesystem methods."""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import UNSET, UnsetType

from paddock.protocol.late_base64 import LateBase64
from paddock.protocol.path import HostPath
from paddock.protocol.sandbox import SandboxContext
from paddock.protocol.structure import Params, Result, Unsigned


class PathParams(Params, frozen=True, kw_only=True):
    """A path and nothing else."""

    path: HostPath
    sandbox: SandboxContext | None = None


class ReadDirectoryParams(Params, frozen=True, kw_only=True):
    """List a directory."""

    EXTENSIONS: ClassVar[frozenset[str]] = frozenset({"all_links"})

    path: HostPath
    sandbox: SandboxContext | None = None
    all_links: bool | None = None
    """Whether links that lead nowhere, in circles, or to where nobody may look are listed too."""


class MoveParams(Params, frozen=True, kw_only=True):
    """Give a file, a link itself or a directory another name in the same file system, in one step.

    A file that has that name is replaced.
    """

    source_path: HostPath
    """What gets the other name."""
    destination_path: HostPath
    """Its new path; the directory must exist."""
    sandbox: SandboxContext | None = None


class ChmodParams(Params, frozen=True, kw_only=True):
    """Set the permissions of what a path leads to."""

    path: HostPath
    mode: Unsigned
    """As a number, such as 493 for 0755; 1023 (01777) at most, without set-user-ID and set-group-ID."""
    sandbox: SandboxContext | None = None


class FollowablePathParams(Params, frozen=True, kw_only=True):
    """A path, and whether symbolic links in it are followed."""

    path: HostPath
    follow_symlinks: bool | None = None
    sandbox: SandboxContext | None = None


class WriteFileParams(Params, frozen=True, kw_only=True):
    """Replace the content of a file, or create it; its directory must exist."""

    EXTENSIONS: ClassVar[frozenset[str]] = frozenset({"atomic"})

    path: HostPath
    data_base64: LateBase64
    """The new content."""
    follow_symlinks: bool | None = None
    """Whether symbolic links are followed; if false, no part of the path may be one. True by default."""
    sandbox: SandboxContext | None = None
    atomic: bool | None = None
    """Whether the file is replaced as a whole, with the mode and owner of the old one: after a failure, a
    crash or a full disk the old file is there, untouched."""


class CreateDirectoryParams(Params, frozen=True, kw_only=True):
    """Make a directory, with its parents unless told otherwise."""

    path: HostPath
    recursive: bool | None = None
    """Whether missing parents are made too, and a directory that exists is no error. True by default."""
    follow_symlinks: bool | None = None
    sandbox: SandboxContext | None = None


class RemoveParams(Params, frozen=True, kw_only=True):
    """Remove a file or a tree. A link is removed itself, never what it leads to."""

    path: HostPath
    recursive: bool | None = None
    """Whether a directory goes with all that is in it. True by default."""
    force: bool | None = None
    """Whether something that does not exist is no error. True by default."""
    follow_symlinks: bool | None = None
    """If false, no part of the path may be a symbolic link; needs `recursive: false`. True by default."""
    sandbox: SandboxContext | None = None


class CopyParams(Params, frozen=True, kw_only=True):
    """Copy a file, a link as a link, or a tree. A file that is copied onto itself stays as it is."""

    source_path: HostPath
    """What is copied."""
    destination_path: HostPath
    """The copy: a file that exists is replaced, a directory that exists is added to."""
    recursive: bool
    """Whether directories are copied, with all files, links and directories in them."""
    sandbox: SandboxContext | None = None


class OpenParams(Params, frozen=True, kw_only=True):
    """Open a file under an id of the caller's choice."""

    EXTENSIONS: ClassVar[frozenset[str]] = frozenset({"atomic"})

    handle_id: str
    """32 bytes at most; free again once the file is closed."""
    path: HostPath
    mode: Literal["read", "replace", "readTree", "writeTree"] = "read"
    """`replace` creates the file or empties it, at once. Extensions: `readTree` gives a directory as a tar
    archive, `writeTree` unpacks one into a new directory, which is in its place once it is closed; both are
    read or written from the beginning to the end."""
    sandbox: SandboxContext | None = None
    atomic: bool | None = None
    """With `replace`: the file is put in its place as a whole when it is closed, and discarded when the
    connection ends before. A write that fails discards it too."""


class ReadBlockParams(Params, frozen=True, kw_only=True):
    """Read from an open file. An error closes it."""

    handle_id: str
    offset: Unsigned
    len: Unsigned
    """How many bytes, 1 to 1048576."""


class WriteBlockParams(Params, frozen=True, kw_only=True):
    """Write to an open file. An error closes it."""

    handle_id: str
    offset: Unsigned
    chunk: bytes
    """1 to 1048576 bytes."""


class CloseParams(Params, frozen=True, kw_only=True):
    """Close an open file, after everything that was asked of it before. An unknown id is no error."""

    EXTENSIONS: ClassVar[frozenset[str]] = frozenset({"confirm", "discard"})

    handle_id: str
    discard: bool | None = None
    """Whether what was opened with `atomic` or `writeTree` is thrown away instead of put in its place."""
    confirm: bool | None = None
    """Whether an unknown id is an error, not found. The session remembers the outcome: asked again on another
    connection, the server answers as it did, or would have done, on the first; not found then means that
    nothing was put in its place, nor ever will be. The id must be unique in the session."""


class WalkOptions(Params, frozen=True, kw_only=True):
    """How far a walk goes."""

    max_depth: Unsigned
    """How deep, at most 64; 0 lists the root's own entries."""
    max_directories: Unsigned
    """Directories that are entered, 1 to 10000."""
    max_entries: Unsigned
    """Names that are looked at, 1 to 50000."""
    follow_directory_symlinks: bool
    """Whether links to directories are entered; no directory is entered twice."""
    prune_hidden_directories: bool = False
    """Whether directories whose name begins with a dot are listed and not entered."""


class WalkParams(Params, frozen=True, kw_only=True):
    """List a tree. A root that is no directory, or a link that is not followed, has no entries."""

    path: HostPath
    options: WalkOptions
    """How far it goes."""
    sandbox: SandboxContext | None = None


class ReadFileResult(Result, frozen=True, kw_only=True):
    """The whole content of a file, 512 MiB at most."""

    data_base64: bytes
    """The content."""


class MetadataResult(Result, frozen=True, kw_only=True):
    """What a path is. All but `is_symlink` is about what it leads to."""

    EXTENSIONS: ClassVar[frozenset[str]] = frozenset({"mode"})

    is_directory: bool
    is_file: bool
    is_symlink: bool
    """Whether the path itself is a symbolic link."""
    size: int
    """In bytes."""
    created_at_ms: int
    """When it was created; 0 where the file system does not record it."""
    modified_at_ms: int
    mode: int | UnsetType = UNSET
    """The permissions as a number, such as 493 for 0755."""


class DirectoryEntry(Result, frozen=True, kw_only=True):
    """One name in a directory; a link counts as what it leads to."""

    EXTENSIONS: ClassVar[frozenset[str]] = frozenset({"is_symlink"})

    file_name: str
    """Its name; what is not UTF-8 in it is shown as replacement characters."""
    is_directory: bool
    is_file: bool
    is_symlink: bool | UnsetType = UNSET
    """Whether the name itself is a link; told to who asks for all links. One that leads nowhere is neither
    a directory nor a file."""


class ReadDirectoryResult(Result, frozen=True, kw_only=True):
    """The names in a directory, 50000 at most."""

    entries: list[DirectoryEntry]
    """In no particular order. Links that lead nowhere are left out, unless all are asked for."""


class CanonicalizeResult(Result, frozen=True, kw_only=True):
    """The path without links and dots."""

    path: str


class WalkEntry(Result, frozen=True, kw_only=True):
    """A file or directory of a tree."""

    path: str
    kind: Literal["directory", "file"]


class WalkError(Result, frozen=True, kw_only=True):
    """A path that could not be looked at."""

    path: str
    message: str


class WalkResult(Result, frozen=True, kw_only=True):
    """A tree without its root, nearest entries first."""

    entries: list[WalkEntry]
    """Sorted by name within each directory."""
    errors: list[WalkError]
    """What could not be listed."""
    truncated: bool
    """Whether a limit ended the walk."""


class OpenResult(Result, frozen=True, kw_only=True):
    """The file is open."""

    handle_id: str


class ReadBlockResult(Result, frozen=True, kw_only=True):
    """Part of a file."""

    eof: bool
    """Whether fewer bytes came than were asked for."""
    chunk: bytes
