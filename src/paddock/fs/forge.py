"""A process that makes workers for sandboxes, each within milliseconds.

It has imported what a worker needs, and copies itself for each one. A request is a message
on the socket that it finds as descriptor 3, with the descriptors of the worker's own socket, of
what it has to take on itself, and of the sandbox to enter. It ends with the socket. A worker that can't be
confined ends without an answer, and nothing was done then.

It must have one thread: only then is a copy of it sound, and may it enter a user namespace.
"""

from __future__ import annotations

import gc
import os
import socket

import msgspec

from paddock.fs.entering import NAMESPACES, enter, give_up
from paddock.fs.restriction import take_on
from paddock.fs.worker import Worker
from paddock.model.restriction import Restriction

SOCKET = 3
INTERPRETER = 4
"""By which the server has executed this process, if it is open. Clients can reach what a worker has open."""

FIRST_SPARE = 3
"""Behind the standard streams, which are all that a worker needs."""

DESCRIPTORS = 2 + 1 + len(NAMESPACES)
"""The worker's socket, the restriction, the user namespace and the others."""

_decoder = msgspec.msgpack.Decoder(Restriction)


def request_worker(
    connection: socket.socket, worker: socket.socket, namespaces: list[int], restriction: Restriction
) -> None:
    """Ask the forge at the other end for a worker. Raises OSError. The descriptors stay the caller's."""
    # In a file, for a profile may grant more paths than a message can hold.
    file = os.memfd_create("paddock-restriction", os.MFD_CLOEXEC)
    try:
        os.write(file, msgspec.msgpack.encode(restriction))
        socket.send_fds(connection, [b"w"], [worker.fileno(), file, *namespaces])
    finally:
        os.close(file)


def serve(connection: socket.socket) -> None:
    """Make workers until the other end is closed."""
    gc.freeze()
    while True:
        message, files, _, _ = socket.recv_fds(connection, 1, DESCRIPTORS)
        if not message:
            return
        pid = os.fork()
        if pid == 0:
            _become_worker(connection, files)
        for file in files:
            os.close(file)
        os.waitpid(pid, 0)


def _become_worker(connection: socket.socket, files: list[int]) -> None:
    """In a copy. Does not return."""
    status = 1
    try:
        connection.close()
        own, rules, *namespaces = files
        os.dup2(own, 0)
        os.dup2(own, 1)
        _discard_errors()
        restriction = _decoder.decode(os.pread(rules, os.fstat(rules).st_size, 0))
        enter(namespaces)
        # Whatever stayed open, if only the interpreter, could be reached through /proc/self/fd.
        os.closerange(FIRST_SPARE, os.sysconf("SC_OPEN_MAX"))
        # Only a child is in the pid namespace, and dies with it. This copy ends; the spawner reaps the child.
        if os.fork() == 0:
            give_up()
            take_on(restriction)
            Worker().run()
        status = 0
    finally:
        os._exit(status)


def _discard_errors() -> None:
    """Let standard error lead nowhere.

    Until now it is the host's /dev/null, which could be opened and changed through /proc.
    """
    reader, writer = os.pipe()
    os.close(reader)
    os.dup2(writer, 2)
    os.close(writer)


def main() -> None:
    """Serve the socket that the server has let this process inherit."""
    os.closerange(INTERPRETER, INTERPRETER + 1)
    serve(socket.socket(fileno=SOCKET))
