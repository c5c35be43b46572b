"""What searches have found in directories, kept for the next search and the next process.

A file that can't be read or written is as if there were none. Whoever can write it
decides what deny patterns match, so it must be out of reach of every command.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Final

import msgspec

TREE_LIMIT: Final = 32
"""Searches that are remembered: a few profiles in a few workspaces. The oldest goes first."""

DIRECTORY_LIMIT: Final = 200_000
"""Directories of all of them that are written to the file: about 20 MB, read in a tenth of a second."""


class Directory(msgspec.Struct, frozen=True, array_like=True):
    """What a directory held when it was read last."""

    inode: int
    changed_ns: int
    is_settled: bool
    """Whether its change time was old enough then to tell a later change."""
    directories: tuple[str, ...]
    hits: tuple[str, ...]

    def is_of(self, status: os.stat_result) -> bool:
        """Whether it is the same directory, as it was then."""
        return self.changed_ns == status.st_ctime_ns and self.inode == status.st_ino


Tree = dict[str, Directory]
"""Directories by their path relative to where the search began."""


class TreeMemory:
    """Trees by key: in this process, and in a file if one is given."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._trees: dict[str, Tree] | None = None
        self._has_changed = False

    def recall(self, key: str) -> Tree:
        """What was found by the last search with this key; empty if there was none."""
        return self._loaded().get(key, {})

    def remember(self, key: str, tree: Tree) -> None:
        """Keep what a search has found."""
        trees = self._loaded()
        if trees.get(key) != tree:
            self._has_changed = True
        trees.pop(key, None)
        trees[key] = tree
        while len(trees) > TREE_LIMIT:
            del trees[next(iter(trees))]

    def save(self) -> None:
        """Write the file, if there is anything new. A reader sees the old or the new one."""
        trees = self._loaded()
        if self._file is None or not self._has_changed:
            return
        self._has_changed = False
        if sum(map(len, trees.values())) > DIRECTORY_LIMIT:
            return
        # Names that are not UTF-8 can't be encoded.
        with contextlib.suppress(OSError, UnicodeEncodeError):
            content = msgspec.msgpack.encode(trees)
            number, name = tempfile.mkstemp(dir=self._file.parent)
            with os.fdopen(number, "wb") as file:
                file.write(content)
            os.rename(name, self._file)

    def _loaded(self) -> dict[str, Tree]:
        if self._trees is None:
            self._trees = {}
            if self._file is not None:
                with contextlib.suppress(OSError, msgspec.DecodeError):
                    self._trees = msgspec.msgpack.decode(
                        self._file.read_bytes(), type=dict[str, dict[str, Directory]]
                    )
        return self._trees
