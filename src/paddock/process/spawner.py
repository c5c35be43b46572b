"""Starting processes through paddock-spawner, the helper written in C.

The server never forks. It sends the helper a request with the child's
descriptors and gets back a pid and a pidfd, later the exit status. The helper
is the parent of every process: when the server ends, however it dies, the
socket between them closes and the helper kills all that is left, so a `Spawner`
needs no clean-up to keep that promise.

This module is the server's half of the socket. It promises order (requests are
served as `spawn` was called), that no descriptor leaks on any path, and that a
cancelled `spawn` leaves no process. It refuses to know what the descriptors are
connected to and how a process is stopped.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import socket
import struct
from array import array
from collections import deque
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from paddock.errors import SpawnerLost, SpawnError
from paddock.journal import Journal
from paddock.native_program import native_path
from paddock.own_program import own_environment
from paddock.process.spawn_request import SpawnRequest, SpawnStage, spawn_payload

_journal = Journal(logging.getLogger(__name__))

HELPER_PATH: Final = native_path("paddock-spawner")

# The wire. The other side, with comments on each field, is native/wire.h: change both.
_HEADER: Final = struct.Struct("<II")  # length of what follows, kind
_REQUEST_SPAWN: Final = 1
_REQUEST_KILL: Final = 2
_KILL: Final = struct.Struct("<i")  # pid
_RECORD: Final = struct.Struct("<IiiIQQQQ")  # kind, pid, status, stage, token, user µs, system µs, peak KiB
_RECORD_READY: Final = 1
_RECORD_SPAWNED: Final = 2
_RECORD_EXITED: Final = 3
_HELPER_SOCKET_FD: Final = 3

_READ_BYTES: Final = 64 * _RECORD.size
_PIDFD_ANCILLARY_BYTES: Final = socket.CMSG_SPACE(array("i").itemsize)

IN_FLIGHT_LIMIT: Final = 64
"""Limit for unanswered requests. The helper serves one at a time, so more would not be faster; but the
kernel counts descriptors under way per user and refuses more than RLIMIT_NOFILE, often 1024, with
ETOOMANYREFS (unix(7)). 64 requests of at most 11 and as many answers of 1 are 768."""

CLOSE_TIMEOUT_S: Final = 10.0
"""How long `aclose` waits for the helper to kill everything: far more than it takes unless a process
hangs in the kernel, where nothing can kill it."""


_STAGES: Final = {
    1: SpawnStage.FORK,
    2: SpawnStage.SETUP,
    3: SpawnStage.CWD,
    4: SpawnStage.EXEC,
    5: SpawnStage.REQUEST,
}


class Spawned(Struct, frozen=True):
    """A started process, leader of its own session and group. The caller closes `pidfd`."""

    pid: int
    pidfd: int


class ExitReport(Struct, frozen=True):
    """How a process ended and what it and the descendants it waited for used.

    `max_rss_bytes` is not below the helper's own peak of a few MiB, because execve counts the
    memory that the child shared with the helper before.
    """

    wait_status: int
    user_s: float
    system_s: float
    max_rss_bytes: int

    @property
    def exit_code(self) -> int:
        """Return the status as a shell shows it: 128 + n for death by signal n."""
        code = os.waitstatus_to_exitcode(self.wait_status)
        return code if code >= 0 else 128 - code

    @property
    def death_signal(self) -> int | None:
        """Return the signal that ended it, if one did."""
        return os.WTERMSIG(self.wait_status) if os.WIFSIGNALED(self.wait_status) else None


class _Message:
    """Bytes on their way to the helper; `fds` travel with the first of them."""

    __slots__ = ("fds", "has_begun", "rest", "spawn")

    def __init__(self, kind: int, payload: bytes, spawn: _Spawn | None = None) -> None:
        self.rest = memoryview(_HEADER.pack(len(payload), kind) + payload)
        self.fds = (*spawn.request.fds, *spawn.request.inherited) if spawn is not None else ()
        self.spawn = spawn
        self.has_begun = False


class _Spawn(Struct, eq=False):
    """One call of `spawn` until it is answered. A cancelled `future` means nobody wants the process."""

    token: int
    request: SpawnRequest
    on_exit: Callable[[ExitReport], None]
    future: asyncio.Future[Spawned]

    def fail(self, stage: SpawnStage, number: int) -> None:
        if not self.future.done():
            self.future.set_exception(SpawnError(stage, number, self.request.program, self.request.cwd))


class Spawner:
    """The running helper. Made by `start`, ended by `aclose`; belongs to one event loop."""

    def __init__(
        self, helper_pid: int, helper_pidfd: int, connection: socket.socket, on_lost: Callable[[], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._helper_pid = helper_pid
        self._helper_pidfd = helper_pidfd
        self._connection = connection
        self._on_lost = on_lost
        self._is_open = True
        self._is_writing = False
        self._is_closing = False
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._exited: asyncio.Future[None] = self._loop.create_future()
        self._tokens = 0
        self._unsent: deque[_Message] = deque()
        self._unanswered: dict[int, _Spawn] = {}
        self._running: dict[int, Callable[[ExitReport], None]] = {}
        self._pidfds: deque[int | None] = deque()
        self._partial_record = b""

    @classmethod
    async def start(cls, on_lost: Callable[[], None]) -> Spawner:
        """Start the helper and wait until it is ready.

        The limits, umask and user of this moment become those of every process; prlimit(2) on
        `helper_pid` changes the limits of those that are started later.

        Calls `on_lost` once if the helper ends without `aclose`. The kernel then kills its
        direct children, but not what those have started, and nobody will ever report the
        exits that the helper has not. Raises SpawnerLost when the helper can't be run, OSError
        when the system is out of descriptors or processes.
        """
        server_end, helper_end = socket.socketpair()
        try:
            server_end.setblocking(False)
            pid = _start_helper(helper_end.fileno())
            spawner = cls(pid, os.pidfd_open(pid), server_end, on_lost)
        except BaseException:
            server_end.close()
            raise
        finally:
            helper_end.close()
        spawner._loop.add_reader(spawner._helper_pidfd, spawner._reap_helper)
        spawner._loop.add_reader(server_end.fileno(), spawner._read)
        try:
            await spawner._ready
        except BaseException:
            await spawner.aclose()
            raise
        return spawner

    @property
    def helper_pid(self) -> int:
        """Return the helper's process id."""
        return self._helper_pid

    async def spawn(self, request: SpawnRequest, on_exit: Callable[[ExitReport], None]) -> Spawned:
        """Start a process.

        The caller keeps `request.fds` and `inherited` open until this returns or raises, and may
        close them then. Raises SpawnError (`stage` is a SpawnStage) when the
        process could not be started, SpawnerLost when the helper has ended. If the
        call is cancelled, the process never starts, or dies with its group.

        The event loop calls `on_exit` once, after a task that awaits this
        call directly has resumed with the result. A task that awaits it through
        another one (gather, create_task) may see the exit first.
        """
        if not self._is_open:
            raise SpawnerLost("the process spawner is gone; restart the server")
        self._tokens += 1
        payload = spawn_payload(self._tokens, request)
        spawn = _Spawn(self._tokens, request, on_exit, self._loop.create_future())
        message = _Message(_REQUEST_SPAWN, payload, spawn)
        self._unsent.append(message)
        self._write()
        try:
            return await spawn.future
        except asyncio.CancelledError:
            self._abandon(message, spawn)
            raise

    async def aclose(self) -> None:
        """End the helper, and with it every process. Idempotent.

        Returns when no process is left, or with a warning after CLOSE_TIMEOUT_S. Pending
        calls of `spawn` raise SpawnerLost. Does not call `on_lost`, and calls `on_exit`
        only for exits that were reported before.
        """
        self._is_closing = True
        self._disconnect()
        await asyncio.wait([self._exited], timeout=CLOSE_TIMEOUT_S)
        if not self._exited.done():
            _journal.warning("processes left behind", reason="they hang in the kernel and can't be killed")
            signal.pidfd_send_signal(self._helper_pidfd, signal.SIGKILL)
            await asyncio.wait([self._exited], timeout=CLOSE_TIMEOUT_S)

    # -- to the helper

    def _write(self) -> None:
        """Send what is queued, as far as the socket and IN_FLIGHT_LIMIT allow."""
        is_full = False
        while self._unsent and not is_full:
            message = self._unsent[0]
            is_new_spawn = message.spawn is not None and not message.has_begun
            if is_new_spawn and len(self._unanswered) >= IN_FLIGHT_LIMIT:
                break
            is_full = not self._send_some(message)
        if is_full != self._is_writing and self._is_open:
            self._is_writing = is_full
            if is_full:
                self._loop.add_writer(self._connection.fileno(), self._write)
            else:
                self._loop.remove_writer(self._connection.fileno())

    def _send_some(self, message: _Message) -> bool:
        """Send a part of the first message. Return False if the socket accepts no more for now."""
        has_fds = message.fds and not message.has_begun
        fds = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", message.fds))] if has_fds else []
        try:
            sent = self._connection.sendmsg([message.rest], fds)
        except (BlockingIOError, BrokenPipeError, ConnectionResetError):
            # In the latter cases the helper has ended. Its reports may still be unread, up to the
            # end of file; `_read` does the rest.
            return False
        except OSError as error:
            # A descriptor is bad or too many are under way. Part of a message can't be taken back.
            if message.has_begun or message.spawn is None:
                self._lose()
                return True
            self._unsent.popleft()
            message.spawn.fail(SpawnStage.REQUEST, error.errno or errno.EIO)
            return True
        if not message.has_begun:
            message.has_begun = True
            if message.spawn is not None:
                self._unanswered[message.spawn.token] = message.spawn
        message.rest = message.rest[sent:]
        if not message.rest:
            self._unsent.popleft()
        return True

    def _abandon(self, message: _Message, spawn: _Spawn) -> None:
        """Leave nothing of a cancelled spawn behind, however far it has come."""
        if not message.has_begun and message in self._unsent:
            self._unsent.remove(message)
        elif not spawn.future.cancel() and not spawn.future.cancelled() and not spawn.future.exception():
            # The answer and the cancellation came in one iteration of the loop.
            started = spawn.future.result()
            os.close(started.pidfd)
            self._kill(started.pid)

    def _kill(self, pid: int) -> None:
        """Have the helper kill a process nobody wants, with what it has started so far."""
        self._running.pop(pid, None)
        if self._is_open:
            # Put it ahead of waiting messages, but never inside one.
            index = 1 if self._unsent and self._unsent[0].has_begun else 0
            self._unsent.insert(index, _Message(_REQUEST_KILL, _KILL.pack(pid)))
            self._write()

    # -- from the helper

    def _read(self) -> None:
        try:
            data, ancillary, flags, _ = self._connection.recvmsg(
                _READ_BYTES, _PIDFD_ANCILLARY_BYTES, socket.MSG_CMSG_CLOEXEC
            )
        except BlockingIOError:
            return
        except OSError:
            data, ancillary, flags = b"", [], 0
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                self._pidfds.extend(array("i", content))
        if flags & socket.MSG_CTRUNC:
            # Our descriptor table is full and the kernel dropped the pidfd. A read ends after the
            # record that carried one, so exactly one is missing, and it is the last.
            self._pidfds.append(None)
        if not data:
            self._lose()
            return
        if self._partial_record:
            data = self._partial_record + data
        end = len(data) - len(data) % _RECORD.size
        self._partial_record = data[end:]
        for record in _RECORD.iter_unpack(memoryview(data)[:end]):
            self._take(record)
        if self._unsent and self._is_open:
            self._write()

    def _take(self, record: tuple[int, ...]) -> None:
        kind, pid, status, stage, token, user_us, system_us, max_rss_kib = record
        if kind == _RECORD_EXITED:
            on_exit = self._running.pop(pid, None)
            if on_exit is not None:
                report = ExitReport(status, user_us / 1e6, system_us / 1e6, max_rss_kib * 1024)
                # Don't call it here: this same read may have woken the task that awaits the spawn, and
                # callbacks run in the order in which they were scheduled.
                self._loop.call_soon(on_exit, report)
        elif kind == _RECORD_SPAWNED:
            spawn = self._unanswered.pop(token)
            if status:
                spawn.fail(_STAGES[stage], status)
            else:
                self._started(spawn, pid, self._pidfds.popleft())
        elif kind == _RECORD_READY and not self._ready.done():
            self._ready.set_result(None)

    def _started(self, spawn: _Spawn, pid: int, pidfd: int | None) -> None:
        if pidfd is None:
            spawn.fail(SpawnStage.REQUEST, errno.EMFILE)
            self._kill(pid)
        elif spawn.future.done():
            os.close(pidfd)
            self._kill(pid)
        else:
            self._running[pid] = spawn.on_exit
            spawn.future.set_result(Spawned(pid, pidfd))

    # -- the end

    def _lose(self) -> None:
        if self._is_open:
            is_started = self._ready.done()
            self._disconnect()
            if is_started and not self._is_closing:
                # After the exits that were reported in time.
                self._loop.call_soon(self._on_lost)

    def _disconnect(self) -> None:
        if not self._is_open:
            return
        self._is_open = False
        self._loop.remove_reader(self._connection.fileno())
        self._loop.remove_writer(self._connection.fileno())
        self._connection.close()
        while self._pidfds:
            pidfd = self._pidfds.popleft()
            if pidfd is not None:
                os.close(pidfd)
        if not self._ready.done():
            self._ready.set_exception(
                SpawnerLost(f"{HELPER_PATH} ended while starting; its message is on stderr")
            )
        waiting = [message.spawn for message in self._unsent if message.spawn and not message.has_begun]
        for spawn in (*self._unanswered.values(), *waiting):
            if not spawn.future.done():
                spawn.future.set_exception(SpawnerLost("the process spawner ended before it answered"))
        self._unsent.clear()
        self._unanswered.clear()
        self._running.clear()

    def _reap_helper(self) -> None:
        self._loop.remove_reader(self._helper_pidfd)
        os.close(self._helper_pidfd)
        try:
            os.waitpid(self._helper_pid, os.WNOHANG)
        except ChildProcessError:
            _journal.debug("spawner was reaped by another part of this process")
        self._exited.set_result(None)


def _start_helper(socket_fd: int) -> int:
    try:
        return os.posix_spawn(
            HELPER_PATH,
            [os.path.basename(HELPER_PATH)],
            own_environment(),
            file_actions=[
                # Do this first: the socket may be 0 or 1 if those were closed.
                (os.POSIX_SPAWN_DUP2, socket_fd, _HELPER_SOCKET_FD),
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            ],
        )
    except FileNotFoundError as error:
        raise SpawnerLost(f"{HELPER_PATH} is missing; build it with `make native`") from error
    except OSError as error:
        problem = f"{HELPER_PATH} can't be run: {error.strerror}"
        raise SpawnerLost(f"{problem}; rebuild it with `make native`") from error
