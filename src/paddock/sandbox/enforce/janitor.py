"""The launcher's side of paddock-janitor, which keeps the placeholders that sandboxes need to exist.

A launching process has one janitor, started when it is first needed. It removes what it made when the last
sandbox that needs it has ended, or when the launcher is killed (native/janitor.c). If the janitor itself is
killed, the launcher starts another when it next needs one; until then the sandboxes' locks keep their
placeholders. This module does not know what the placeholders are for.

While a placeholder is made, held and removed, other commands may replace any directory above it by a link. So
Paddock locates it once: it opens the directory without following links, and the janitor and `lock` act in
that very directory or not at all.
"""

from __future__ import annotations

import _socket as socket  # The module `socket` takes twenty times as long to load.
import contextlib
import errno
import fcntl
import os
import sys
from _thread import allocate_lock
from array import array
from collections import Counter

from paddock import own_program
from paddock.c_string import c_strings
from paddock.errors import SandboxUnavailable
from paddock.native_program import native_path
from paddock.own_program import own_environment
from paddock.sandbox.host.linkless import identity_without_links, open_without_links
from paddock.sandbox.host.mounted_file import MountedFile
from paddock.sandbox.host.placeholder import LocatedPlaceholder, Placeholder, PlaceholderKind
from paddock.sandbox.profile.path import parent
from paddock.shortage import raise_if_short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Final

PROGRAM: Final = native_path("paddock-janitor")
PACKET_BYTES: Final = 64 << 10
"""As in native/janitor.c."""

JOURNALS: Final = "places"
"""Directory of the journals, in the launcher's own. A journal that is not locked belongs to a janitor that
was killed."""

_KINDS: Final = {PlaceholderKind.DIRECTORY: "d", PlaceholderKind.FILE: "f", PlaceholderKind.SOCKET: "s"}
_HOLD, _DROP, _LINGER, _MASK = b"h", b"d", b"l", b"m"
_KEEP_GROUP, _FORGET_GROUP, _END_GROUP = b"g", b"f", b"e"


class PlaceholderTaken(Exception):
    """Something has appeared where a placeholder was planned: files have changed since the plan."""


class NotMasked(Exception):
    """Placeholders can't be mounted in a sandbox that already exists."""


class _Gone(Exception):
    """The helper has ended."""


class Masking:
    """Placeholders that the janitor holds and mounts, while the caller does something else."""

    def __init__(self, placeholders: Sequence[LocatedPlaceholder], file: int) -> None:
        self.placeholders = placeholders
        self._file = file

    def answer(self) -> bytes:
        """Wait for the answer, and return it; nothing if the janitor is gone. To be called once."""
        with os.fdopen(self._file, "rb", buffering=0) as file:
            return file.read()


