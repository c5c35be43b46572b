"""The part of a tree watch that runs in a thread: it finds the root, and adds and lists directories.

It opens each directory without following a link, and checks, watches and lists it through that one
descriptor: a name would lead elsewhere if somebody replaced it, or a directory above it, by a link in
between. Nothing here raises, and one look takes a bounded amount of memory.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from paddock.fs.changes import MAX_PATHS
from paddock.fs.read_filter import (
    HeldDirectory,
    KeptDirectory,
    ReadFilter,
    below,
    require_open,
    require_readable,
)
from paddock.fs.resolve import open_directory
from paddock.fs.watch_set import Subscription
from paddock.inotify import Inotify
from paddock.model.change import ChangeKind

SHORT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC})
"""The kernel's errors when it has no room at the moment (open(2), inotify_add_watch(2))."""

NOT_TO_BE_SEEN = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES, errno.EPERM})
"""The kernel's errors for a directory that vanished, or that this user may not see: a watch can omit it."""


class Directory(Subscription, gc=False, eq=False):
    """A directory of the tree, from when its name was seen."""

    relative: bytes
    """Its path below the root; empty for the root itself."""
    is_new: bool
    """Whether it has appeared since the watch began, so that the watch must report what is in it."""
    watch: int = -1
    """Its number, once it is watched."""
    is_waiting: bool = False
    """Whether it is among those that no thread has looked at yet."""
    is_dropped: bool = False
    children: dict[bytes, Directory] | None = None

    def at(self, root: bytes) -> bytes:
        """Return its path, if that of the root is this one."""
        return below(root, self.relative) if self.relative else root


class Doubt(msgspec.Struct, gc=False, eq=False):
    """A change to a file that perhaps has no name."""

    directory: Directory
    name: bytes
    kind: ChangeKind


class Root(NamedTuple):
    """The root of a watch, as it was found when the watch began."""

    real: bytes
    identity: tuple[int, int]
    only: bytes | None
    """The name of the file, if it is one."""


class Look:
    """The findings in one directory."""

    __slots__ = ("directories", "directory", "has_more", "is_cut", "names", "problem", "watch")

    def __init__(self, directory: Directory) -> None:
        self.directory = directory
        self.watch: int | None = None
        self.names: list[bytes] = []
        self.directories: list[bytes] = []
        """The names of those in it that are directories."""
        self.has_more = False
        """Whether there were more names than fit."""
        self.is_cut = False
        """Whether there were more directories than may be kept."""
        self.problem: OSError | None = None


class Found(NamedTuple):
    """The findings of one look: in several directories, or at the path to watch."""

    looks: list[Look]
    root: Root | None = None
    problem: OSError | None = None
    untried: Sequence[Directory] = ()
    """Directories that were not examined, because an earlier one met a shortage."""
    named: Sequence[Doubt] = ()
    """The uncertain changes whose files still have their names."""


class LookBudget:
    """Limit for the names that one look keeps, over all directories."""

    __slots__ = ("directories", "names")

    def __init__(self, directories: int) -> None:
        self.directories = directories
        self.names = MAX_PATHS


