"""What the deny patterns of a profile match on this host.

A match is a file or a directory, which is denied as a whole; of a symbolic link it is
what the link points to; of a file with several names, all those in the searched
directories. Links to directories are not followed.

The result is a snapshot: files that are made later are not in it. Directories are
read again only when their change time differs from that of the last search, so a
large tree costs one stat for each directory. A change time can't be set back by a
command, as a modification time can.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from paddock.errors import ProfileRefused
from paddock.sandbox.glob import Pattern, regular_expression

MATCH_LIMIT: Final = 1000
"""Matches of one profile. Each is a mount, and bubblewrap reads the whole table of mounts for each: a
thousand take about half a second, and the time grows with the square."""

TREE_LIMIT: Final = 32
"""Searches that are remembered: a few profiles in a few workspaces."""

SETTLED_NS: Final = 2_000_000_000
"""The age at which a change time is believed: a later change could still get the same time, for clocks of
file systems tick in steps of up to two seconds."""

FileId = tuple[int, int]
Judge = Callable[[str, os.DirEntry[str]], bool]
"""Whether an entry, at a path relative to the top, is a hit."""


@dataclass(frozen=True, slots=True)
class _Directory:
    """What a directory held when it was read last."""

    changed_ns: int
    is_settled: bool
    directories: tuple[str, ...]
    hits: tuple[str, ...]


class Scanner:
    """Searches, and remembers. May be used from any thread; one search at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._trees: OrderedDict[object, dict[str, _Directory]] = OrderedDict()

    def matches(
        self, patterns: Sequence[Pattern], link_roots: Iterable[str] = (), max_depth: int | None = None
    ) -> tuple[str, ...]:
        """Everything that must be denied because of the patterns, without links, sorted.

        Other names of the files that match are looked for below `link_roots` and where
        the patterns search. Raises ProfileRefused when there is more than can be denied.
        """
        with self._lock:
            bases = list(dict.fromkeys(os.path.realpath(pattern.base) for pattern in patterns))
            found: set[str] = set()
            for pattern in patterns:
                found.update(self._matches_of(pattern, max_depth))
            several_names = _files_with_several_names(found)
            if several_names:
                for root in dict.fromkeys((*bases, *link_roots)):
                    found.update(self._names_of(several_names, root))
            _refuse_too_many(found)
            return tuple(sorted(found))

    def _matches_of(self, pattern: Pattern, max_depth: int | None) -> Iterator[str]:
        expression = regular_expression(pattern.rest)
        top = os.path.realpath(pattern.base)
        hits = self._hits(
            (top, pattern.rest, max_depth), top, lambda path, _: bool(expression.fullmatch(path)), max_depth
        )
        for path in hits:
            if os.path.islink(path):
                path = os.path.realpath(path)
            if os.path.lexists(path):
                yield path

    def _names_of(self, files: frozenset[FileId], root: str) -> Iterator[str]:
        inodes = {inode for _, inode in files}
        candidates = self._hits((root, files), root, lambda _, entry: entry.inode() in inodes, None)
        return (path for path in candidates if _file_id(path) in files)

    def _hits(self, key: object, top: str, judge: Judge, max_depth: int | None) -> Iterator[str]:
        """The paths of all hits below a directory; what is below a hit is not looked at."""
        known = self._trees.pop(key, {})
        seen: dict[str, _Directory] = {}
        self._trees[key] = seen
        while len(self._trees) > TREE_LIMIT:
            self._trees.popitem(last=False)
        waiting = [("", 1)]
        while waiting:
            relative, level = waiting.pop()
            path = os.path.join(top, relative) if relative else top
            directory = _read(path, relative, judge, known.get(relative))
            if directory is None:
                continue
            seen[relative] = directory
            yield from (os.path.join(path, name) for name in directory.hits)
            if max_depth is None or level < max_depth:
                waiting += [(os.path.join(relative, name), level + 1) for name in directory.directories]


def _read(path: str, relative: str, judge: Judge, known: _Directory | None) -> _Directory | None:
    """What a directory holds; None if this user can't read it, for then its commands can't either."""
    try:
        changed_ns = os.stat(path, follow_symlinks=False).st_ctime_ns
        if known is not None and known.is_settled and known.changed_ns == changed_ns:
            return known
        directories, hits = [], []
        with os.scandir(path) as entries:
            for entry in entries:
                if judge(os.path.join(relative, entry.name), entry):
                    hits.append(entry.name)
                elif entry.is_dir(follow_symlinks=False):
                    directories.append(entry.name)
    except OSError:
        return None
    is_settled = time.time_ns() - changed_ns > SETTLED_NS
    return _Directory(changed_ns, is_settled, tuple(directories), tuple(hits))


def _files_with_several_names(paths: Iterable[str]) -> frozenset[FileId]:
    files = set()
    for path in paths:
        status = os.stat(path, follow_symlinks=False)
        if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
            files.add((status.st_dev, status.st_ino))
    return frozenset(files)


def _file_id(path: str) -> FileId | None:
    try:
        status = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _refuse_too_many(found: set[str]) -> None:
    if len(found) > MATCH_LIMIT:
        raise ProfileRefused(
            "the deny patterns",
            f"match {len(found)} paths, more than the {MATCH_LIMIT} that can be denied one by one",
            "deny the directories they are in",
        )
