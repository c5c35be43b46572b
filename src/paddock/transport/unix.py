"""Links over a Unix domain socket, for clients of the same user on the same host.

The socket file is private from the moment it exists, a socket that a dead server left
behind is replaced and a live one never is, and each peer's user is checked. Other modules
decide what the peer may do afterwards.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import socket
import stat
import struct
from collections.abc import Iterator
from typing import Final

from paddock.errors import ConnectError, ListenError
from paddock.journal import Journal
from paddock.transport.delivery import Introduction
from paddock.transport.input_turns import InputTurns
from paddock.transport.limits import TransportLimits
from paddock.transport.lines import LineLink, open_stream
from paddock.transport.link import Accept, Link
from paddock.transport.listener import BACKLOG, Listener, ListeningSocket, OpenLinks
from paddock.transport.reason import reason_of

_journal = Journal(logging.getLogger(__name__))

# sun_path holds 108 bytes with its terminating zero (unix(7)).
_MAX_PATH_BYTES: Final = 107
# struct ucred: pid, uid, gid (unix(7), SO_PEERCRED).
_UCRED: Final = struct.Struct("3i")
# How often a name may be taken by servers that die at once before this one gives up.
_ATTEMPTS: Final = 10
# Between two tries to connect to a server that has not accepted those before; nothing tells when it does.
_FULL_QUEUE_PAUSE_S: Final = 0.01


async def listen(
    path: str | os.PathLike[str], accept: Accept, limits: TransportLimits | None = None
) -> Listener:
    """Listen on a socket file of mode 0600. Raises `ListenError`, for example if a server lives there.

    Only processes of this user and of root may connect. `close` removes the file
    unless another server has replaced it by then.
    """
    listener = _UnixListener(_absolute(path), accept, limits or TransportLimits())
    listener.start()
    return listener


async def connect(
    path: str | os.PathLike[str],
    accept: Accept,
    limits: TransportLimits | None = None,
    *,
    timeout_s: float = 10.0,
) -> Link:
    """Connect to the server that listens on `path`. Raises `ConnectError`."""
    from paddock.transport.stdio import connect_socket

    url = f"unix://{_absolute(path)}"
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.setblocking(False)
    try:
        async with asyncio.timeout(timeout_s):
            await _connect(sock, path)
    except TimeoutError as error:
        sock.close()
        raise ConnectError(url, f"no answer within {timeout_s} s") from error
    except OSError as error:
        sock.close()
        raise ConnectError(url, reason_of(error)) from error
    except BaseException:
        sock.close()
        raise
    return await connect_socket(sock, accept, limits, peer=url)


class _UnixListener(Listener):
    def __init__(self, path: str, accept: Accept, limits: TransportLimits) -> None:
        self.url = f"unix://{path}"
        self._path = path
        self._accept = accept
        self._limits = limits
        self._links = OpenLinks(limits.max_connections)
        self._input_turns = InputTurns()
        self._loop = asyncio.get_running_loop()
        self._sock, self._identity = _publish(path)
        self._arrivals: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def start(self) -> None:
        self._loop.add_reader(self._sock.fileno(), self._admit_one)

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._loop.remove_reader(self._sock.fileno())
        self._sock.close()
        with contextlib.suppress(FileNotFoundError):
            status = os.lstat(self._path)
            if (status.st_dev, status.st_ino) == self._identity:
                os.unlink(self._path)

    async def aclose(self) -> None:
        self.close()
        await asyncio.gather(*self._arrivals)
        await self._links.aclose()

    def _admit_one(self) -> None:
        try:
            sock, _ = self._sock.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        pid, uid = peer_credentials(sock)
        peer = f"unix pid {pid} uid {uid}"
        if not is_trusted(uid):
            reason = f"only uid {os.geteuid()} may connect"
            _journal.warning("connection refused", peer=peer, reason=reason)
            sock.close()
        elif self._links.is_full:
            _journal.warning("connection refused", peer=peer, reason="too many connections")
            sock.close()
        else:
            sock.setblocking(False)
            self._welcome(sock, peer)

    def _welcome(self, sock: socket.socket, peer: str) -> None:
        introduction = Introduction(self._accept)
        link = LineLink(introduction, self._limits, peer, turns=self._input_turns, ended=self._links.remove)
        self._links.add(link)

        async def arrive() -> None:
            try:
                await open_stream(sock, link)
            except OSError as error:
                self._links.remove(link)
                _journal.warning("connection lost while connecting", peer=peer, reason=str(error))
                return
            try:
                introduction.confirm(link)
            except Exception as error:
                _journal.error("connection has no receiver", error=error, peer=peer)

        task = self._loop.create_task(arrive())
        self._arrivals.add(task)
        task.add_done_callback(self._arrivals.discard)


async def _connect(sock: socket.socket, path: str | os.PathLike[str]) -> None:
    # Not by the loop: to connect here is done or refused at once. While the listener's queue is full that is
    # EAGAIN (connect(2)), which loops take for a connection that is being made.
    while True:
        try:
            return sock.connect(os.fspath(path))
        except BlockingIOError:
            await asyncio.sleep(_FULL_QUEUE_PAUSE_S)


def _absolute(path: str | os.PathLike[str]) -> str:
    """Return an absolute path as people write it. What `..` means is up to the kernel."""
    written = os.fspath(path)
    if not written.startswith("/"):
        written = os.path.join(os.getcwd(), written)
    return "/" + "/".join(name for name in written.split("/") if name not in ("", "."))


def peer_credentials(sock: socket.socket) -> tuple[int, int]:
    """Return pid and uid of the process that called connect(2) or socketpair(2), as the kernel noted it."""
    pid, uid, _gid = _UCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    return pid, uid


def is_trusted(uid: int) -> bool:
    """Return whether a process of this user may connect: the server's own user, or root."""
    return uid in (os.geteuid(), 0)


