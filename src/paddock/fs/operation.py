"""Operations on files: each is a value, so that it can be carried out anywhere.

An operation names the type of its answer. Paths are absolute, in bytes, and may hold `..`, which the kernel
resolves. To add one, define its value here, list it in `AnyOperation`, write its code in a module named after
its noun, and add a row to `perform`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Generic, TypeVar

from msgspec import Struct

from paddock.fs.answer import (
    Answer,
    Block,
    CanonicalPath,
    Done,
    Edited,
    Found,
    Listing,
    Metadata,
    Opened,
    Walked,
)

A = TypeVar("A", bound=Answer, covariant=True)

KIB = 1024
MIB = 1024 * KIB

MAX_BLOCK_BYTES = 4 * MIB
"""The largest piece of a file to hold in memory during a transfer."""


class Operation(Struct, Generic[A], frozen=True, kw_only=True, tag=True):
    """Something to do with files, which returns an `A`."""


class OpenMode(StrEnum):
    """What a file is opened for."""

    READ = "read"
    REPLACE = "replace"
    """Created, or emptied at once."""
    PUBLISH = "publish"
    """Written beside its place, and moved there as a whole when it is closed."""
    READ_TREE = "readTree"
    """A directory as a tar archive, read from its beginning to its end."""
    WRITE_TREE = "writeTree"
    """A tar archive that is unpacked beside its place, and moved there as a whole when it is closed."""


class GetMetadata(Operation[Metadata], frozen=True, kw_only=True):
    """Describe what a path leads to. Without `follow`, no part of it may be a link."""

    path: bytes
    follow: bool = True


class ReadDirectory(Operation[Listing], frozen=True, kw_only=True):
    """List a directory. Links that lead nowhere are listed only if `has_all_links`."""

    path: bytes
    max_entries: int
    has_all_links: bool = False


class CreateDirectory(Operation[Done], frozen=True, kw_only=True):
    """Make a directory; if `recursive`, its parents too, and it may exist."""

    path: bytes
    recursive: bool = True
    follow: bool = True


class Canonicalize(Operation[CanonicalPath], frozen=True, kw_only=True):
    """Find the path without links and dots. It must exist, unless it is only about its way.

    If `tells_read_only`, look at its mount too. If `tells_way`, list what it passes.
    """

    path: bytes
    tells_read_only: bool = False
    tells_way: bool = False


class Walk(Operation[Walked], frozen=True, kw_only=True):
    """List a tree, nearest first. The limits are the caller's; a depth of 0 is the direct children."""

    path: bytes
    max_depth: int
    max_directories: int
    max_entries: int
    max_bytes: int
    """Limit for the paths of all entries together."""
    follow_directory_links: bool
    prune_hidden: bool
    """Whether to list, but not enter, directories whose name begins with a dot."""


class Remove(Operation[Done], frozen=True, kw_only=True):
    """Remove a file, a link or a directory. With `force`, one that does not exist is no error."""

    path: bytes
    recursive: bool
    force: bool
    follow: bool = True


class Rename(Operation[Done], frozen=True, kw_only=True):
    """Give a file, a link or a directory another name. A file that has that name is replaced."""

    source: bytes
    destination: bytes


class ChangeMode(Operation[Done], frozen=True, kw_only=True):
    """Set the permissions of what a path leads to. Without `follow`, no part of it may be a link."""

    path: bytes
    mode: int
    follow: bool = True


class Copy(Operation[Done], frozen=True, kw_only=True):
    """Copy a file or a link; if `recursive`, a directory too."""

    source: bytes
    destination: bytes
    recursive: bool


class WriteFile(Operation[Done], frozen=True, kw_only=True):
    """Replace the content of a file, or create it.

    If `is_atomic`, the old content is there until the new is complete; nobody sees part of it.
    """

    path: bytes
    data: bytes
    follow: bool = True
    is_atomic: bool = False


class Open(Operation[Opened], frozen=True, kw_only=True):
    """Open a regular file. `Close` must follow, unless the table of open files ends before."""

    path: bytes
    mode: OpenMode = OpenMode.READ
    follow: bool = True
    prefetch_bytes: int = 0
    """How much to read right away; a file that ends within it is closed again."""


class ReadBlock(Operation[Block], frozen=True, kw_only=True):
    """Read part of an open file, `MAX_BLOCK_BYTES` at most."""

    handle: int
    offset: int
    length: int


class WriteBlock(Operation[Done], frozen=True, kw_only=True):
    """Write part of an open file."""

    handle: int
    offset: int
    data: bytes


class Close(Operation[Done], frozen=True, kw_only=True):
    """Close a file; publish it, or discard it, if it was opened for that."""

    handle: int
    discard: bool = False


class TextEdit(Struct, frozen=True, kw_only=True, array_like=True):
    """Replace a text, which is not empty and must occur exactly `count` times."""

    old: bytes
    new: bytes
    count: int = 1


class Edit(Operation[Edited], frozen=True, kw_only=True):
    """Replace parts of a file, one after the other; all of them or none.

    Without `follow`, no part of the path may be a link.
    """

    path: bytes
    edits: list[TextEdit]
    max_bytes: int
    """How large the file may be, before and after."""
    follow: bool = True


class SearchKind(StrEnum):
    """What to search."""

    CONTENT = "content"
    NAME = "name"


class Search(Operation[Found], frozen=True, kw_only=True):
    """Find lines, or names, below a directory. The limits are the caller's."""

    path: bytes
    pattern: str
    kind: SearchKind = SearchKind.CONTENT
    is_regex: bool = False
    is_case_sensitive: bool = True
    is_hidden_included: bool = False
    max_matches: int
    max_file_bytes: int
    timeout_s: float
    use_ripgrep: bool = True
    """Whether to use ripgrep if it is installed; the answer is the same."""


SMALL_BYTES = 64 * KIB
"""Moving this much takes about as long as a few system calls."""


def is_bulky(operation: Operation[Any]) -> bool:
    """Return whether an operation may take long, by moving much data or by looking at many files."""
    match operation:
        case ReadBlock(length=length):
            return length > SMALL_BYTES
        case WriteFile(data=data, is_atomic=is_atomic):
            # An atomic write must reach the disk.
            return is_atomic or len(data) > SMALL_BYTES
        case WriteBlock(data=data):
            return len(data) > SMALL_BYTES
    return isinstance(operation, Walk | Copy | Remove | ReadDirectory | Close | Edit | Search)


AnyOperation = (
    Rename
    | ChangeMode
    | GetMetadata
    | ReadDirectory
    | CreateDirectory
    | Canonicalize
    | Walk
    | Remove
    | Copy
    | WriteFile
    | Open
    | ReadBlock
    | WriteBlock
    | Close
    | Edit
    | Search
)
