"""A watch on a directory, with or without everything below it, or on one file.

A file is watched by its name in its directory, so that one which is replaced as a whole, as most
editors do, stays watched. Links below the root are not followed. A directory that appears is
looked through after it was added: what was made in it before is told as well, some of it perhaps
twice. Directories that may not be read are left out, and so is whatever is out of the `sight` of
whoever asked. Where a directory is was decided when it was added: one that is moved on is watched no longer.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import stat
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from paddock.errors import InvalidRequest, RequestError
from paddock.fs.changes import MAX_PATHS, Batch, Changes
from paddock.fs.replacement import is_temporary
from paddock.fs.resolve import open_directory
from paddock.fs.sight import HeldDirectory, Sight, below, require_sight
from paddock.fs.watch_set import WatchSet, watch_error
from paddock.inotify import Notice, RawNotice
from paddock.model.change import ChangeKind

MAX_DIRECTORIES = 50_000
"""Directories of one watch: each costs about a kilobyte of the kernel's memory."""

LOOKED_AT_ONCE = 128
"""Directories that one look adds: some milliseconds, in which no notices are read."""

_KINDS = (
    (Notice.CREATE | Notice.MOVED_TO, ChangeKind.CREATED),
    (Notice.DELETE | Notice.MOVED_FROM, ChangeKind.DELETED),
    (Notice.MODIFY | Notice.ATTRIB, ChangeKind.MODIFIED),
)
_NAMELESS = re.compile(rb"#\d+")
"""What the kernel calls files without a name (O_TMPFILE); a file may really have such a name."""
_ENDED = Notice.DELETE_SELF | Notice.MOVE_SELF | Notice.UNMOUNT


class _Directory:
    """A directory of the tree, from when its name was seen."""

    __slots__ = ("children", "is_dropped", "is_new", "path", "real", "watch")

    def __init__(self, path: bytes, real: bytes, *, is_new: bool) -> None:
        self.path = path
        """As it is told."""
        self.real = real
        """Where it is, without links."""
        self.is_new = is_new
        """Whether it has appeared since the watch began, and what is in it is to be told."""
        self.watch = -1
        """Its number, once it is watched."""
        self.is_dropped = False
        self.children: dict[bytes, _Directory] | None = None

    def taken_apart(self) -> Iterator[_Directory]:
        """This one and everything below, each without its children when it is given."""
        waiting = [self]
        while waiting:
            directory = waiting.pop()
            if directory.children is not None:
                waiting.extend(directory.children.values())
                directory.children = None
            yield directory


class _Root(NamedTuple):
    """Where the watch is, as it was found when it began."""

    real: bytes
    identity: tuple[int, int]
    only: bytes | None
    """The name of the file, if it is one."""
    held: HeldDirectory | None
    """Tells whether it is still where it was; only needed if not everything may be seen."""


class _Look:
    """What was found in one directory."""

    __slots__ = ("directories", "directory", "has_more", "names", "problem", "watch")

    def __init__(self, directory: _Directory) -> None:
        self.directory = directory
        self.watch: int | None = None
        self.names: list[bytes] = []
        self.directories: list[bytes] = []
        """The names of those in it that are directories."""
        self.has_more = False
        """Whether there were more names than can be told."""
        self.problem: OSError | None = None


class _Doubt(NamedTuple):
    """A change of something that perhaps has no name (`_NAMELESS`)."""

    directory: _Directory
    name: bytes
    kind: ChangeKind


class _Found(NamedTuple):
    """What one look has found: in several directories, or at the path that is to be watched."""

    looks: list[_Look]
    root: _Root | None = None
    problem: OSError | None = None
    named: Sequence[_Doubt] = ()
    """Of the changes that were in doubt, those of files that have their names."""


