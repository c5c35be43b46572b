"""A watch on a directory, with or without everything below it, or on one file.

A file is watched by its name in its directory, so that one which is replaced as a whole, as most
editors do, stays watched. Links below the root are not followed. A directory that appears is
looked through after it was added: what was made in it before is told as well, some of it perhaps
twice. Directories that may not be read are left out, and so is whatever is out of the `sight` of
whoever asked. Where a directory is was decided when it was added: one that is moved on is watched no longer.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable
from typing import NamedTuple

from paddock.errors import InvalidRequest, RequestError
from paddock.fs.changes import Batch, Changes
from paddock.fs.replacement import is_temporary
from paddock.fs.sight import Sight, below, held, require_sight
from paddock.fs.watch_set import WatchSet, watch_error
from paddock.inotify import Notice, RawNotice
from paddock.model.change import ChangeKind

MAX_DIRECTORIES = 50_000
"""Directories of one watch: each costs about a kilobyte of the kernel's memory."""

_KINDS = (
    (Notice.CREATE | Notice.MOVED_TO, ChangeKind.CREATED),
    (Notice.DELETE | Notice.MOVED_FROM, ChangeKind.DELETED),
    (Notice.MODIFY | Notice.ATTRIB, ChangeKind.MODIFIED),
)
_NAMELESS = re.compile(rb"#\d+")
"""What the kernel calls files without a name (O_TMPFILE); a file may really have such a name."""
_ENDED = Notice.DELETE_SELF | Notice.MOVE_SELF | Notice.UNMOUNT


class _Directory(NamedTuple):
    """A directory that is watched, and where it really is; that is not asked where everything may be seen."""

    watch: int
    real: bytes