class TreeLook:
    """Looks at a tree for one watch. Without `read_filter` the watch may see everything."""

    def __init__(self, inotify: Inotify, read_filter: ReadFilter | None, *, is_recursive: bool) -> None:
        self._inotify = inotify
        self._read_filter = read_filter
        self._is_recursive = is_recursive

    def enter(self, path: bytes, kept: KeptDirectory, directory: Directory, budget: LookBudget) -> Found:
        """Find the root of the watch, and look at it.

        With a read filter, `path` has no links, and `kept` gets the directory to tell whether it stays there.
        """
        try:
            root = self._find_followed(path) if self._read_filter is None else self._find_seen(path, kept)
        except OSError as error:
            return Found([], problem=error)
        return Found([self._look_at(root, directory, budget)], root)

    def look_at_all(
        self, root: Root, directories: list[Directory], doubts: list[Doubt], budget: LookBudget
    ) -> Found:
        """Look at directories; stop at the first for which there is no room."""
        looks: list[Look] = []
        for directory in directories:
            look = self._look_at(root, directory, budget)
            looks.append(look)
            if look.problem is not None and look.problem.errno in SHORT:
                break
        named = [each for each in doubts if self._has_name(root, each)]
        return Found(looks, untried=directories[len(looks) :], named=named)

    def _find_followed(self, path: bytes) -> Root:
        with HeldDirectory(os.open(path, os.O_PATH | os.O_CLOEXEC)) as target:
            real, only = target.real(), None
            if not stat.S_ISDIR(os.fstat(target.file).st_mode):
                real, only = os.path.split(real)
        with HeldDirectory(open_directory(real)) as held:
            return _root(held, real, only)

    def _find_seen(self, path: bytes, kept: KeptDirectory) -> Root:
        # Check first, and by the path alone: the client must not learn whether a hidden path exists.
        require_readable(self._read_filter, path)
        real, only = path, None
        try:
            held = HeldDirectory(open_directory(real))
        except NotADirectoryError:
            # A single file may be readable where its directory is not.
            real, only = os.path.split(path)
            held = HeldDirectory(open_directory(real))
        try:
            root = _root(held, real, only)
        except BaseException:
            held.close()
            raise
        kept.keep(held)
        return root

    def _look_at(self, root: Root, directory: Directory, budget: LookBudget) -> Look:
        """Add a directory and list it. If it moves meanwhile, the watch does not report what was in it."""
        look = Look(directory)
        real = directory.at(root.real)
        try:
            with HeldDirectory(open_directory(real)) as held:
                if not held.is_at(real) or (not directory.relative and _identity(held) != root.identity):
                    raise _error(errno.ENOENT)
                if root.only is None and self._read_filter is not None:
                    require_readable(self._read_filter, real)
                    require_open(held)
                look.watch = self._inotify.add(held.path, follow=True)
                if self._is_recursive and root.only is None:
                    # List it after adding it: the listing finds what is there now, and notices report what
                    # comes later.
                    self._list(held, real, look, budget)
                if self._read_filter is not None and not held.is_at(real):
                    raise _error(errno.ENOENT)
        except OSError as error:
            look.problem = error
        return look

    def _list(self, held: HeldDirectory, real: bytes, look: Look, budget: LookBudget) -> None:
        try:
            listing = os.open(b".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=held.file)
            try:
                with os.scandir(listing) as entries:
                    for entry in entries:
                        self._see(entry, real, look, budget)
                        if look.is_cut:
                            return
            finally:
                os.close(listing)
        except OSError as error:
            # The directory is unreadable but can still be watched, or it is gone again.
            if error.errno not in NOT_TO_BE_SEEN:
                raise

    def _see(self, entry: os.DirEntry[str], real: bytes, look: Look, budget: LookBudget) -> None:
        name = os.fsencode(entry.name)
        if self._read_filter is not None and not self._read_filter(below(real, name)):
            return
        if entry.is_dir(follow_symlinks=False):
            if budget.directories <= 0:
                look.is_cut = True
                return
            budget.directories -= 1
            look.directories.append(name)
        if look.directory.is_new and budget.names > 0:
            budget.names -= 1
            look.names.append(name)
        elif look.directory.is_new:
            look.has_more = True

    def _has_name(self, root: Root, doubt: Doubt) -> bool:
        if doubt.kind is ChangeKind.DELETED:
            # A removed file had a name.
            return True
        real = doubt.directory.at(root.real)
        try:
            with HeldDirectory(open_directory(real)) as held:
                if not held.is_at(real):
                    return False
                os.stat(doubt.name, dir_fd=held.file, follow_symlinks=False)
                return held.is_at(real)
        except OSError as error:
            # We could not look: one notice too many is better than one too few.
            return error.errno in SHORT


def _root(held: HeldDirectory, real: bytes, only: bytes | None) -> Root:
    if not held.is_at(real):
        raise _error(errno.ENOENT)
    if only is not None and stat.S_ISLNK(os.stat(only, dir_fd=held.file, follow_symlinks=False).st_mode):
        # It was a file when its path was found.
        raise _error(errno.ENOENT)
    return Root(real, _identity(held), only)


def _identity(held: HeldDirectory) -> tuple[int, int]:
    status = os.fstat(held.file)
    return status.st_dev, status.st_ino


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))
