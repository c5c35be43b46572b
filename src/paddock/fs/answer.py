"""Answers of operations: values that can cross into another process and back.

Paths and names are bytes, as the kernel has them; callers decide whether they are text. This module holds
values only.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Answer(Struct, frozen=True, kw_only=True, tag=True):
    """The result of an operation."""


class Done(Answer, frozen=True, kw_only=True):
    """The operation succeeded and returns nothing."""


class Metadata(Answer, frozen=True, kw_only=True):
    """Facts about a path. `is_link` describes the path itself, every other field what it leads to."""

    is_directory: bool
    is_file: bool
    is_link: bool
    mode: int
    """The permissions: the lower twelve bits of st_mode (stat(2))."""
    size_bytes: int
    created_at_ms: int
    """0 where the file system does not record it."""
    modified_at_ms: int


class DirectoryEntry(Struct, frozen=True, kw_only=True, array_like=True):
    """One name in a directory; a link counts as what it leads to."""

    name: bytes
    is_directory: bool
    is_file: bool
    is_link: bool
    """Whether the name itself is a link. A dangling link is neither a directory nor a file."""


class Listing(Answer, frozen=True, kw_only=True):
    """The names in a directory, in no particular order."""

    entries: list[DirectoryEntry]


class CanonicalPath(Answer, frozen=True, kw_only=True):
    """The absolute path without links and dots."""

    path: bytes
    is_read_only: bool | None = None
    """Whether it is on a mount that can't be written; None if nobody asked."""
    way: list[bytes] | None = None
    """See `fs.way`; None if nobody asked."""
    has_other_names: bool | None = None
    """Whether a file is there that this user may change by another name; None if nobody asked for the way."""


class WalkedDirectory(Struct, frozen=True, kw_only=True, array_like=True):
    """One directory of a walk, and those of its entries that are listed, sorted by name."""

    path: bytes
    names: list[bytes]
    are_directories: list[bool]


class WalkError(Struct, frozen=True, kw_only=True, array_like=True):
    """A path that could not be examined."""

    path: bytes
    message: str


class Walked(Answer, frozen=True, kw_only=True):
    """A tree, directory by directory, nearest first."""

    directories: list[WalkedDirectory]
    errors: list[WalkError]
    is_truncated: bool
    """Whether a limit ended the walk."""


class Opened(Answer, frozen=True, kw_only=True):
    """An open file and the part of it that was read."""

    handle: int | None
    """Its id in later operations, never reused; None if the whole file was read and is closed again."""
    size_bytes: int
    beginning: bytes


class Block(Answer, frozen=True, kw_only=True):
    """Part of a file; shorter than requested at the end of the file."""

    data: bytes


class Edited(Answer, frozen=True, kw_only=True):
    """The changes of an edit as a unified diff; empty if there are none."""

    diff: str


class Match(Struct, frozen=True, kw_only=True, array_like=True):
    """A line or a name that matches a pattern. A name has no line."""

    path: bytes
    line: int = 0
    """From 1."""
    column: int = 0
    """Where the match begins, in characters from 1."""
    text: str = ""
    """The line without its end."""
    is_cut: bool = False
    """Whether `text` is only the beginning of the line."""


class Found(Answer, frozen=True, kw_only=True):
    """The matches, in the order in which directories list them."""

    matches: list[Match]
    errors: list[str]
    """Errors about paths that could not be examined."""
    is_truncated: bool
    """Whether a limit ended the search."""


class FailureKind(StrEnum):
    """Kinds of failure, told apart by what the caller can do."""

    NOT_FOUND = "notFound"
    REFUSED = "refused"
    FAILED = "failed"


class Failure(Answer, frozen=True, kw_only=True):
    """An operation that failed, as sent between processes. Inside a process it is an exception."""

    kind: FailureKind
    message: str
    os_error: tuple[int, str] | None = None
    """The errno and the path, where the operating system refused something."""
    fault: str | None = None
    """What the log of the server says of a fault in Paddock; nothing that a client reads."""


AnyAnswer = Done | Metadata | Listing | CanonicalPath | Walked | Opened | Block | Edited | Found | Failure
