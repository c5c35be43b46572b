"""A file of a workspace as models edit it: by numbered lines, and by texts that they quote.

It uses requests to the server and runs no command. It raises CallRejected, with a reason that a model can act
on, for what can't be done; a refused file stays an OSError.
"""

from __future__ import annotations

import asyncio
import posixpath
import re
from collections.abc import Sequence
from typing import Final

from paddock.client.remote_path import RemotePath
from paddock.client.workspace import Workspace
from paddock.errors import CallRejected, InvalidRequest, OperationFailed
from paddock.protocol.fs import MetadataResult

FILE_BYTES: Final = 256 * 1024
"""The largest file to read for a model, unless its framework says otherwise."""

COMPARED_CHARACTERS: Final = 2 * 1024 * 1024
"""Length of a text that the server itself compares with the file: old and new text fit into one request."""

LISTED: Final = 1000
"""The most names in one listing."""

WIDTH: Final = 6
"""The width of a line's number."""

_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+")
"""A line as `numbered` shows it. `splitlines` would end some at a form feed, too."""


class TextFile:
    """One file, or directory. `name` is what the model calls it."""

    def __init__(self, workspace: Workspace, path: str, name: str | None = None) -> None:
        self.name = path if name is None else name
        self._workspace = workspace
        self._path = path

    async def path(self) -> RemotePath:
        """Return the file's path."""
        return await self._workspace.path(self._path)

    async def data(self, limit_bytes: int | None = FILE_BYTES) -> bytes:
        """Return the content, unless it is larger than the limit."""
        found = await (await self.path()).stat()
        if found.is_directory:
            raise CallRejected(f"{self.name} is a directory")
        if limit_bytes is not None and found.size > limit_bytes:
            raise CallRejected(
                f"{self.name} has {found.size} bytes, and no more than {limit_bytes} are read; "
                "look at a part of it with a command"
            )
        return await self._workspace.read_bytes(self._path)

    async def text(self, limit_bytes: int | None = FILE_BYTES) -> str:
        """Return the content as text; line ends stay as they are."""
        try:
            return (await self.data(limit_bytes)).decode()
        except UnicodeDecodeError as error:
            raise CallRejected(f"{self.name} is not text") from error

    async def lines(
        self, view_range: Sequence[int] | None, limit_bytes: int | None = FILE_BYTES
    ) -> list[str]:
        """Return lines, from the first to the last of a range; a last one below 1 is the end of the file."""
        lines = (await self.text(limit_bytes)).split("\n")
        first, last = _checked(view_range, len(lines))
        return lines[first - 1 : last]

    async def numbered(self, view_range: Sequence[int] | None) -> str:
        """Return lines with their numbers, or the contents of a directory, two levels deep."""
        if (await (await self.path()).stat()).is_directory:
            return await self._listing()
        first = view_range[0] if view_range else 1
        lines = await self.lines(view_range)
        return "\n".join(f"{number:{WIDTH}}\t{line}" for number, line in enumerate(lines, max(1, first)))

    async def write(self, text: str) -> None:
        """Replace the content, or create the file with the directories above it."""
        await self._workspace.write_bytes(self._path, text.encode())

    async def replace(self, old: str, new: str, *, everywhere: bool = False) -> str:
        """Replace a text that occurs once, or every occurrence, and return the diff."""
        if not old:
            raise CallRejected("the text to replace is empty")
        count = (await self.text()).count(old) if everywhere else 1
        if not count:
            raise CallRejected(f"the text to replace is not in {self.name}")
        try:
            diff = await (await self.path()).edit((old, new, count))
        except InvalidRequest as error:
            if isinstance(error, OSError):
                raise
            raise CallRejected(
                f"{error}; quote more of the text around it, exactly as it is there"
            ) from error
        # Without the names, which may not be those that the model knows.
        return diff.partition("\n+++ ")[2].partition("\n")[2]

    async def insert(self, after_line: int, text: str) -> None:
        """Insert text after a line; after line 0 it comes first."""
        old = await self.text()
        lines = _LINE.findall(old)
        if not 0 <= after_line <= len(lines):
            raise CallRejected(f"there is no line {after_line} in {self.name}; it has {len(lines)}")
        before = "".join(lines[:after_line])
        gap = "\n" if before and not before.endswith("\n") else ""
        end = "" if text.endswith("\n") else "\n"
        await self.exchange(old, f"{before}{gap}{text}{end}{''.join(lines[after_line:])}")

    async def exchange(self, old: str, new: str) -> None:
        """Replace the content that was read, and nothing that somebody else has written since.

        The server compares both where it can replace the file as a whole; elsewhere the comparison comes just
        before the write.
        """
        there = await self._workspace.open()
        if old and there.files.has("fsEdit") and max(len(old), len(new)) <= COMPARED_CHARACTERS:
            try:
                await (await self.path()).edit((old, new))
                return
            except InvalidRequest as error:
                if not isinstance(error, OSError):
                    raise self._changed() from error
            except OperationFailed:
                pass
        if await self.text(None) != old:
            raise self._changed()
        await self.write(new)

    def _changed(self) -> CallRejected:
        return CallRejected(f"{self.name} has changed in the meantime; look at it again")

    async def _listing(self) -> str:
        path = await self.path()
        tree = await self._workspace.walk(self._path, max_depth=1)
        names = dict.fromkeys(tree.directories, "/") | dict.fromkeys(tree.files, "")
        below = sorted((posixpath.relpath(each, str(path)), mark) for each, mark in names.items())
        shown = [each for each in below if not _is_hidden(each[0])][:LISTED]
        facts = await facts_of([path / name for name, _ in shown])
        lines = [
            f"{fact.size}\t{self.name}/{name}{mark}"
            for (name, mark), fact in zip(shown, facts, strict=True)
            if fact is not None
        ]
        return "\n".join([f"{self.name}, two levels deep, without hidden names:", *lines])


async def facts_of(paths: Sequence[RemotePath]) -> list[MetadataResult | None]:
    """Look at paths that a walk has found; None stands for one that is gone by now."""

    async def look(path: RemotePath) -> MetadataResult | None:
        try:
            return await path.stat()
        except FileNotFoundError:
            return None

    return await asyncio.gather(*map(look, paths))


def _checked(view_range: Sequence[int] | None, count: int) -> tuple[int, int]:
    if not view_range:
        return 1, count
    if len(view_range) != 2:
        raise CallRejected("a range has two numbers: the first and the last line")
    first, last = view_range
    return max(1, first), last if last > 0 else count


def _is_hidden(name: str) -> bool:
    return any(part.startswith(".") for part in name.split("/"))