class Janitor:
    """The running helper. Its methods may be called from any thread and return within a few system calls.

    `directory` is private to the user. When the helper starts, it removes what killed janitors left behind
    and named there.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._journals = os.path.join(directory, JOURNALS)
        self._lock = allocate_lock()
        self._connection: socket.socket | None = None
        self._pid: int | None = None
        self._held: Counter[LocatedPlaceholder] = Counter()
        self._groups: dict[str, None] = {}
        self._closed_pid: int | None = None
        """Set once the helper was told to end."""

    def prepare(self) -> None:
        """Start the helper now, for whoever has something else to do until it is needed."""
        with self._lock:
            if self._connection is None:
                self._connection, self._pid = _start(self._journals)

    def hold(self, placeholders: Sequence[LocatedPlaceholder]) -> None:
        """Make the placeholders exist until each is given to `release`. All, or none.

        Raises PlaceholderTaken when something real is there now, or somebody else has locked it,
        SandboxUnavailable when one can't be made.
        """
        with self.holding(placeholders):
            pass

    @contextlib.contextmanager
    def holding(self, placeholders: Sequence[LocatedPlaceholder]) -> Iterator[None]:
        """Hold placeholders as `hold` does; the block makes the list, and they are held at its end.

        Nothing is held if the block raises. Other threads wait until it ends, and the block must not call
        this object.
        """
        if not placeholders:
            yield
            return
        with self._lock:
            packets = list(_packets(_HOLD, _items(placeholders)))
            # A janitor that has ended does not answer, and is noticed then.
            with contextlib.suppress(_Gone):
                self._send(packets[0])
            try:
                yield
            except BaseException:
                self._ask(_DROP, _items(_without_problem(placeholders, self._answers(packets))))
                raise
            self._keep(placeholders, self._answers(packets))

    def begin_masking(
        self, placeholders: Sequence[LocatedPlaceholder], namespaces: Sequence[int], *, waits: bool = False
    ) -> Masking | None:
        """Begin to hold placeholders, and to mount each, read-only on itself, in a sandbox in which nothing
        runs yet. `finish_masking` or `undo_masking` must follow.

        `namespaces` are two descriptors: of the user namespace, and of the mount namespace that it owns.
        Return None if the janitor can't be asked; unless the caller `waits`, also if that would block.
        """
        packets = list(_packets(_MASK, _items(placeholders)))
        if len(packets) != 1 or not self._lock.acquire(blocking=waits):
            return None
        try:
            file = self._begin(packets[0], namespaces, waits=waits)
        finally:
            self._lock.release()
        return None if file is None else Masking(placeholders, file)

    def finish_masking(self, masking: Masking) -> None:
        """Wait until all placeholders are held and mounted. Raises NotMasked, or as `hold`.

        If it raises, nothing is held, but some may be mounted.
        """
        # Without an answer, the next janitor clears away what this one has made.
        if not (told := masking.answer()):
            raise NotMasked
        *answers, problem = told
        with self._lock:
            self._keep(masking.placeholders, answers)
            if problem:
                self._ask(_DROP, _items(masking.placeholders))
                self._forget(masking.placeholders)
                raise NotMasked(os.strerror(problem))

    def undo_masking(self, masking: Masking) -> None:
        """Let go of the placeholders: the sandbox is not used after all. Waits as `finish_masking` does."""
        with contextlib.suppress(NotMasked, PlaceholderTaken, SandboxUnavailable):
            self.finish_masking(masking)
            self.release(masking.placeholders, was_killed=False)

    def _keep(self, placeholders: Sequence[LocatedPlaceholder], answers: Sequence[int]) -> None:
        """Note that placeholders are held. If not all of them are, drop the others, and raise as `hold`."""
        held = _without_problem(placeholders, answers)
        if len(held) == len(placeholders):
            for placeholder in placeholders:
                self._held[placeholder] += 1
            return
        self._ask(_DROP, _items(held))
        for placeholder, problem in zip(placeholders, answers, strict=True):
            # Another janitor may be about to remove a locked placeholder. The next plan asks again, and other
            # callers get their turn in between.
            if problem in (errno.EEXIST, errno.EBUSY):
                raise PlaceholderTaken(placeholder.path)
            if problem:
                raise _unavailable(placeholder.path, problem)

    def _forget(self, placeholders: Iterable[LocatedPlaceholder]) -> None:
        for placeholder in placeholders:
            self._held[placeholder] -= 1
            if self._held[placeholder] <= 0:
                del self._held[placeholder]

    def release(self, placeholders: Sequence[LocatedPlaceholder], *, was_killed: bool) -> None:
        """Let go of placeholders. When this returns, those that nobody else needs have been removed.

        With `was_killed` they stay a moment longer, because killed processes may not be quite dead. Without a
        janitor they stay until the next one starts.
        """
        if not placeholders:
            return
        with self._lock:
            self._ask_to_let_go(_LINGER if was_killed else _DROP, _items(placeholders))
            self._forget(placeholders)

    def begin_release(self, placeholders: Sequence[LocatedPlaceholder], *, was_killed: bool) -> int | None:
        """Begin to let go of placeholders as `release` does, without waiting for anything.

        Return a descriptor for the caller to close. It becomes readable when those that nobody else needs
        have been removed, or when the janitor is gone. Return None if only `release` can do it now, for
        example because another thread talks to the janitor.
        """
        packets = list(_packets(_LINGER if was_killed else _DROP, _items(placeholders)))
        if len(packets) != 1 or not self._lock.acquire(blocking=False):
            return None
        try:
            file = self._begin(packets[0], waits=False)
            if file is not None:
                self._forget(placeholders)
            return file
        finally:
            self._lock.release()

    def _begin(self, packet: bytes, files: Sequence[int] = (), *, waits: bool) -> int | None:
        """Send a packet whose answer comes by the descriptor that is returned; None if that fails.

        Unless the caller `waits`, this neither starts a janitor nor waits until it has read other packets.
        """
        if self._connection is None and not waits:
            return None
        try:
            reader, writer = os.pipe2(os.O_CLOEXEC)
        except OSError:
            return None
        try:
            self._send(packet, [*files, writer], 0 if waits else socket.MSG_DONTWAIT)
        except _Gone:
            os.close(reader)
            return None
        except BaseException:
            os.close(reader)
            raise
        finally:
            os.close(writer)
        return reader

    def keep_group(self, path: os.PathLike[str]) -> None:
        """Have a control group removed if this process is killed. Raises SandboxUnavailable."""
        with self._lock:
            self._ask(_KEEP_GROUP, [os.fspath(path)])
            self._groups[os.fspath(path)] = None

    def release_group(self, path: os.PathLike[str], *, is_removed: bool) -> None:
        """Forget a group that is removed, or have it removed as soon as it is empty."""
        with self._lock:
            self._ask_to_let_go(_FORGET_GROUP if is_removed else _END_GROUP, [os.fspath(path)])
            self._groups.pop(os.fspath(path), None)

    def close(self) -> None:
        """Let the helper remove what is left, and end. It goes on for a moment by itself.

        A process that goes on itself calls `bury` then, which waits for that.
        """
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection, self._closed_pid = None, self._pid

    def bury(self) -> None:
        """Wait until the helper has ended after `close`, and leave no zombie. Takes a few seconds at most."""
        if self._closed_pid is not None:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._closed_pid, 0)

    def _ask_to_let_go(self, verb: bytes, items: Sequence[str]) -> None:
        # A helper that was told to end lets go of everything by itself, and nobody would end another.
        if self._connection is not None or self._closed_pid is None:
            with contextlib.suppress(SandboxUnavailable):
                self._ask(verb, items)

    def _ask(self, verb: bytes, items: Sequence[str]) -> list[int]:
        packets = list(_packets(verb, items))
        try:
            return self._exchange(packets)
        except _Gone:
            return self._ask_another(packets)

    def _answers(self, packets: Sequence[bytes]) -> list[int]:
        """Return the answers to all packets; the first is already sent."""
        try:
            return [*self._receive(), *self._exchange(packets[1:])]
        except _Gone:
            return self._ask_another(packets)

    def _ask_another(self, packets: Sequence[bytes]) -> list[int]:
        """Start another helper, and tell it first what is held."""
        self._bury()
        try:
            self._exchange(list(_packets(_HOLD, _items(self._held.elements()))))
            self._exchange(list(_packets(_KEEP_GROUP, list(self._groups))))
            return self._exchange(packets)
        except _Gone:
            self._bury()
            raise SandboxUnavailable(
                "the janitor of mount points ends right after its start", "run `paddock doctor`"
            ) from None

    def _exchange(self, packets: Iterable[bytes]) -> list[int]:
        answers: list[int] = []
        for packet in packets:
            self._send(packet)
            answers += self._receive()
        return answers

    def _send(self, packet: bytes, files: Sequence[int] = (), flags: int = 0) -> None:
        if self._connection is None:
            self._connection, self._pid = _start(self._journals)
        # Not `socket.send_fds`, which ignores its flags.
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", files))] if files else []
        try:
            self._connection.sendmsg([packet], rights, flags)
        except OSError as error:
            raise _Gone from error

    def _receive(self) -> bytes:
        assert self._connection is not None
        try:
            answer = self._connection.recv(PACKET_BYTES)
        except OSError:
            answer = b""
        if not answer:
            raise _Gone
        return answer

    def _bury(self) -> None:
        assert self._connection is not None
        assert self._pid is not None
        self._connection.close()
        self._connection = None
        # The helper closes its end only by ending, so this does not wait.
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, 0)


def locate(placeholders: Iterable[Placeholder]) -> list[LocatedPlaceholder]:
    """Find the directories that are to hold placeholders.

    Raises PlaceholderTaken when one is gone or is now behind a link, SandboxUnavailable when it is out of
    reach.
    """
    directories: dict[str, tuple[int, int]] = {}
    for placeholder in placeholders:
        directory = parent(placeholder.path)
        if directory not in directories:
            try:
                directories[directory] = identity_without_links(directory)
            except (FileNotFoundError, NotADirectoryError) as error:
                raise PlaceholderTaken(placeholder.path) from error
            except PermissionError as error:
                raise _unavailable(placeholder.path, errno.EACCES) from error
    return [
        LocatedPlaceholder(placeholder.path, placeholder.kind, *directories[parent(placeholder.path)])
        for placeholder in placeholders
    ]


def lock(placeholders: Sequence[LocatedPlaceholder]) -> list[int]:
    """Return descriptors that keep a janitor's placeholders even if somebody kills the janitor.

    No janitor removes a placeholder before the last copy of its descriptor is closed. The first process of a
    sandbox inherits the descriptors of those that it can't see, and locks the rest itself. Raises
    PlaceholderTaken when one is no longer in its planned directory.
    """
    with contextlib.ExitStack() as opened, contextlib.ExitStack() as directories:
        entered: dict[str, tuple[int, os.stat_result]] = {}
        files = []
        for placeholder in placeholders:
            path, name = os.path.split(placeholder.path)
            try:
                if path not in entered:
                    directory = open_without_links(path)
                    directories.callback(os.close, directory)
                    entered[path] = directory, os.fstat(directory)
                directory, found = entered[path]
                if (found.st_dev, found.st_ino) != (placeholder.device, placeholder.inode):
                    raise PlaceholderTaken(placeholder.path)
                files.append(_locked(name, directory, opened))
            except OSError as error:
                raise_if_short(error)
                raise PlaceholderTaken(placeholder.path) from error
        opened.pop_all()
    return files


def identify(paths: Iterable[str]) -> list[MountedFile]:
    """Return placeholders that are held, each with its path. Raises PlaceholderTaken if one is gone."""
    found = []
    for path in paths:
        try:
            found.append(MountedFile(path, *identity_without_links(path)))
        except OSError as error:
            raise_if_short(error)
            raise PlaceholderTaken(path) from error
    return found


def _locked(name: str, directory: int, opened: contextlib.ExitStack) -> int:
    file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    opened.callback(os.close, file)
    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    # Until it was locked, it could be removed.
    if not os.path.samestat(os.fstat(file), os.stat(name, dir_fd=directory, follow_symlinks=False)):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    return file


def _unavailable(path: str, problem: int) -> SandboxUnavailable:
    return SandboxUnavailable(
        f"{path} is protected but missing, and Paddock can't hold its place: {os.strerror(problem)}",
        "create it, or let the profile grant write access to it",
    )


def _items(placeholders: Iterable[LocatedPlaceholder]) -> list[str]:
    """Name placeholders as native/item.h says."""
    return [f"{_KINDS[item.kind]}{item.device:x}:{item.inode:x}:{item.path}" for item in placeholders]


def _without_problem(
    placeholders: Iterable[LocatedPlaceholder], answers: Iterable[int]
) -> list[LocatedPlaceholder]:
    return [placeholder for placeholder, problem in zip(placeholders, answers, strict=True) if problem == 0]


def _packets(verb: bytes, items: Sequence[str]) -> Iterator[bytes]:
    whole = verb + c_strings(items, sys.getfilesystemencoding())
    if len(whole) <= PACKET_BYTES:
        if items:
            yield whole
        return
    packet = verb
    for item in items:
        encoded = c_strings([item], sys.getfilesystemencoding())
        if len(packet) + len(encoded) > PACKET_BYTES:
            yield packet
            packet = verb
        packet += encoded
    if len(packet) > 1:
        yield packet


def _start(journals: str) -> tuple[socket.socket, int]:
    try:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    except OSError as error:
        raise SandboxUnavailable(
            f"the janitor of mount points can't be started: {error.strerror}", "try again when there is room"
        ) from error
    try:
        pid = os.posix_spawn(
            f"/proc/self/fd/{own_program.opened(PROGRAM)}",
            [os.path.basename(PROGRAM), journals],
            own_environment(),
            file_actions=[
                (os.POSIX_SPAWN_DUP2, theirs.fileno(), 0),
                # The helper outlives us, and the readers of our output must not wait for it.
                (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            ],
            # Nor may a signal to our group or from our terminal reach it.
            setsid=True,
        )
    except OSError as error:
        ours.close()
        raise SandboxUnavailable(
            f"{PROGRAM} can't be run: {error.strerror}", "build it with `make native`"
        ) from error
    finally:
        theirs.close()
    return ours, pid
