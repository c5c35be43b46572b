"""`fs/*`: the filesystem methods."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import UNSET, Meta, UnsetType

from paddock.protocol.bound import MAX_ENTRIES
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
    """Whether to list links that lead nowhere, in circles, or to a path that can't be examined, too."""


class CanonicalizeParams(Params, frozen=True, kw_only=True):
    """Find the path without links and dots."""

    EXTENSIONS: ClassVar[frozenset[str]] = frozenset({"tells_read_only", "tells_way", "written_places"})

    path: HostPath
    sandbox: SandboxContext | None = None
    tells_read_only: bool | None = None
    """Whether to say whether the path can be written under the profile."""
    tells_way: bool | None = None
    """Whether to list what the path leads through. Then nothing need exist there, and nothing is said of
    writing."""
    written_places: Annotated[list[HostPath], Meta(max_length=MAX_ENTRIES)] | None = None
    """Absolute paths that somebody may write. With the way, say whether it may lead through one of them,
    under whatever name."""


class MoveParams(Params, frozen=True, kw_only=True):
    """Rename a file, a link itself or a directory within the same file system, in one step.

    Replaces a file that has the new name. If that is the same file by another name (a hard link), removes the
    present path.
    """

    source_path: HostPath
    """The present path."""
    destination_path: HostPath
    """Its new path; the directory must exist."""
    sandbox: SandboxContext | None = None


class ChmodParams(Params, frozen=True, kw_only=True):
    """Set the permissions of the file or directory that a path leads to."""

    path: HostPath
    mode: Unsigned
    """A number, such as 493 for 0755; at most 1023 (01777), without set-user-ID and set-group-ID."""
    follow_symlinks: bool | None = None
    """Whether symbolic links are followed; if false, no part of the path may be one. True by default. Send it
    only to a server with the capability `changesWithoutLinks`."""
    sandbox: SandboxContext | None = None


class FollowablePathParams(Params, frozen=True, kw_only=True):
    """A path, and whether to follow symbolic links in it."""

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
    """Whether to replace the file as a whole, with the mode and owner of the old one: after a failure, a
    crash or a full disk the old file is still there, untouched."""


class CreateDirectoryParams(Params, frozen=True, kw_only=True):
    """Make a directory, by default with its parents."""

    path: HostPath
    recursive: bool | None = None
    """Whether to make missing parents too, and to accept a directory that exists. True by default."""
    follow_symlinks: bool | None = None
    sandbox: SandboxContext | None = None


class RemoveParams(Params, frozen=True, kw_only=True):
    """Remove a file or a tree. Removes a link itself, never its target."""

    path: HostPath
    recursive: bool | None = None
    """Whether to remove a directory with everything in it. True by default."""
    force: bool | None = None
    """Whether to accept a path that does not exist. True by default."""
    follow_symlinks: bool | None = None
    """If false, no part of the path may be a symbolic link; needs `recursive: false`. True by default."""
    sandbox: SandboxContext | None = None


class CopyParams(Params, frozen=True, kw_only=True):
    """Copy a file, a link as a link, or a tree. Copying a file onto itself changes nothing."""

    source_path: HostPath
    """The original."""
    destination_path: HostPath
    """The copy: replaces an existing file, and adds to an existing directory."""
    recursive: bool
    """Whether to copy directories, with all files, links and directories in them."""
    sandbox: SandboxContext | None = None


class OpenParams(Params, frozen=True, kw_only=True):
    """Open a file under an id of the caller's choice."""

    EXTENSIONS: ClassVar[frozenset[str]] = frozenset({"atomic"})

    handle_id: str
    """At most 32 bytes; the client may use it again once the file is closed."""
    path: HostPath
    mode: Literal["read", "replace", "readTree", "writeTree"] = "read"
    """`replace` creates or empties the file at once. Extensions: `readTree` returns a directory as a tar
    archive; `writeTree` unpacks one into a new directory, which appears in its place when it is closed.
    Read or write both from the beginning to the end."""
    sandbox: SandboxContext | None = None
    atomic: bool | None = None
    """With `replace`: the server puts the file in its place as a whole when it is closed, and discards it
    if the connection ends before. A failed write discards it too."""