def _publish(path: str) -> tuple[socket.socket, tuple[int, int]]:
    """Return a listening socket whose file is `path`, and device and inode of that file.

    The socket is made under a name of its own and moved into place when it listens, so
    that a probe of `path` never mistakes a server that is just starting for a dead one.
    """
    url = f"unix://{path}"
    draft = os.path.join(os.path.dirname(path), f".{os.urandom(4).hex()}")
    if max(len(os.fsencode(path)), len(os.fsencode(draft))) > _MAX_PATH_BYTES:
        raise ListenError(url, f"the path is longer than {_MAX_PATH_BYTES} bytes")
    sock = ListeningSocket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        # bind(2) gives the file the mode of the socket's own inode, less the umask, so it is
        # private from the start and the umask of other threads is left alone.
        os.fchmod(sock.fileno(), 0o600)
        sock.bind(draft)
        try:
            sock.listen(BACKLOG)
            # fstat on the socket would tell the inode of the socket, not of its file.
            status = os.lstat(draft)
            _move_into_place(draft, path, url)
        finally:
            _remove(draft)
    except OSError as error:
        sock.close()
        raise ListenError(url, reason_of(error)) from error
    except ListenError:
        sock.close()
        raise
    return sock, (status.st_dev, status.st_ino)


def _move_into_place(draft: str, path: str, url: str) -> None:
    for _ in range(_ATTEMPTS):
        try:
            # Unlike rename(2), link(2) does not replace what is there.
            os.link(draft, path)
            return
        except FileExistsError:
            _clear(path, url)
    raise ListenError(url, "address in use: other servers keep taking it")


def _clear(path: str, url: str) -> None:
    """Remove the socket of a dead server, if it is still there. Raises ListenError for anything else."""
    with _sole_clearing(path, url) as is_sole:
        if not is_sole:
            return
        try:
            if not stat.S_ISSOCK(os.lstat(path).st_mode):
                problem = "a file that is not a socket is in the way; remove it or choose another path"
                raise ListenError(url, problem)
            if is_alive(path):
                raise ListenError(url, "address in use: another server listens there")
            # Nobody else removes it, so nobody can have put a living one in its place since we looked.
            os.unlink(path)
        except FileNotFoundError:
            # Another server that starts here has removed it, or its own server has.
            return


@contextlib.contextmanager
def _sole_clearing(path: str, url: str) -> Iterator[bool]:
    """Be the only one to remove a socket from `path`. Yield False if the caller must try again.

    The lock is a private file, which nobody else can open to hold it; it ends with its holder, however
    that dies. Raises ListenError while another server holds it: that one will have the name.
    """
    directory, name = os.path.split(path)
    lock = os.path.join(directory, f".{name}.lock")
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ListenError(url, "address in use: another server is just starting there") from error
        # Its holder removes the file before it lets go; a process that opened it earlier holds nothing now.
        is_sole = os.fstat(descriptor).st_nlink > 0
        try:
            yield is_sole
        finally:
            if is_sole:
                _remove(lock)
    finally:
        os.close(descriptor)


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def is_alive(path: str) -> bool:
    """Return whether a server listens on the socket file. Never waits: connect(2) here answers at once."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return False
        except BlockingIOError:
            # The backlog is full (unix(7), EAGAIN): somebody listens, if slowly.
            return True
        return True
