"""`fs/search` and `fs/edit`: files as text."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from paddock.protocol.path import HostPath
from paddock.protocol.sandbox import SandboxContext
from paddock.protocol.structure import Params, Result


class SearchParams(Params, frozen=True, kw_only=True):
    """Find lines, or names, below a directory.

    The search follows no links, does not heed ignore files, and leaves out binary files (with a NUL in
    the first 8 KiB). It compares bytes, and only ASCII letters have two cases. A regular expression may
    use `.`, classes, `\\d \\w \\s \\b` and their opposites, groups, alternatives, `^`, `$` and repetitions.
    """

    path: HostPath
    """The directory."""
    pattern: Annotated[str, Meta(min_length=1, max_length=1000)]
    """What to find, anywhere in a line or in the last part of a path."""
    kind: Literal["content", "name"] = "content"
    """Whether to search lines of files, or names of files and directories."""
    regex: bool = False
    """Whether the pattern is a regular expression; otherwise it is text."""
    case_sensitive: bool = True
    """Whether `a` and `A` differ."""
    hidden: bool = False
    """Whether to include names that begin with a dot, and everything below them."""
    max_matches: Annotated[int, Meta(ge=1, le=10_000)] = 1000
    """Most matches to return."""
    max_file_bytes: Annotated[int, Meta(ge=1, le=64 * 1024 * 1024)] = 16 * 1024 * 1024
    """Leave out larger files."""
    timeout_ms: Annotated[int, Meta(ge=1, le=60_000)] = 10_000
    """How long to search."""
    sandbox: SandboxContext | None = None
    """What may be read."""


class SearchMatch(Result, frozen=True, kw_only=True):
    """One line, or one name; the first match in it counts."""

    path: str
    """The whole path of the file, or of the name that fits."""
    line: int | None
    """Its number from 1; null for a name."""
    column: int | None
    """Where the match begins, in characters from 1; null for a name."""
    text: str | None
    """The line without its end, 1000 characters at most; null for a name."""
    cut: bool
    """Whether the line is longer than that."""


class SearchResult(Result, frozen=True, kw_only=True):
    """The matches, always in the same order: the search enters directories in the order of their names."""

    matches: list[SearchMatch]
    """In order."""
    errors: list[str]
    """What could not be read; 100 at most."""
    truncated: bool
    """Whether there may be more: the search reached its limit of matches, or its time was up."""


class TextEdit(Params, frozen=True, kw_only=True):
    """Replace a text."""

    old: Annotated[str, Meta(min_length=1)]
    """The present text."""
    new: str
    """The text to put in its place."""
    count: Annotated[int, Meta(ge=1, le=2**31 - 1)] = 1
    """How often `old` must occur, exactly; the edit replaces each occurrence."""


class EditParams(Params, frozen=True, kw_only=True):
    """Replace parts of a file of at most 8 MiB, one after the other: all of them, or none.

    The server replaces the file as a whole and keeps its mode, its owner and its line endings. If somebody
    else changes it meanwhile, the server makes the edits in what is there then, or none. It refuses edits
    that search more than 512 MiB in all, each the whole file, or that replace more than 500,000 texts.
    """

    path: HostPath
    """The file."""
    edits: Annotated[list[TextEdit], Meta(min_length=1, max_length=1000)]
    """The replacements; each sees the result of those before it."""
    follow_symlinks: bool | None = None
    """Whether symbolic links are followed; if false, no part of the path may be one. True by default. Send it
    only to a server with the capability `changesWithoutLinks`."""
    sandbox: SandboxContext | None = None
    """What may be done."""


class EditResult(Result, frozen=True, kw_only=True):
    """What has changed."""

    diff: str
    """A unified diff; empty if nothing changed. Replacement characters stand for bytes that are not UTF-8."""