class ReadBlockParams(Params, frozen=True, kw_only=True):
    """Read from an open file. An error closes it."""

    handle_id: str
    offset: Unsigned
    len: Unsigned
    """Number of bytes, 1 to 1048576."""


class WriteBlockParams(Params, frozen=True, kw_only=True):
    """Write to an open file. An error closes it."""

    HAS_CHUNK: ClassVar[bool] = True

    handle_id: str
    offset: Unsigned
    chunk: bytes
    """1 to 1048576 bytes."""


class CloseParams(Params, frozen=True, kw_only=True):
    """Close an open file, after all earlier requests about it. An unknown id is no error."""

    EXTENSIONS: ClassVar[frozenset[str]] = frozenset({"confirm", "discard"})

    handle_id: str
    discard: bool | None = None
    """Whether to discard a file opened with `atomic` or `writeTree` instead of putting it in its place."""
    confirm: bool | None = None
    """Whether an unknown id is an error, not found. The session remembers the outcome: if the client repeats
    the request on another connection, the server gives the answer that it gave, or would have given, on
    the first. Not found then means that nothing was put in its place, nor ever will be. The id must be
    unique in the session."""


class WalkOptions(Params, frozen=True, kw_only=True):
    """How far a walk goes."""

    max_depth: Unsigned
    """Depth, at most 64; 0 lists the root's own entries."""
    max_directories: Unsigned
    """Most directories to enter, 1 to 10000."""
    max_entries: Unsigned
    """Most names to examine, 1 to 50000."""
    follow_directory_symlinks: bool
    """Whether to enter links to directories; a walk enters no directory twice."""
    prune_hidden_directories: bool = False
    """Whether to list, but not enter, directories whose name begins with a dot."""


class WalkParams(Params, frozen=True, kw_only=True):
    """List a tree. A root that is not a directory, or a link that is not followed, has no entries."""

    path: HostPath
    options: WalkOptions
    """How far it goes."""
    sandbox: SandboxContext | None = None


class ReadFileResult(Result, frozen=True, kw_only=True):
    """The whole content of a file, 512 MiB at most."""

    data_base64: bytes
    """The content."""


class MetadataResult(Result, frozen=True, kw_only=True):
    """Facts about a path. All fields but `is_symlink` describe what the path leads to."""

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
    """One name in a directory; a link counts as its target."""

    EXTENSIONS: ClassVar[frozenset[str]] = frozenset({"is_symlink"})

    file_name: str
    """Its name, with replacement characters for bytes that are not UTF-8."""
    is_directory: bool
    is_file: bool
    is_symlink: bool | UnsetType = UNSET
    """Whether the name itself is a link; present if the request asks for all links. A link that leads nowhere
    is neither a directory nor a file."""


class ReadDirectoryResult(Result, frozen=True, kw_only=True):
    """The names in a directory, 50000 at most."""

    entries: list[DirectoryEntry]
    """In no particular order. Without links that lead nowhere, unless the request asks for all links."""


class CanonicalizeResult(Result, frozen=True, kw_only=True):
    """The path without links and dots."""

    EXTENSIONS: ClassVar[frozenset[str]] = frozenset({"other_names", "read_only", "way", "written"})

    path: str
    read_only: bool | UnsetType = UNSET
    """Whether it lies on a mount that can't be written, as all does that a sandbox protects. Only if asked
    for."""
    way: list[str] | UnsetType = UNSET
    """Each link on the way, each directory that is left by `..`, other paths by which mounts show one of
    them, and the path itself at the end; all without links. Whoever can change one of them can make the path
    lead elsewhere. Only if asked for."""
    other_names: bool | UnsetType = UNSET
    """Whether a file is there with other names (hard links), by which the server's user may change it. Only
    with the way."""
    written: bool | UnsetType = UNSET
    """Whether something on the way, or a directory above it, is one of `writtenPlaces`, or may be: some file
    systems know a file by several names, or show it in several mounts, and the kernel does not say so. Only
    outside of a sandbox."""


class WalkEntry(Result, frozen=True, kw_only=True):
    """A file or directory of a tree."""

    path: str
    kind: Literal["directory", "file"]


class WalkError(Result, frozen=True, kw_only=True):
    """A path that the server could not examine."""

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
    """Whether the block has fewer bytes than requested."""
    chunk: bytes
