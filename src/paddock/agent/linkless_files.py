"""The files of a box for operations on paths that somebody has approved: no operation follows a link.

A question names where a path leads. Whoever exchanges a part of that path for a link before the operation
makes it fail. The exceptions are walks and searches, which read: they look for a link before they begin.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from paddock.agent.text_edit import edited
from paddock.client.files import Files, Found, Tree
from paddock.errors import FileNotDirectory, InvalidRequest
from paddock.protocol.fs import MetadataResult


class LinklessFiles:
    """Files by paths without links. Every method raises InvalidRequest for a path that has one."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self.canonicalize = files.canonicalize
        self.way = files.way
        self.has_other_names = files.has_other_names
        self.may_lead_into = files.may_lead_into

    async def read_file(self, path: str) -> bytes:
        """Return the whole content."""
        with _naming_link(path):
            return await self._files.read_file(path, follow_symlinks=False)

    async def read_head(self, path: str, limit_bytes: int) -> bytes:
        """Return the first bytes."""
        return (await self.read_file(path))[:limit_bytes]

    async def write_file(self, path: str, data: bytes, *, atomic: bool = False) -> None:
        """Replace the content, as a whole where the server can do that."""
        with _naming_link(path):
            await self._files.write_file(
                path, data, follow_symlinks=False, atomic=atomic and self._files.has("atomicWrites")
            )

    async def edit(self, path: str, old: str, new: str, count: int) -> str:
        """Replace a text that occurs exactly so often; return the diff."""
        with _naming_link(path):
            if self._files.has("fsEdit") and self._files.has("changesWithoutLinks"):
                return await self._files.edit(path, (old, new, count), follow_symlinks=False)
        data, diff = edited(path, await self.read_file(path), old, new, count)
        await self.write_file(path, data, atomic=True)
        return diff

    async def metadata(self, path: str) -> MetadataResult:
        """Describe a path."""
        with _naming_link(path):
            return await self._files.metadata(path, follow_symlinks=False)

    async def walk(self, path: str, *, max_depth: int = 0, max_entries: int = 0) -> Tree:
        """Return everything below a directory."""
        await self.metadata(path)
        return await self._files.walk(path, max_depth=max_depth, max_entries=max_entries)

    async def search(
        self,
        path: str,
        pattern: str,
        *,
        kind: Literal["content", "name"] = "content",
        regex: bool = False,
        case_sensitive: bool = True,
        hidden: bool = False,
        max_matches: int = 1000,
    ) -> Found:
        """Find lines or names."""
        await self.metadata(path)
        return await self._files.search(
            path,
            pattern,
            kind=kind,
            regex=regex,
            case_sensitive=case_sensitive,
            hidden=hidden,
            max_matches=max_matches,
        )

    async def create_directory(self, path: str) -> None:
        """Make a directory with its parents."""
        with _naming_link(path):
            await self._files.create_directory(path, follow_symlinks=False)

    async def set_mode(self, path: str, mode: int) -> None:
        """Set the permissions, where the server can do that without following links."""
        if self._files.has("fsChmod") and self._files.has("changesWithoutLinks"):
            with _naming_link(path):
                await self._files.chmod(path, mode, follow_symlinks=False)

    async def remove(self, path: str, *, recursive: bool = True) -> None:
        """Remove a file, or a directory; only an empty one can be removed without following links."""
        with _naming_link(path):
            await self._files.remove(path, recursive=recursive, follow_symlinks=False)


@contextmanager
def _naming_link(path: str) -> Iterator[None]:
    """Say what the error for a link above the last name means."""
    try:
        yield
    except FileNotDirectory as error:
        problem = f"a part of {path} is a link now, or a file, and no link is followed where approval counts"
        raise InvalidRequest(f"{problem}; try again") from error
