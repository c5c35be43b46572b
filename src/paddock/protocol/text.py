"""`fs/search` and `fs/edit`: files as text."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from paddock.protocol.path import HostPath
from paddock.protocol.sandbox import SandboxContext
from paddock.protocol.structure import Params, Result


class SearchParams(Params, frozen=True, kw_only=True):
    """Find lines, or names, below a directory.

    Links are not followed, ignore files mean nothing, and binary files (with a NUL in the first 8 KiB)
    are left out. Bytes are compared, and only ASCII letters have two cases. A regular expression may
    use `.`, classes, `\\d \\w \\s \\b` and their opposites, groups, alternatives, `^`, `$` and repetitions.
    """

    path: HostPath
    """The directory."""
    pattern: Annotated[str, Meta(min_length=1, max_length=1000)]
    """What to find, anywhere in a line or in the last part of a path."""
    kind: Literal["content", "name"] = "content"
    """Whether lines of files are looked at, or names of files and directories."""
    regex: bool = False
    """Whether the pattern is a regular expression; else it is text."""
    case_sensitive: bool = True
    """Whether `a` is not `A`."""
    hidden: bool = False
    """Whether names that begin with a dot count, and what is below them."""
    max_matches: Annotated[int, Meta(ge=1, le=10_000)] = 1000
    """How many are wanted."""
    max_file_bytes: Annotated[int, Meta(ge=1, le=64 * 1024 * 1024)] = 16 * 1024 * 1024
    """Larger files are left out."""
    timeout_ms: Annotated[int, Meta(ge=1, le=60_000)] = 10_000
    """How long to search."""
    sandbox: SandboxContext | None = None
    """What may be read."""


class SearchMatch(Result, frozen=True, kw_only=True):
    """One line, or one name; the first match in it counts."""

    path: str
    """The file, or the name that fits, as a whole path."""
    line: int | None
    """Its number from 1; null for a name."""
    column: int | None
    """Where the match begins, in characters from 1; null for a name."""
    text: str | None
    """The line without its end, 1000 characters at most; null for a name."""
    cut: bool
    """Whether the line is longer than that."""


class SearchResult(Result, frozen=True, kw_only=True):
    """What was found. Directories are entered in the order of their names: the order is always the same."""

    matches: list[SearchMatch]
    """In order."""
    errors: list[str]
    """What could not be read; 100 at most."""
    truncated: bool
    """Whether there may be more: the matches were enough, or the time was up."""


class TextEdit(Params, frozen=True, kw_only=True):
    """Replace a text."""

    old: Annotated[str, Meta(min_length=1)]
    """What is there."""
    new: str
    """What shall be there."""
    count: Annotated[int, Meta(ge=1)] = 1
    """How often `old` occurs, exactly; each is replaced."""


class EditParams(Params, frozen=True, kw_only=True):
    """Replace parts of a file of 8 MiB at most, one after the other: all of them, or none.

    The file is replaced as a whole; it keeps its mode, its owner and its line endings.
    """

    path: HostPath
    """The file; a link is followed."""
    edits: Annotated[list[TextEdit], Meta(min_length=1, max_length=1000)]
    """What to replace; each sees what those before it have done."""
    sandbox: SandboxContext | None = None
    """What may be done."""


class EditResult(Result, frozen=True, kw_only=True):
    """What has changed."""

    diff: str
    """A unified diff; empty if nothing has. Bytes that are not UTF-8 are shown as replacement characters."""
