"""A link over standard input and output, and its other end.

The server's side takes file descriptors 0 and 1 away from the rest of the process: a
stray print would be a broken message. Its client holds a connected socket, whose other
end it gave to the server it started as both descriptors.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import sys

from paddock.errors import ConnectError, ListenError
from paddock.transport.delivery import Introduction
from paddock.transport.descriptor import DescriptorTransport
from paddock.transport.limits import TransportLimits
from paddock.transport.lines import LineLink, open_stream
from paddock.transport.link import Accept, Link
from paddock.transport.reason import reason_of

_STDIN, _STDOUT, _STDERR = 0, 1, 2


async def serve_stdio(accept: Accept, limits: TransportLimits | None = None) -> Link:
    """Make the one link of this process out of its standard input and output.

    Both may be pipes, sockets, files or a terminal, or one socket twice. The end of the
    input ends the link. From now on fd 0 is /dev/null and fd 1 is a copy of standard
    error. Raises `ListenError` if one of them is closed, and what `accept` raises. May be
    called once per process; the descriptors' flags are restored when the link ends.
    """
    introduction = Introduction(accept)
    link = LineLink(introduction, limits or TransportLimits(), "stdio")
    start_stdio(link)
    introduction.confirm(link)
    return link


def start_stdio(protocol: asyncio.Protocol) -> asyncio.Transport:
    """Connect a protocol to standard input and output, which nothing else has from now on.

    Raises `ListenError` if one of them is closed. May be called once per process.
    """
    # A closed descriptor 0 or 1 is by now something else, such as the loop's epoll; Python has
    # noticed at its start.
    if sys.__stdin__ is None or sys.__stdout__ is None:
        raise ListenError("stdio", "standard input or output is closed")
    transport = DescriptorTransport(protocol, *_take_over())
    transport.start()
    return transport


async def connect_socket(
    sock: socket.socket, accept: Accept, limits: TransportLimits | None = None, *, peer: str = "stdio"
) -> Link:
    """Make a link over a connected Unix socket, which the link owns from now on.

    Raises `ConnectError`, and what `accept` raises; the socket is closed then.
    """
    introduction = Introduction(accept)
    link = LineLink(introduction, limits or TransportLimits(), peer)
    try:
        await open_stream(sock, link)
    except OSError as error:
        raise ConnectError(peer, reason_of(error)) from error
    introduction.confirm(link)
    return link


def _take_over() -> tuple[int, int]:
    """Give private copies of fds 0 and 1 and point the originals elsewhere."""
    # At least 3, so that a closed standard error is not filled by accident.
    read_fd = fcntl.fcntl(_STDIN, fcntl.F_DUPFD_CLOEXEC, 3)
    write_fd = fcntl.fcntl(_STDOUT, fcntl.F_DUPFD_CLOEXEC, 3)
    nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    os.dup2(nowhere, _STDIN)
    try:
        os.dup2(_STDERR, _STDOUT)
    except OSError:
        os.dup2(nowhere, _STDOUT)
    os.close(nowhere)
    return read_fd, write_fd
