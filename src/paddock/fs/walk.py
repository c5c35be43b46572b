"""Lists a tree, nearest first.

Unless it follows links, a walk reaches every directory from its root without one. If it does, it enters no
directory twice.
"""

from __future__ import annotations

import os
import stat
from collections import deque

from paddock.fs.answer import Walked, WalkedDirectory, WalkError
from paddock.fs.failure import map_os_error
from paddock.fs.operation import Walk
from paddock.fs.resolve import open_beneath

_ENTER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC

ENTRY_BYTES = 48
"""Bytes counted for an entry in addition to its path: about the rest of its JSON, `{"path":"file://","kind":"directory"},`."""


def walk(operation: Walk) -> Walked:
    """List a tree. The list is empty if the root is no directory, or a link that must not be followed.

    A root that does not exist is an error. One that can't be listed is the only entry of `errors`.
    """
    path = operation.path
    follow = operation.follow_directory_links
    try:
        is_directory = stat.S_ISDIR(os.stat(path).st_mode)
    except OSError as error:
        raise map_os_error(error, "walk", path) from error
    if not is_directory or (not follow and os.path.islink(path)):
        return Walked(directories=[], errors=[], is_truncated=False)
    try:
        root = os.open(path, _ENTER | (0 if follow else os.O_NOFOLLOW))
    except OSError as error:
        return Walked(directories=[], errors=[_walk_error(path, error)], is_truncated=False)
    try:
        return _Walker(operation, root).run()
    finally:
        os.close(root)


class _Walker:
    """One walk, with what it has found so far."""

    def __init__(self, limits: Walk, root: int) -> None:
        self._limits = limits
        self._root = root
        self._root_path = limits.path.rstrip(b"/")
        self._waiting: deque[tuple[bytes, int]] = deque([(b"", 0)])
        """Directories to be entered, relative to the root, and their depth."""
        self._entered: set[tuple[int, int]] = set()
        self._scanned = 0
        self._bytes = 0
        self._directories: list[WalkedDirectory] = []
        self._errors: list[WalkError] = []

    def run(self) -> Walked:
        is_complete = True
        entered = 0
        while self._waiting and is_complete:
            if entered == self._limits.max_directories:
                is_complete = False
                break
            path, depth = self._waiting.popleft()
            try:
                descriptor = self._open(path)
            except OSError as error:
                self._fail(path, error)
                continue
            try:
                if self._is_new(descriptor):
                    entered += 1
                    is_complete = self._list(descriptor, path, depth)
            except OSError as error:
                self._fail(path, error)
            finally:
                os.close(descriptor)
        return Walked(directories=self._directories, errors=self._errors, is_truncated=not is_complete)

    def _open(self, path: bytes) -> int:
        if not path:
            return os.dup(self._root)
        if self._limits.follow_directory_links:
            return os.open(path, _ENTER, dir_fd=self._root)
        return open_beneath(self._root, path)

    def _is_new(self, descriptor: int) -> bool:
        if not self._limits.follow_directory_links:
            return True
        status = os.fstat(descriptor)
        identity = (status.st_dev, status.st_ino)
        is_new = identity not in self._entered
        self._entered.add(identity)
        return is_new

    def _list(self, descriptor: int, path: bytes, depth: int) -> bool:
        """List one directory. Return whether everything was within the limits."""
        limits = self._limits
        follow = limits.follow_directory_links
        here = self._absolute(path)
        names: list[bytes] = []
        are_directories: list[bool] = []
        listed = WalkedDirectory(path=here, names=names, are_directories=are_directories)
        self._directories.append(listed)
        with os.scandir(descriptor) as found:
            entries = [(os.fsencode(entry.name), entry) for entry in found]
        entries.sort(key=_name)
        for name, entry in entries:
            if self._scanned == limits.max_entries:
                return False
            self._scanned += 1
            is_directory = _is_directory(entry, follow=follow)
            if not is_directory and not entry.is_file(follow_symlinks=False):
                continue
            self._bytes += len(here) + len(name) + ENTRY_BYTES
            if self._bytes > limits.max_bytes:
                return False
            names.append(name)
            are_directories.append(is_directory)
            is_pruned = limits.prune_hidden and name.startswith(b".")
            if is_directory and depth < limits.max_depth and not is_pruned:
                self._waiting.append((path + b"/" + name if path else name, depth + 1))
        return True

    def _absolute(self, path: bytes) -> bytes:
        return self._root_path + b"/" + path if path else self._root_path

    def _fail(self, path: bytes, error: OSError) -> None:
        self._errors.append(_walk_error(self._absolute(path), error))


def _walk_error(path: bytes, error: OSError) -> WalkError:
    return WalkError(path=path, message=str(map_os_error(error, "list", path)))


def _name(entry: tuple[bytes, os.DirEntry[str]]) -> bytes:
    return entry[0]


def _is_directory(entry: os.DirEntry[str], *, follow: bool) -> bool:
    try:
        return entry.is_dir(follow_symlinks=follow)
    except OSError:
        # Leave out a link that loops or leads where this user may not look, like one that dangles.
        return False
