"""A watch on a directory, with or without everything below it, or on one file.

A file is watched by its name in its directory, so that it stays watched when an editor replaces it as a
whole, as most do. The watch does not follow links below the root. It lists a new directory after adding it,
and also reports what was made in it before, perhaps twice. It leaves out directories that it may not read and
whatever the client's read filter hides. A directory is checked where it was when it was added: the watch
drops one that is moved.

If a directory can't be added because descriptors, memory, threads or watches run out, a watch that is just
beginning fails. A running watch tries again until it succeeds, and tells the client at the beginning and at
the end of that time that changes are missing.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial

from paddock.errors import InvalidRequest, RequestError
from paddock.fs.changes import Batch, Changes
from paddock.fs.read_filter import KeptDirectory, ReadFilter, below
from paddock.fs.replacement import is_replacing, is_temporary
from paddock.fs.watch_look import (
    NOT_TO_BE_SEEN,
    SHORT,
    Directory,
    Doubt,
    Found,
    Look,
    LookBudget,
    Root,
    TreeLook,
)
from paddock.fs.watch_set import WatchSet, watch_error
from paddock.inotify import Notice, RawNotice
from paddock.model.change import ChangeKind

MAX_DIRECTORIES = 50_000
"""Limit for the directories of one watch: each costs about a kilobyte of kernel memory."""

DIRECTORY_BYTES = 512
"""Bytes that a directory takes here besides its path: 72 for itself, 100 among the children of its parent and
230 if it has some, 100 for its watch."""

LOOKED_AT_ONCE = 128
"""Directories that one look adds, which takes some milliseconds in which no notices are read."""

CHOSEN_FROM = 1024
"""Waiting directories from which one look chooses, skipping those that are gone again."""

MAX_DOUBTS = 512
"""Limit for changes to perhaps nameless files that wait for the next look, which takes them all."""

RETRY_S = 1.0
"""Delay before trying again to add directories for which there was no room."""

_KINDS = (
    (Notice.CREATE | Notice.MOVED_TO, ChangeKind.CREATED),
    (Notice.DELETE | Notice.MOVED_FROM, ChangeKind.DELETED),
    (Notice.MODIFY | Notice.ATTRIB, ChangeKind.MODIFIED),
)
_NAMELESS = re.compile(rb"#\d+")
"""The kernel's name for files without one (O_TMPFILE); a file may really have such a name."""
_ENDED = Notice.DELETE_SELF | Notice.MOVE_SELF | Notice.UNMOUNT