class _Scan:
    """What was found in a tree: directories, which are watched now, all names, and what ended it early."""

    __slots__ = ("directories", "names", "problem")

    def __init__(self) -> None:
        self.directories: list[tuple[_Directory, bytes]] = []
        self.names: list[bytes] = []
        self.problem: RequestError | None = None


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
        self._root = self._path
        self._on_changed = on_changed
        self._is_recursive = is_recursive
        self._changes = Changes()
        self._only: bytes | None = None
        """The name of the file, if it is one."""
        self._directories: dict[bytes, _Directory] = {}
        self._scans = 0
        self._gone: list[bytes] = []
        """Directories that have gone since a scan began that may still tell of them."""
        self._is_ended = False

    @property
    def is_ended(self) -> bool:
        """Whether its root is gone; nothing will change any more."""
        return self._is_ended

    async def begin(self) -> None:
        """Watch from now on. Raises RequestError; nothing is watched then."""
        found = await self._watches.scan(self._add_root, self._register)
        if found.problem is not None:
            self.end()
            raise found.problem

    def take(self) -> Batch:
        """What has happened since it was last asked."""
        return self._changes.take()

    def end(self) -> None:
        """Watch no longer. Idempotent."""
        self._is_ended = True
        for directory in self._directories.values():
            self._watches.forget(directory.watch, self)
        self._directories.clear()

    # --- Subscriber ---------------------------------------------------------

    def heard(self, directory: bytes, notice: RawNotice) -> None:
        """Remember a change; look after directories that come and go."""
        if self._is_ended or notice.mask & Notice.IGNORED:
            return
        if notice.mask & _ENDED:
            if directory == self._root:
                self._change(self._path, ChangeKind.DELETED)
                self.end()
            return
        if not notice.name or (self._only is not None and notice.name != self._only):
            return
        path = below(directory, notice.name)
        if not self._is_seen(directory, notice.name):
            return
        if is_temporary(notice.name) or (_NAMELESS.fullmatch(notice.name) and not os.path.lexists(path)):
            # A file that is written beside its place: what it comes to is told when it is there.
            return
        if self._is_recursive and self._only is None and notice.mask & Notice.ISDIR:
            if notice.mask & (Notice.DELETE | Notice.MOVED_FROM):
                self._drop_below(path)
                if self._scans:
                    self._gone.append(path)
            elif notice.mask & (Notice.CREATE | Notice.MOVED_TO):
                self._spawn_scan(path, self._register_appeared)
        for mask, kind in _KINDS:
            if notice.mask & mask:
                self._change(path, kind)

    def overflowed(self) -> None:
        """Say so, and find the directories that were missed."""
        self._changes.overflow()
        if self._is_recursive and self._only is None and not self._is_ended:
            self._spawn_scan(self._root, self._register_missed)
        self._on_changed()

    def _is_seen(self, directory: bytes, name: bytes) -> bool:
        if self._sight is None:
            return True
        known = self._directories.get(directory)
        return known is not None and self._sight(below(known.real, name))

    def _spawn_scan(self, path: bytes, register: Callable[[_Scan], None]) -> None:
        self._scans += 1
        self._watches.spawn_scan(lambda: self._scan(path), lambda found: self._scanned(found, register))

    def _scanned(self, found: _Scan, register: Callable[[_Scan], None]) -> None:
        register(found)
        for path in self._gone:
            self._drop_below(path)
        self._scans -= 1
        if not self._scans:
            self._gone.clear()

    # --- in a thread --------------------------------------------------------

    def _add_root(self) -> _Scan:
        try:
            if not stat.S_ISDIR(os.stat(self._path).st_mode):
                target = os.path.realpath(self._path)
                self._only = os.path.basename(target)
                self._is_recursive = False
                self._root = os.path.dirname(target)
        except OSError as error:
            found = _Scan()
            found.problem = watch_error(error, self._path)
            return found
        return self._scan(self._root)

    def _scan(self, root: bytes) -> _Scan:
        found = _Scan()
        waiting = [root]
        while waiting and found.problem is None:
            path = waiting.pop()
            if len(found.directories) >= MAX_DIRECTORIES:
                found.problem = InvalidRequest(
                    f"{os.fsdecode(self._path)!r} has more than {MAX_DIRECTORIES} directories; "
                    "watch a part of it, or without recursive"
                )
                break
            try:
                directory = self._add(path)
            except OSError as error:
                # Below the root, a directory may have gone again, or not be for this user.
                if path is self._root or error.errno == errno.ENOSPC:
                    found.problem = watch_error(error, path)
                continue
            found.directories.append((directory, path))
            if self._is_recursive:
                # After it was added: what is made from now on gives a notice, what is there now is found.
                self._list(path, directory.real, found, waiting)
        return found

    def _add(self, path: bytes) -> _Directory:
        is_root = path is self._root
        if self._sight is None:
            return _Directory(self._watches.inotify.add(path, follow=is_root), path)
        with held(path, follow=is_root) as place:
            # A single file may be in sight where its directory is not.
            require_sight(self._sight, place.real if self._only is None else below(place.real, self._only))
            return _Directory(self._watches.inotify.add(place.path, follow=True), place.real)

    def _list(self, path: bytes, real: bytes, found: _Scan, waiting: list[bytes]) -> None:
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    if self._sight is not None and not self._sight(below(real, entry.name)):
                        continue
                    found.names.append(entry.path)
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError:
            # Gone again, or not to be read.
            return

    # --- on the loop --------------------------------------------------------

    def _register(self, found: _Scan) -> None:
        for directory, path in found.directories:
            self._directories[path] = directory
            self._watches.listen(directory.watch, self, path)
        if self._is_ended:
            self.end()

    def _register_missed(self, found: _Scan) -> None:
        if found.problem is not None:
            # Nobody waits for the reason; what happens there will be missing.
            self._changes.overflow()
        self._register(found)

    def _register_appeared(self, found: _Scan) -> None:
        self._register_missed(found)
        for path in found.names:
            self._change(path, ChangeKind.CREATED)

    def _drop_below(self, path: bytes) -> None:
        """A moved directory is still watched, under a path that is no longer true."""
        for directory in [
            known for known in self._directories if known == path or known.startswith(path + b"/")
        ]:
            self._watches.forget(self._directories.pop(directory).watch, self)

    def _change(self, path: bytes, kind: ChangeKind) -> None:
        shown = self._path if self._only is not None else path
        self._changes.add(shown, kind)
        self._on_changed()
