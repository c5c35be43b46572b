"""Files in a dictionary, which behave as those of a server do: for tests of agents."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Container, Iterable
from difflib import unified_diff
from typing import Literal

from paddock.client.files import Found, Match, Tree
from paddock.errors import InvalidRequest, NotFound, OperationFailed
from paddock.fs.way import way_of
from paddock.protocol.fs import MetadataResult


class FakeFiles:
    """Files by path in `contents`; `directories` are those that are there without one.

    `refused` are paths that can't be written, and `links` lead from a path to another, for those who read.
    Files in `linked` have hard links. Unless `follows_links`, no path may lead through a link.
    """

    def __init__(
        self,
        contents: dict[str, bytes],
        refused: set[str],
        directories: set[str],
        modes: dict[str, int] | None = None,
        links: dict[str, str] | None = None,
        linked: Container[str] = (),
        *,
        follows_links: bool = True,
    ) -> None:
        self._follows_links = follows_links
        self._linked = linked
        self._links = {} if links is None else links
        self._modes = {} if modes is None else modes
        self._contents = contents
        self._refused = refused
        self._directories = directories

    async def read_file(self, path: str) -> bytes:
        """Return the content."""
        self._refuse_link(path)
        return self._content(path)

    async def read_head(self, path: str, limit_bytes: int) -> bytes:
        """Return the first bytes."""
        return self._content(path)[:limit_bytes]

    async def write_file(self, path: str, data: bytes, *, atomic: bool = False) -> None:
        """Replace the content."""
        self._check(path)
        if not self._is_directory(posixpath.dirname(path)):
            raise NotFound(f"{posixpath.dirname(path)} does not exist")
        self._contents[path] = data

    async def edit(self, path: str, old: str, new: str, count: int) -> str:
        """Replace a text; return the diff."""
        before = self._content(path).decode()
        if before.count(old) != count:
            raise InvalidRequest(f"{old!r} occurs {before.count(old)} times")
        after = before.replace(old, new)
        await self.write_file(path, after.encode())
        return "".join(
            unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True), path, path)
        )

    async def metadata(self, path: str) -> MetadataResult:
        """Return what a path leads to."""
        self._refuse_link(path)
        is_link, path = path in self._links, self._way(path)[-1]
        is_file = path in self._contents
        if not is_file and not self._is_directory(path):
            raise NotFound(f"{path} does not exist")
        return MetadataResult(
            is_directory=not is_file,
            is_file=is_file,
            is_symlink=is_link,
            size=len(self._contents.get(path, b"")),
            created_at_ms=0,
            modified_at_ms=0,
            mode=self._modes.get(path, 0o644 if is_file else 0o755),
        )

    async def canonicalize(self, path: str) -> str:
        """Return the path without links and dots."""
        end = self._way(path)[-1]
        if end not in self._contents and not self._is_directory(end):
            raise NotFound(f"{path} does not exist")
        return end

    async def way(self, path: str) -> list[str]:
        """Return what a path leads through."""
        return self._way(path)

    async def has_other_names(self, path: str) -> bool:
        """Return whether a file has hard links."""
        return self._way(path)[-1] in self._linked

    async def may_lead_into(self, path: str, written_places: Iterable[str]) -> bool:
        """Return whether a path leads into a place in another case."""
        places = [f"{place}/".lower() for place in written_places]
        return any(f"{passed}/".lower().startswith(place) for passed in self._way(path) for place in places)

    async def walk(self, path: str, *, max_depth: int = 0, max_entries: int = 0) -> Tree:
        """Return what is below a directory, as deep as that."""
        found = [name for name in self._below(path) if name[len(path) :].count("/") <= max_depth + 1]
        shown = found[:max_entries] if max_entries else found
        files = [name for name in shown if name in self._contents]
        directories = [name for name in shown if name not in self._contents]
        return Tree(directories, files, [], is_truncated=len(shown) < len(found))

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
        wanted = re.compile(pattern if regex else re.escape(pattern), 0 if case_sensitive else re.IGNORECASE)
        below = [name for name in self._below(path) if hidden or "/." not in name[len(path) :]]
        if kind == "name":
            named = [name for name in below if wanted.search(posixpath.basename(name))]
            matches = [Match(name, None, None, None) for name in named]
        else:
            matches = [
                Match(name, number, found.start() + 1, line)
                for name in below
                if name in self._contents
                for number, line in enumerate(self._contents[name].decode().splitlines(), 1)
                if (found := wanted.search(line))
            ]
        return Found(matches[:max_matches], [], is_truncated=len(matches) > max_matches)

    async def create_directory(self, path: str) -> None:
        """Make a directory with its parents."""
        self._check(path)
        while path != "/":
            self._directories.add(path)
            path = posixpath.dirname(path)

    async def set_mode(self, path: str, mode: int) -> None:
        """Set the permissions."""
        self._content(path)
        self._modes[path] = mode

    async def remove(self, path: str, *, recursive: bool = True) -> None:
        """Remove a file, or a directory."""
        self._check(path)
        below = self._below(path)
        if below and not recursive:
            raise InvalidRequest(f"{path} is a directory that is not empty")
        for name in (*below, path):
            self._contents.pop(name, None)
            self._directories.discard(name)
            self._modes.pop(name, None)
        self._directories.add(posixpath.dirname(path))

    def _way(self, path: str) -> list[str]:
        links = {name.encode(): target.encode() for name, target in self._links.items()}
        try:
            return [passed.decode() for passed in way_of(path.encode(), links.get)]
        except OSError as error:
            raise OperationFailed(f"can't resolve {path}: {error.strerror}") from error

    def _content(self, path: str) -> bytes:
        path = self._way(path)[-1]
        if path not in self._contents:
            raise NotFound(f"{path} does not exist")
        return self._contents[path]

    def _below(self, path: str) -> list[str]:
        """Return everything below a directory, in order."""
        prefix = path.rstrip("/") + "/"
        found = {name for name in (*self._contents, *self._directories) if name.startswith(prefix)}
        for name in list(found):
            while (name := posixpath.dirname(name)).startswith(prefix):
                found.add(name)
        return sorted(found)

    def _is_directory(self, path: str) -> bool:
        return path == "/" or path in self._directories or bool(self._below(path))

    def _refuse_link(self, path: str) -> None:
        if not self._follows_links and len(self._way(path)) > 1:
            raise InvalidRequest(f"path {path!r} contains a symbolic link, which must not be followed")

    def _check(self, path: str) -> None:
        self._refuse_link(path)
        if path in self._refused:
            raise InvalidRequest(f"{path} can't be written")
