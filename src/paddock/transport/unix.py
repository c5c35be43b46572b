"""Links over a Unix domain socket, for clients of the same user on the same host.

The socket file is private from the moment it exists, a socket that a dead server left
behind is replaced and a live one never is, and each peer's user is checked. What the
peer may do afterwards is not decided here.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import secrets
import socket
import stat
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from paddock.errors import ConnectError, ListenError
from paddock.transport.limits import TransportLimits
from paddock.transport.lines import LineLink
from paddock.transport.link import Accept, Link
from paddock.transport.listener import Listener, OpenLinks
from paddock.transport.stdio import connect_socket

_log = logging.getLogger(__name__)

# sun_path holds 108 bytes with its terminating zero (unix(7)).
_MAX_PATH_BYTES: Final = 107
# Peers that may wait between two turns of the event loop.
_BACKLOG: Final = 128
# struct ucred: pid, uid, gid (unix(7), SO_PEERCRED).
_UCRED: Final = struct.Struct("3i")


async def listen(
    path: str | os.PathLike[str], accept: Accept, limits: TransportLimits | None = None
) -> Listener:
    """Listen on a socket file of mode 0600. Raises `ListenError`, if a server lives there for one.

    Only processes of this user and of root may connect. The file is removed by `close`
    unless another server has replaced it by then.
    """
    listener = _UnixListener(_absolute(path), accept, limits or TransportLimits())
    await listener.start()
    return listener


async def connect(
    path: str | os.PathLike[str],
    accept: Accept,
    limits: TransportLimits | None = None,
    *,
    timeout_s: float = 10.0,
) -> Link:
    """Connect to the server that listens on `path`. Raises `ConnectError`."""
    url = f"unix://{_absolute(path)}"
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.setblocking(False)
    try:
        async with asyncio.timeout(timeout_s):
            await asyncio.get_running_loop().sock_connect(sock, os.fspath(path))
    except TimeoutError as error:
        sock.close()
        raise ConnectError(url, f"no answer within {timeout_s} s") from error
    except OSError as error:
        sock.close()
        raise ConnectError(url, (error.strerror or str(error)).lower()) from error
    except BaseException:
        sock.close()
        raise
    return await connect_socket(sock, accept, limits, peer=url)


class _UnixListener(Listener):
    def __init__(self, path: Path, accept: Accept, limits: TransportLimits) -> None:
        self.url = f"unix://{path}"
        self._path = path
        self._accept = accept
        self._limits = limits
        self._links = OpenLinks(limits.max_connections)
        self._server: asyncio.Server
        self._identity: tuple[int, int] | None = None

    async def start(self) -> None:
        sock = _publish(self._path)
        # fstat on the socket would tell the inode of the socket, not of its file.
        status = self._path.lstat()
        self._identity = status.st_dev, status.st_ino
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(self._new_link, sock=sock, backlog=_BACKLOG)

    def close(self) -> None:
        self._server.close()
        if self._identity is not None:
            with contextlib.suppress(FileNotFoundError):
                status = self._path.lstat()
                if (status.st_dev, status.st_ino) == self._identity:
                    self._path.unlink()
            self._identity = None

    async def aclose(self) -> None:
        self.close()
        await self._links.aclose()

    def _new_link(self) -> LineLink:
        return _UnixLink(self._accept, self._limits, self._links)


class _UnixLink(LineLink):
    """A line link that looks at its peer's user before it makes a receiver."""

    def __init__(self, accept: Accept, limits: TransportLimits, links: OpenLinks) -> None:
        super().__init__(accept, limits, "unix", ended=links.remove)
        self._links = links

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        pid, uid = peer_credentials(transport.get_extra_info("socket"))
        self.peer = f"unix pid {pid} uid {uid}"
        if not is_trusted(uid):
            _log.warning("turned away %s: only uid %d may connect", self.peer, os.geteuid())
            transport.abort()
        elif self._links.is_full:
            _log.warning("turned away %s: too many connections", self.peer)
            transport.abort()
        else:
            self._links.add(self)
            super().connection_made(transport)


def _absolute(path: str | os.PathLike[str]) -> Path:
    return Path(path).absolute()


def peer_credentials(sock: socket.socket) -> tuple[int, int]:
    """Give pid and uid of the process that called connect(2) or socketpair(2), as the kernel noted it."""
    pid, uid, _gid = _UCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    return pid, uid


def is_trusted(uid: int) -> bool:
    """Tell whether a process of this user may connect: the server's own user, or root."""
    return uid in (os.geteuid(), 0)


def _publish(path: Path) -> socket.socket:
    """Give a listening socket whose file is `path`.

    The socket is made under a name of its own and moved into place when it listens, so
    that whoever probes `path` never mistakes a server that is just starting for a dead one.
    """
    url = f"unix://{path}"
    draft = path.with_name(f".{secrets.token_hex(4)}")
    if max(len(os.fsencode(path)), len(os.fsencode(draft))) > _MAX_PATH_BYTES:
        raise ListenError(url, f"the path is longer than {_MAX_PATH_BYTES} bytes")
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        # bind(2) gives the file the mode of the socket's own inode, less the umask, so it is
        # private from the start and the umask of other threads is left alone.
        os.fchmod(sock.fileno(), 0o600)
        sock.bind(os.fspath(draft))
        try:
            sock.listen(_BACKLOG)
            _move_into_place(draft, path, url)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        sock.close()
        raise ListenError(url, (error.strerror or str(error)).lower()) from error
    except ListenError:
        sock.close()
        raise
    return sock


def _move_into_place(draft: Path, path: Path, url: str) -> None:
    try:
        # Unlike rename(2), link(2) does not replace what is there.
        path.hardlink_to(draft)
        return
    except FileExistsError:
        pass
    if not stat.S_ISSOCK(path.lstat().st_mode):
        raise ListenError(url, "a file that is not a socket is in the way; remove it or choose another path")
    with _locked(path.parent, url):
        if _is_alive(path):
            raise ListenError(url, "address in use: another server listens there")
        draft.replace(path)


@contextlib.contextmanager
def _locked(directory: Path, url: str) -> Iterator[None]:
    """Hold the directory's lock: two servers must not both find a stale socket and replace it in turn."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ListenError(url, "address in use: another server is starting there") from error
        yield
    finally:
        os.close(fd)


def _is_alive(path: Path) -> bool:
    """Tell whether a server listens on the socket file. Never waits: connect(2) here answers at once."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            return False
        except BlockingIOError:
            # The backlog is full (unix(7), EAGAIN): somebody listens, if slowly.
            return True
        return True
