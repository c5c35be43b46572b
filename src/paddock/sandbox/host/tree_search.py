"""Searches a tree once for the wanted entries below a directory.

The search reads a directory again only when its change time differs from the remembered one. Two share a tree
that turns out to be large: a `FileListing` finds the regular files, while this walk finds everything else.
The result is the same with and without that help; a doubtful listing is not used at all.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from paddock.sandbox.host.absence import ABSENT, refuse_unless
from paddock.sandbox.host.ripgrep import FileListing
from paddock.sandbox.host.tree_memory import Directory, Tree
from paddock.sandbox.profile.path import join

LARGE_TREE: Final = 500
"""Directories to read without help: about as many as can be read while a program starts."""

SETTLED_NS: Final = 2_000_000_000
"""The age at which a change time is trusted. Clocks of file systems tick in steps of up to two seconds, so a
change soon afterwards could get the same time."""


class Bounds(Struct, frozen=True):
    """Where a search goes. All paths are absolute and resolved."""

    top: str
    max_depth: int | None = None
    """Most components in a path to examine."""
    closed: frozenset[str] = frozenset()
    """Directories not to enter."""
    passages: frozenset[str] = frozenset()
    """Directories to enter even if they are hits."""


class TreeSearch:
    """Searches once. Does not look below a hit, unless it is a passage."""

    def __init__(
        self,
        bounds: Bounds,
        is_hit: Callable[[str, os.DirEntry[str]], bool],
        known: Tree,
        list_files: Callable[[], FileListing | None] = lambda: None,
    ) -> None:
        """Have `is_hit` judge paths relative to the top, and `list_files` list the hits that are files."""
        self._bounds = bounds
        self._is_hit = is_hit
        self._known = known
        self._list_files = list_files
        self._tree: Tree = {}
        self._read_alone = 0
        self._listing: FileListing | None = None
        self._listed_since_ns = 0
        self._helped: set[str] = set()
        self.unseen: list[str] = []
        """After `run`: directories that could not be searched, though a command may get into them."""

    def run(self) -> Tree:
        """Return the entries that exist now, without directories that can't be searched.

        Raises ProfileRefused if a directory can't be read for any reason but its permissions.
        """
        try:
            self._walk()
            if self._listing is None:
                return self._tree
            files = self._listing.paths()
        finally:
            if self._listing is not None:
                self._listing.close()
        if files is None:
            alone = TreeSearch(self._bounds, self._is_hit, self._known)
            self.unseen = alone.unseen
            return alone.run()
        self._add(files)
        return self._tree

    def _walk(self) -> None:
        waiting = [("", 1)]
        while waiting:
            relative, level = waiting.pop()
            directory = self._directory(relative)
            if directory is None:
                continue
            self._tree[relative] = directory
            if self._bounds.max_depth is None or level < self._bounds.max_depth:
                waiting += [(child, level + 1) for child in self._children(relative, directory)]

    def _directory(self, relative: str) -> Directory | None:
        path = join(self._bounds.top, relative) if relative else self._bounds.top
        known = self._known.get(relative)
        try:
            now = os.stat(path, follow_symlinks=False)
            # By time alone, a directory that was moved with its parent could pass for another of the same
            # age.
            if known is not None and known.is_settled and known.is_of(now):
                return known
            if not _may(path, os.R_OK | os.X_OK):
                # Its owner can open it again, and anyone who may pass through it only needs a name.
                if now.st_uid == os.geteuid() or _may(path, os.X_OK):
                    self.unseen.append(relative)
                return None
            if self._listing is None:
                self._ask_for_help()
            return self._read(path, relative, now)
        except OSError as error:
            refuse_unless(ABSENT, error, path)
            return None

    def _ask_for_help(self) -> None:
        self._read_alone += 1
        if self._read_alone == LARGE_TREE:
            self._listed_since_ns = time.time_ns()
            self._listing = self._list_files()

    def _read(self, path: str, relative: str, now: os.stat_result) -> Directory:
        is_helped = self._listing is not None
        directories, hits = [], []
        prefix = f"{relative}/" if relative else ""
        with os.scandir(path) as entries:
            for entry in entries:
                if is_helped and entry.is_file(follow_symlinks=False):
                    continue
                if self._is_hit(prefix + entry.name, entry):
                    hits.append(entry.name)
                elif entry.is_dir(follow_symlinks=False):
                    directories.append(entry.name)
        if is_helped:
            self._helped.add(relative)
        # The listing may have read it at any time since its start.
        read_ns = self._listed_since_ns if is_helped else time.time_ns()
        is_settled = read_ns - now.st_ctime_ns > SETTLED_NS
        return Directory(now.st_ino, now.st_ctime_ns, is_settled, tuple(directories), tuple(hits))

    def _children(self, relative: str, directory: Directory) -> list[str]:
        closed, passages = self._bounds.closed, self._bounds.passages
        path = join(self._bounds.top, relative) if relative else self._bounds.top
        names = [name for name in directory.directories if join(path, name) not in closed]
        names += [name for name in directory.hits if join(path, name) in passages]
        return [f"{relative}/{name}" if relative else name for name in names]

    def _add(self, files: list[str]) -> None:
        """Add the listed files as the walk would have, except below directories that it did not enter."""
        hits: dict[str, list[str]] = {}
        for path in files:
            relative, _, name = path.rpartition("/")
            if relative in self._helped:
                hits.setdefault(relative, []).append(name)
        for relative, names in hits.items():
            directory = self._tree[relative]
            self._tree[relative] = replace(directory, hits=(*directory.hits, *names))


def _may(path: str, mode: int) -> bool:
    return os.access(path, mode, effective_ids=True)