class TreeWatch:
    """One watch. `begin` starts it, `take` returns changes, `end` ends it.

    Calls `on_changed` at least once when there is something to take. Without `read_filter` the watch may see
    everything. With it, `real` is where the path leads for the client; the watch opens it without following
    links.
    """

    def __init__(
        self,
        watches: WatchSet,
        path: bytes,
        on_changed: Callable[[], None],
        *,
        is_recursive: bool,
        read_filter: ReadFilter | None = None,
        real: bytes | None = None,
    ) -> None:
        self._watches = watches
        self._number = watches.join(self)
        self._read_filter = read_filter
        self._kept = KeptDirectory()
        self._look = TreeLook(watches.inotify, read_filter, is_recursive=is_recursive)
        self._path = path.rstrip(b"/") or b"/"
        self._target = self._path if real is None else real
        self._on_changed = on_changed
        self._is_recursive = is_recursive
        self._changes = Changes()
        self._begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._root: Root | None = None
        self._tree: Directory | None = None
        self._count = 0
        self._waiting: deque[Directory] = deque()
        """Directories that no thread has examined yet."""
        self._in_look: list[Directory] = []
        """Directories that a thread is looking at."""
        self._rest: asyncio.TimerHandle | None = None
        """Ends the pause after a directory found no room, in which none is examined."""
        self._is_behind = False
        """Whether directories have waited for room, and changes in them were missed."""
        self._replacement = 0
        """The cookie of the last move by which a file of ours took the place of another."""
        self._doubts: list[Doubt] = []
        self._is_rebuilding = False
        self._is_stale = False
        """Whether notices were lost while the tree was being rebuilt."""
        self._verified_at = -1
        self._is_ended = False

    @property
    def is_ended(self) -> bool:
        """Return whether the root has vanished, so that no further change can come."""
        return self._is_ended

    async def begin(self) -> None:
        """Watch from now on. If it raises RequestError, nothing is watched."""
        self._watches.want_look(self._number)
        try:
            await self._begun
        except BaseException:
            self.end()
            raise

    def take(self) -> Batch:
        """Take some of the changes since the last call."""
        return self._changes.take()

    @property
    def has_changes(self) -> bool:
        """Return whether there is something to take."""
        return bool(self._changes)

    def end(self) -> None:
        """Stop watching. Idempotent, and returns at once: the tree is taken apart later."""
        if self._is_ended:
            return
        self._is_ended = True
        if not self._begun.done():
            self._begun.set_result(None)
        if self._rest is not None:
            self._rest.cancel()
        self._kept.close()
        tree, self._tree = self._tree, None
        self._doubts.clear()
        self._watches.leave(self._number, self._drop_all(tree))

    # --- Subscriber ---------------------------------------------------------

    def heard(self, directory: Directory, notice: RawNotice) -> Iterator[None]:
        """Remember a change, and follow directories that come and go."""
        if self._is_ended or directory.is_dropped or notice.mask & Notice.IGNORED:
            return
        if not self._is_in_place() or (notice.mask & _ENDED and directory is self._tree):
            self._end_with_root()
            return
        name = notice.name
        if notice.mask & Notice.MOVED_FROM and is_replacing(name):
            self._replacement = notice.cookie
        if not name or notice.mask & _ENDED or not self._is_told(directory, name):
            return
        if notice.mask & Notice.MOVED_TO and notice.cookie and notice.cookie == self._replacement:
            # Not a new file: an edit, or an atomic write, of one that existed.
            self._change(below(directory.at(self._path), name), ChangeKind.MODIFIED)
            return
        if self._is_recursive and notice.mask & Notice.ISDIR:
            yield from self._follow(directory, notice)
        is_in_doubt = _NAMELESS.fullmatch(name) is not None
        for mask, kind in _KINDS:
            if not notice.mask & mask:
                continue
            if not is_in_doubt:
                self._change(below(directory.at(self._path), name), kind)
            elif len(self._doubts) < MAX_DOUBTS:
                self._doubts.append(Doubt(directory, name, kind))
                self._watches.want_look(self._number)
            else:
                self._miss()

    def overflowed(self) -> Iterator[None]:
        """Report the overflow, and find all directories again: some are missing, others may have moved."""
        self._changes.overflow()
        self._on_changed()
        if not self._is_recursive or self._tree is None:
            return
        if self._is_rebuilding:
            self._is_stale = True
            return
        self._is_rebuilding = True
        yield from self._rebuild()

    def next_look(self) -> Callable[[], Found] | None:
        """Add some more directories."""
        if self._is_ended:
            return None
        budget = LookBudget(min(MAX_DIRECTORIES - self._count, self._watches.left_bytes // DIRECTORY_BYTES))
        if self._root is None:
            root = Directory(self._number, b"", is_new=False)
            return partial(self._look.enter, self._target, self._kept, root, budget)
        chosen = self._in_look = [] if self._rest is not None else self._choose()
        doubts, self._doubts = [each for each in self._doubts if not each.directory.is_dropped], []
        if not chosen and not doubts and (self._rest is not None or not self._waiting):
            return None
        return partial(self._look.look_at_all, self._root, chosen, doubts, budget)

    def looked(self, found: Found) -> Iterator[None]:
        """Register the added directories, and schedule looks at those found in them."""
        self._in_look = []
        if found.root is not None and not self._is_ended:
            self._root = found.root
            self._is_recursive = self._is_recursive and found.root.only is None
            self._tree = found.looks[0].directory
            self._keep(self._tree)
        if found.problem is not None:
            self._fail(watch_error(found.problem, self._path))
        for look in found.looks:
            yield from self._register(look)
        for directory in found.untried:
            self._wait(directory)
            yield
        for doubt in found.named:
            self._change(below(doubt.directory.at(self._path), doubt.name), doubt.kind)
            yield
        if not self._waiting and not self._is_ended:
            yield from self._complete()

    def look_failed(self, problem: RequestError) -> None:
        """Handle a failed look: nothing could be examined."""
        if self._is_ended:
            return
        if self._root is None or not self._begun.done():
            self._fail(problem)
            return
        chosen, self._in_look = self._in_look, []
        for directory in chosen:
            self._wait(directory)
        self._try_later()

    # --- on the loop --------------------------------------------------------

    def _is_told(self, directory: Directory, name: bytes) -> bool:
        """Return whether to report a name in one of the directories to the client."""
        assert self._root is not None
        if self._root.only is not None and name != self._root.only:
            return False
        if self._read_filter is not None and not self._read_filter(
            below(directory.at(self._root.real), name)
        ):
            return False
        # An unpublished file beside its place: the watch reports it once it is there.
        return not is_temporary(name)

    def _is_in_place(self) -> bool:
        """Return whether the root is still where it was checked; moving a directory above it gives no notice.

        One check after each read of the queue is enough: its events happened before.
        """
        if self._root is None or self._verified_at == self._watches.readings:
            return True
        self._verified_at = self._watches.readings
        return self._kept.is_at(self._root.real)

    def _follow(self, directory: Directory, notice: RawNotice) -> Iterator[None]:
        """Follow a directory that has come or gone."""
        if not notice.mask & (Notice.DELETE | Notice.MOVED_FROM | Notice.CREATE | Notice.MOVED_TO):
            return
        # Even for a new one: it may have replaced another, and no other notice reports that.
        if (
            directory.children is not None
            and (known := directory.children.pop(notice.name, None)) is not None
        ):
            yield from self._drop(known)
        if notice.mask & (Notice.CREATE | Notice.MOVED_TO):
            self._expect(directory, notice.name, is_new=True)

    def _choose(self) -> list[Directory]:
        """Take the next waiting directories to look at, in order."""
        chosen: list[Directory] = []
        for _ in range(min(len(self._waiting), CHOSEN_FROM)):
            directory = self._waiting.popleft()
            directory.is_waiting = False
            if directory.is_dropped:
                self._let_go(directory)
                continue
            chosen.append(directory)
            if len(chosen) == LOOKED_AT_ONCE:
                break
        return chosen

    def _expect(self, parent: Directory, name: bytes, *, is_new: bool) -> None:
        """Schedule a look at a directory."""
        if self._count >= MAX_DIRECTORIES or self._watches.left_bytes < 0:
            self._refuse_more()
            return
        relative = below(parent.relative, name) if parent.relative else name
        child = Directory(self._number, relative, is_new=is_new)
        if parent.children is None:
            parent.children = {}
        parent.children[name] = child
        self._keep(child)
        self._wait(child)
        self._watches.want_look(self._number)

    def _refuse_more(self) -> None:
        self._fail(
            InvalidRequest(
                f"{os.fsdecode(self._path)!r} has more than {MAX_DIRECTORIES} directories, or all "
                "watches of this connection have too many; watch a part of it, or without recursive"
            )
        )

    def _wait(self, directory: Directory) -> None:
        if not self._is_ended and not directory.is_dropped:
            directory.is_waiting = True
            self._waiting.append(directory)

    def _keep(self, directory: Directory) -> None:
        self._count += 1
        self._watches.keep(_size_bytes(directory))

    def _let_go(self, directory: Directory) -> None:
        self._count -= 1
        self._watches.release(_size_bytes(directory))

    def _register(self, look: Look) -> Iterator[None]:
        directory = look.directory
        yield
        if self._is_ended or directory.is_dropped or look.problem is not None:
            if look.watch is not None:
                self._watches.abandon(look.watch)
            if look.problem is not None and not self._is_ended and not directory.is_dropped:
                self._miss_directory(directory, look.problem)
            return
        assert look.watch is not None
        directory.watch = look.watch
        self._watches.listen(look.watch, directory)
        for name in look.directories:
            self._expect(directory, name, is_new=directory.is_new)
            yield
        if look.is_cut:
            self._refuse_more()
        if directory.is_new:
            for name in look.names:
                self._change(below(directory.at(self._path), name), ChangeKind.CREATED)
                yield
            if look.has_more:
                self._miss()

    def _miss_directory(self, directory: Directory, problem: OSError) -> None:
        """Handle a directory that could not be added, or not be listed."""
        if problem.errno in SHORT and self._begun.done():
            self._wait(directory)
            self._try_later()
        elif directory is self._tree and self._begun.done():
            # This happens when the tree is searched again: the directory is gone, or another is there.
            self._end_with_root()
        elif directory is self._tree or problem.errno not in NOT_TO_BE_SEEN:
            self._fail(watch_error(problem, directory.at(self._path)))

    def _try_later(self) -> None:
        """Look at the waiting directories later, when there may be room again."""
        if not self._is_behind:
            self._is_behind = True
            self._miss()
        if self._rest is None:
            self._rest = asyncio.get_running_loop().call_later(RETRY_S, self._try_again)

    def _try_again(self) -> None:
        self._rest = None
        self._watches.want_look(self._number)

    def _complete(self) -> Iterator[None]:
        """Finish a search: every directory known to exist is watched now."""
        if not self._begun.done():
            self._begun.set_result(None)
        if self._is_rebuilding or self._is_behind:
            # Nobody knows what happened meanwhile in directories that were not watched yet.
            self._is_behind = False
            self._miss()
        if self._is_rebuilding:
            self._is_rebuilding = self._is_stale
            if self._is_stale:
                self._is_stale = False
                yield from self._rebuild()

    def _rebuild(self) -> Iterator[None]:
        """Forget the tree, and search all of it again."""
        assert self._root is not None
        tree, self._tree = self._tree, Directory(self._number, b"", is_new=False)
        self._keep(self._tree)
        yield from self._drop_all(tree)
        if self._tree is not None:
            self._wait(self._tree)
            self._watches.want_look(self._number)

    def _drop_all(self, tree: Directory | None) -> Iterator[None]:
        """Forget every directory, including those that wait."""
        waiting, self._waiting = self._waiting, deque()
        while waiting:
            directory = waiting.popleft()
            directory.is_waiting = False
            if directory.is_dropped:
                self._let_go(directory)
            yield
        if tree is not None:
            yield from self._drop(tree)

    def _drop(self, tree: Directory) -> Iterator[None]:
        """Forget a directory and everything below it: it may have moved, and its path may be wrong."""
        apart = [tree]
        while apart:
            directory = apart.pop()
            children, directory.children = directory.children, None
            if children is not None:
                apart.extend(children.values())
            directory.is_dropped = True
            if not directory.is_waiting:
                # A waiting directory is dropped when its turn comes.
                self._let_go(directory)
            if directory.watch >= 0:
                self._watches.forget(directory.watch, directory)
            yield

    def _fail(self, problem: RequestError) -> None:
        """Handle a directory that can't be watched."""
        if not self._begun.done():
            self._begun.set_exception(problem)
        else:
            # Nobody waits for the reason; changes there will be missing.
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


def _size_bytes(directory: Directory) -> int:
    """Return the memory to count for a directory: its whole path, and its name once more at most."""
    return DIRECTORY_BYTES + 2 * len(directory.relative)
