"""Keeps the results of searches for the next search and the next process.

A memory file that can't be read or written counts as missing. Whoever can write it decides what deny patterns
match, so keep it out of reach of every command.
"""

from __future__ import annotations

import contextlib
import os
import struct
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec

TREE_LIMIT: Final = 32
"""Searches to remember: a few profiles in a few workspaces. The oldest goes first."""

DIRECTORY_LIMIT: Final = 200_000
"""Most directories in the file: about 20 MB, read in a tenth of a second."""

PART_DIRECTORIES: Final = 1000
"""Directories to encode at a time, within a millisecond."""

EARLY_SAVES: Final = 8
"""How often to write the file as soon as there is something new: a process that ends soon searches less."""

SAVE_INTERVAL_S: Final = 10.0
"""Least time between two saves after that. Each command changes its workspace, if only by its placeholders,
and a server would write the file for each. The next process reads again the few directories that have changed
since."""

_LENGTH: Final = struct.Struct("=I")


class Directory(msgspec.Struct, frozen=True, array_like=True):
    """The content of a directory when it was read last."""

    inode: int
    changed_ns: int
    is_settled: bool
    """Whether its change time was old enough then to reveal a later change."""
    directories: tuple[str, ...]
    hits: tuple[str, ...]

    def is_of(self, status: os.stat_result) -> bool:
        """Return whether a status belongs to the same directory, unchanged."""
        return self.changed_ns == status.st_ctime_ns and self.inode == status.st_ino


Tree = dict[str, Directory]
"""Directories by their path relative to where the search began."""


class TreeMemory:
    """Trees by key: in this process, and in a file if one is given. May be used from any thread.

    The file is a sequence of parts, each preceded by its length: encoding or decoding a large tree in one go
    would stop every other thread of this process.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._trees: dict[str, Tree] | None = None
        self._has_changed = False
        self._saves = 0
        self._saved_s = 0.0

    def recall(self, key: str) -> Tree:
        """Return what the last search with this key found; empty if there was none. Do not change it."""
        with self._lock:
            return self._loaded().get(key, {})

    def remember(self, key: str, tree: Tree) -> None:
        """Keep a search's result, which nobody may change any more."""
        with self._lock:
            trees = self._loaded()
            if trees.get(key) != tree:
                self._has_changed = True
            trees.pop(key, None)
            trees[key] = tree
            while len(trees) > TREE_LIMIT:
                del trees[next(iter(trees))]

    def save(self) -> None:
        """Write the file, if there is anything new, and it was not written just now. A reader sees the old or
        the new one."""
        now_s = time.monotonic()
        with self._lock:
            if self._saves >= EARLY_SAVES and now_s - self._saved_s < SAVE_INTERVAL_S:
                return
            trees = dict(self._loaded())
            has_changed, self._has_changed = self._has_changed, False
        if self._file is None or not has_changed or sum(map(len, trees.values())) > DIRECTORY_LIMIT:
            return
        self._saves += 1
        self._saved_s = now_s
        # Names that are not UTF-8 can't be encoded.
        with contextlib.suppress(OSError, UnicodeEncodeError):
            number, name = tempfile.mkstemp(dir=self._file.parent)
            try:
                with os.fdopen(number, "wb") as file:
                    for part in _parts(trees):
                        file.write(_LENGTH.pack(len(part)))
                        file.write(part)
                os.rename(name, self._file)
            except BaseException:
                os.unlink(name)
                raise

    def _loaded(self) -> dict[str, Tree]:
        if self._trees is None:
            self._trees = {}
            if self._file is not None:
                with contextlib.suppress(OSError, msgspec.DecodeError, struct.error):
                    self._trees = _read(self._file.read_bytes())
        return self._trees


def _parts(trees: Mapping[str, Tree]) -> Iterator[bytes]:
    for key, tree in trees.items():
        entries = iter(tree.items())
        while part := dict(islice(entries, PART_DIRECTORIES)):
            yield msgspec.msgpack.encode((key, part))


def _read(content: bytes) -> dict[str, Tree]:
    """Read what `_parts` wrote. Raises DecodeError or struct.error for anything else."""
    trees: dict[str, Tree] = {}
    position = 0
    decoder = msgspec.msgpack.Decoder(tuple[str, dict[str, Directory]])
    while position < len(content):
        (length,) = _LENGTH.unpack_from(content, position)
        position += _LENGTH.size
        key, part = decoder.decode(content[position : position + length])
        trees.setdefault(key, {}).update(part)
        position += length
    return trees