class TreeWatch:
    """One watch. `begin` makes it, `take` gives what has happened, `end` ends it.

    `on_changed` is called when there is something to take, at least once. Without `sight` everything may
    be seen.
    """

    def __init__(
        self,
        watches: WatchSet,
        path: bytes,
        on_changed: Callable[[], None],
        *,
        is_recursive: bool,
        sight: Sight | None = None,
    ) -> None:
        self._watches = watches
        self._sight = sight
        self._path = path.rstrip(b"/") or b"/"
        self._on_changed = on_changed
        self._is_recursive = is_recursive
        self._changes = Changes()
        self._begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._root: _Root | None = None
        self._tree: _Directory | None = None
        self._count = 0
        self._waiting: deque[_Directory] = deque()
        """Directories that no thread has looked at yet."""
        self._doubts: deque[_Doubt] = deque()
        self._is_rebuilding = False
        self._is_stale = False
        """Whether notices were lost while the tree was being rebuilt."""
        self._verified_at = -1
        self._is_ended = False

    @property
    def is_ended(self) -> bool:
        """Whether its root is gone; nothing will change any more."""
        return self._is_ended

    async def begin(self) -> None:
        """Watch from now on. Raises RequestError; nothing is watched then."""
        self._watches.join(self)
        self._watches.want_look(self)
        try:
            await self._begun
        except BaseException:
            self.end()
            raise

    def take(self) -> Batch:
        """A part of what has happened since it was last asked."""
        return self._changes.take()

    @property
    def has_changes(self) -> bool:
        """Whether there is something to take."""
        return bool(self._changes)

    def end(self) -> None:
        """Watch no longer. Idempotent, and over at once: the tree is taken apart later."""
        if self._is_ended:
            return
        self._is_ended = True
        if not self._begun.done():
            self._begun.set_result(None)
        if self._root is not None and self._root.held is not None:
            self._root.held.close()
        tree, self._tree = self._tree, None
        self._waiting.clear()
        self._doubts.clear()
        self._watches.leave(self, self._drop(tree))

    # --- Subscriber ---------------------------------------------------------

    def heard(self, place: _Directory, notice: RawNotice) -> Iterator[None]:
        """Remember a change; look after directories that come and go."""
        if self._is_ended or place.is_dropped or notice.mask & Notice.IGNORED:
            return
        if not self._is_in_place() or (notice.mask & _ENDED and place is self._tree):
            self._end_with_root()
            return
        name = notice.name
        if not name or notice.mask & _ENDED or not self._is_told(place, name):
            return
        if self._is_recursive and notice.mask & Notice.ISDIR:
            yield from self._follow(place, notice)
        is_in_doubt = _NAMELESS.fullmatch(name) is not None
        for mask, kind in _KINDS:
            if not notice.mask & mask:
                continue
            if not is_in_doubt:
                self._change(below(place.path, name), kind)
            elif len(self._doubts) < MAX_PATHS:
                self._doubts.append(_Doubt(place, name, kind))
                self._watches.want_look(self)
            else:
                self._miss()

    def overflowed(self) -> Iterator[None]:
        """Say so, and find the directories anew: some were missed, and others may be elsewhere now."""
        self._changes.overflow()
        self._on_changed()
        if not self._is_recursive or self._tree is None:
            return
        if self._is_rebuilding:
            self._is_stale = True
            return
        self._is_rebuilding = True
        yield from self._rebuild()

    def next_look(self) -> Callable[[], _Found] | None:
        """Add some more directories."""
        if self._is_ended:
            return None
        if self._root is None:
            return self._enter
        chosen: list[_Directory] = []
        while self._waiting and len(chosen) < LOOKED_AT_ONCE:
            directory = self._waiting.popleft()
            if not directory.is_dropped:
                chosen.append(directory)
        doubts = [self._doubts.popleft() for _ in range(min(len(self._doubts), LOOKED_AT_ONCE))]
        return partial(self._look_at_all, self._root, chosen, doubts) if chosen or doubts else None

    def looked(self, found: _Found) -> Iterator[None]:
        """Register what was added, and look at what was found in it later."""
        if found.root is not None:
            if self._is_ended:
                if found.root.held is not None:
                    found.root.held.close()
            else:
                self._root = found.root
                self._is_recursive = self._is_recursive and found.root.only is None
                self._tree = found.looks[0].directory
                self._count = 1
        if found.problem is not None:
            self._fail(watch_error(found.problem, self._path))
        for look in found.looks:
            yield from self._register(look)
        for doubt in found.named:
            self._change(below(doubt.directory.path, doubt.name), doubt.kind)
            yield
        if not self._waiting and not self._is_ended:
            yield from self._complete()

    def look_failed(self, problem: RequestError) -> None:
        """Nothing could be looked at."""
        self._fail(problem)

    # --- on the loop --------------------------------------------------------

    def _is_told(self, place: _Directory, name: bytes) -> bool:
        """Whether somebody who sees the tree is told of a name in one of its directories."""
        assert self._root is not None
        if self._root.only is not None and name != self._root.only:
            return False
        if self._sight is not None and not self._sight(below(place.real, name)):
            return False
        # A file that is written beside its place: what it comes to is told when it is there.
        return not is_temporary(name)

    def _is_in_place(self) -> bool:
        """Whether the root is where it was when it was judged; a directory above it gives no notice.

        One look after each reading is enough: what it gave has happened before.
        """
        if self._root is None or self._root.held is None or self._verified_at == self._watches.readings:
            return True
        self._verified_at = self._watches.readings
        return self._root.held.is_at(self._root.real)

    def _follow(self, place: _Directory, notice: RawNotice) -> Iterator[None]:
        """A directory has come or gone."""
        if not notice.mask & (Notice.DELETE | Notice.MOVED_FROM | Notice.CREATE | Notice.MOVED_TO):
            return
        # Also if one comes: it may have taken the place of another, of which nothing else is told here.
        if place.children is not None and (known := place.children.pop(notice.name, None)) is not None:
            yield from self._drop(known)
        if notice.mask & (Notice.CREATE | Notice.MOVED_TO):
            self._expect(place, notice.name, is_new=True)

    def _expect(self, place: _Directory, name: bytes, *, is_new: bool) -> None:
        """Have a directory looked at."""
        if self._count >= MAX_DIRECTORIES or self._watches.is_full:
            self._fail(
                InvalidRequest(
                    f"{os.fsdecode(self._path)!r} has more than {MAX_DIRECTORIES} directories, or all "
                    "watches of this connection have too many; watch a part of it, or without recursive"
                )
            )
            return
        directory = _Directory(below(place.path, name), below(place.real, name), is_new=is_new)
        if place.children is None:
            place.children = {}
        place.children[name] = directory
        self._count += 1
        self._waiting.append(directory)
        self._watches.want_look(self)

    def _register(self, look: _Look) -> Iterator[None]:
        directory = look.directory
        yield
        if self._is_ended or directory.is_dropped:
            if look.watch is not None:
                self._watches.abandon(look.watch)
            return
        if look.problem is not None:
            if look.watch is not None:
                self._watches.abandon(look.watch)
            if directory is self._tree and self._begun.done():
                # When the tree was looked through again: it is gone, or another is there.
                self._end_with_root()
            elif directory is self._tree or look.problem.errno == errno.ENOSPC:
                self._fail(watch_error(look.problem, directory.path))
            # Below the root, a directory may have gone again, or not be for this user.
            return
        assert look.watch is not None
        directory.watch = look.watch
        self._watches.listen(look.watch, self, directory)
        for name in look.directories:
            self._expect(directory, name, is_new=directory.is_new)
            yield
        if directory.is_new:
            for name in look.names:
                self._change(below(directory.path, name), ChangeKind.CREATED)
                yield
            if look.has_more:
                self._miss()

    def _complete(self) -> Iterator[None]:
        """Everything that was known to be there is watched now."""
        if not self._begun.done():
            self._begun.set_result(None)
        if self._is_rebuilding:
            # What has happened meanwhile in directories that were not watched yet is not known.
            self._miss()
            self._is_rebuilding = self._is_stale
            if self._is_stale:
                self._is_stale = False
                yield from self._rebuild()

    def _rebuild(self) -> Iterator[None]:
        """Forget the tree, and look through all of it."""
        assert self._root is not None
        tree, self._tree = self._tree, _Directory(self._path, self._root.real, is_new=False)
        self._waiting.clear()
        yield from self._drop(tree)
        if self._tree is not None:
            self._count = 1
            self._waiting.append(self._tree)
            self._watches.want_look(self)

    def _drop(self, tree: _Directory | None) -> Iterator[None]:
        """Forget a directory and what is below it: it may be elsewhere, where another path is true."""
        for directory in tree.taken_apart() if tree is not None else ():
            directory.is_dropped = True
            self._count -= 1
            if directory.watch >= 0:
                self._watches.forget(directory.watch, self, directory)
            yield

    def _fail(self, problem: RequestError) -> None:
        """Something can't be watched."""
        if not self._begun.done():
            self._begun.set_exception(problem)
        else:
            # Nobody waits for the reason; what happens there will be missing.
            self._miss()

    def _miss(self) -> None:
        self._changes.overflow()
        self._on_changed()

    def _end_with_root(self) -> None:
        self._change(self._path, ChangeKind.DELETED)
        self.end()

    def _change(self, path: bytes, kind: ChangeKind) -> None:
        is_file = self._root is not None and self._root.only is not None
        self._changes.add(self._path if is_file else path, kind)
        self._on_changed()

    # --- in a thread --------------------------------------------------------

    def _enter(self) -> _Found:
        """Find what is to be watched, and look at it."""
        try:
            root = self._find()
        except OSError as error:
            return _Found([], problem=error)
        directory = _Directory(self._path, root.real, is_new=False)
        return _Found([self._look_at(root, directory, is_root=True)], root)

    def _find(self) -> _Root:
        with HeldDirectory(os.open(self._path, os.O_PATH | os.O_CLOEXEC)) as target:
            real, only = target.real(), None
            if not stat.S_ISDIR(os.fstat(target.file).st_mode):
                real, only = os.path.split(real)
        held = HeldDirectory(open_directory(real))
        try:
            if not held.is_at(real):
                raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
            # A single file may be in sight where its directory is not.
            require_sight(self._sight, real if only is None else below(real, only))
            if only is not None:
                os.stat(only, dir_fd=held.file, follow_symlinks=False)
            identity = _identity(held)
        except BaseException:
            held.close()
            raise
        if self._sight is None:
            held.close()
            return _Root(real, identity, only, None)
        return _Root(real, identity, only, held)

    def _look_at_all(self, root: _Root, directories: list[_Directory], doubts: list[_Doubt]) -> _Found:
        tree = self._tree
        looks = [self._look_at(root, each, is_root=each is tree) for each in directories]
        return _Found(looks, named=[each for each in doubts if _has_name(each)])

    def _look_at(self, root: _Root, directory: _Directory, *, is_root: bool) -> _Look:
        """Add a directory and list it. One descriptor is judged, watched and listed.

        A name would lead elsewhere if somebody exchanged it, or one above it, for a link in between. If the
        directory itself is moved on, nothing of what was found in it is told.
        """
        look = _Look(directory)
        try:
            with HeldDirectory(open_directory(directory.real)) as held:
                if not held.is_at(directory.real) or (is_root and _identity(held) != root.identity):
                    raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
                if root.only is None:
                    require_sight(self._sight, directory.real)
                look.watch = self._watches.inotify.add(held.path, follow=True)
                if self._is_recursive and root.only is None:
                    # After it was added: what is made from now on gives a notice, what is there now is found.
                    self._list(held, look)
                if self._sight is not None and not held.is_at(directory.real):
                    raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        except OSError as error:
            look.problem = error
        return look

    def _list(self, held: HeldDirectory, look: _Look) -> None:
        real, is_new = look.directory.real, look.directory.is_new
        try:
            listing = os.open(b".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=held.file)
        except OSError:
            # Not to be read; it is watched all the same.
            return
        try:
            with os.scandir(listing) as entries:
                for entry in entries:
                    name = os.fsencode(entry.name)
                    if self._sight is not None and not self._sight(below(real, name)):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        look.directories.append(name)
                    if is_new and len(look.names) < MAX_PATHS:
                        look.names.append(name)
                    elif is_new:
                        look.has_more = True
                    if len(look.directories) > MAX_DIRECTORIES:
                        return
        except OSError:
            # Gone again.
            return
        finally:
            os.close(listing)


def _identity(held: HeldDirectory) -> tuple[int, int]:
    status = os.fstat(held.file)
    return status.st_dev, status.st_ino


def _has_name(doubt: _Doubt) -> bool:
    # One that is gone had a name.
    return doubt.kind is ChangeKind.DELETED or os.path.lexists(below(doubt.directory.real, doubt.name))
