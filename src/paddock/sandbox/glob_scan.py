"""What the deny patterns of a profile match on this host.

A match is a file or a directory, which is denied as a whole; of a symbolic link it is
what the link points to; of a file with several names, all those in the searched
directories. Links to directories are not followed.

The result is a snapshot: files that are made later are not in it. Directories are
read again only when their change time differs from that of the last search, so a
large tree costs one stat for each directory, also in the next process. A change time
can't be set back by a command, as a modification time can.

No other program is asked: those that list files fast, such as ripgrep, list neither
links nor directories, and a second walk for these costs as much as one for all.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from paddock.errors import ProfileRefused
from paddock.sandbox.glob import Pattern, regular_expression
from paddock.sandbox.tree_memory import Directory, TreeMemory

MATCH_LIMIT: Final = 1000
"""Matches of one profile. Each is a mount, and bubblewrap reads the whole table of mounts for each: a
thousand take some seconds, and the time grows with the square."""

SETTLED_NS: Final = 2_000_000_000
"""The age at which a change time is believed: a later change could still get the same time, for clocks of
file systems tick in steps of up to two seconds."""

FileId = tuple[int, int]
Judge = Callable[[str, os.DirEntry[str]], bool]
"""Whether an entry, at a path relative to the top, is a hit."""


class Scanner:
    """Searches, and remembers. May be used from any thread; one search at a time.

    With `memory_file`, in a directory that no command can write, the next process remembers, too.
    """

    def __init__(self, memory_file: Path | None = None) -> None:
        self._lock = threading.Lock()
        self._memory = TreeMemory(memory_file)

    def matches(
        self,
        patterns: Sequence[Pattern],
        link_roots: Iterable[str] = (),
        max_depth: int | None = None,
        *,
        denied: Iterable[str] = (),
    ) -> tuple[str, ...]:
        """Everything that must be denied because of the patterns, without links, sorted.

        Other names of the files that match, and of those that are `denied` anyway, are
        looked for below `link_roots` and where the patterns search. Raises
        ProfileRefused when there is more than can be denied.
        """
        with self._lock:
            bases = list(dict.fromkeys(os.path.realpath(pattern.base) for pattern in patterns))
            found: set[str] = set()
            for pattern in patterns:
                found.update(self._matches_of(pattern, max_depth))
            several_names = _files_with_several_names((*found, *denied))
            if several_names:
                for root in dict.fromkeys((*bases, *link_roots)):
                    found.update(self._names_of(several_names, root))
            self._memory.save()
            _refuse_too_many(found)
            return tuple(sorted(found))

    def _matches_of(self, pattern: Pattern, max_depth: int | None) -> Iterator[str]:
        expression = regular_expression(pattern.rest)
        top = os.path.realpath(pattern.base)
        key = f"{top} {pattern.rest} {max_depth}"
        hits = self._hits(key, top, lambda path, _: expression.fullmatch(path) is not None, max_depth)
        for path in hits:
            if os.path.islink(path):
                path = os.path.realpath(path)
            if os.path.lexists(path):
                yield path

    def _names_of(self, files: frozenset[FileId], root: str) -> Iterator[str]:
        inodes = {inode for _, inode in files}
        key = f"{root} {sorted(files)}"
        candidates = self._hits(key, root, lambda _, entry: entry.inode() in inodes, None)
        return (path for path in candidates if _file_id(path) in files)

    def _hits(self, key: str, top: str, judge: Judge, max_depth: int | None) -> Iterator[str]:
        """The paths of all hits below a directory; what is below a hit is not looked at."""
        known = self._memory.recall(key)
        seen: dict[str, Directory] = {}
        waiting = [("", 1)]
        while waiting:
            relative, level = waiting.pop()
            path = f"{top}/{relative}" if relative else top
            directory = _read(path, relative, judge, known.get(relative))
            if directory is None:
                continue
            seen[relative] = directory
            yield from (os.path.join(path, name) for name in directory.hits)
            if max_depth is None or level < max_depth:
                prefix = f"{relative}/" if relative else ""
                waiting += [(prefix + name, level + 1) for name in directory.directories]
        self._memory.remember(key, seen)


def _read(path: str, relative: str, judge: Judge, known: Directory | None) -> Directory | None:
    """What a directory holds; None if this user can't read it, for then its commands can't either."""
    try:
        changed_ns = os.stat(path, follow_symlinks=False).st_ctime_ns
        if known is not None and known.is_settled and known.changed_ns == changed_ns:
            return known
        directories, hits = [], []
        prefix = f"{relative}/" if relative else ""
        with os.scandir(path) as entries:
            for entry in entries:
                if judge(prefix + entry.name, entry):
                    hits.append(entry.name)
                elif entry.is_dir(follow_symlinks=False):
                    directories.append(entry.name)
    except OSError:
        return None
    is_settled = time.time_ns() - changed_ns > SETTLED_NS
    return Directory(changed_ns, is_settled, tuple(directories), tuple(hits))


def _files_with_several_names(paths: Iterable[str]) -> frozenset[FileId]:
    files = set()
    for path in paths:
        try:
            status = os.stat(path)
        except OSError:
            continue
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
