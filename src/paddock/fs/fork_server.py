"""A process that makes workers for sandboxes, each within milliseconds.

It has imported what a worker needs, and copies itself for each one. A request is a message
on the socket that it finds as descriptor 3, with the descriptors of the worker's own socket, of
what it has to take on itself, and of the sandbox to enter. It ends with the socket. A worker that can't be
confined ends before it reads an operation, and its socket says why.

It must have one thread: only then is a copy of it sound, and may it enter a user namespace.
"""

from __future__ import annotations

import contextlib
import gc
import os
import socket
from collections.abc import Callable

from paddock.errors import OperationFailed
from paddock.fs.failure import to_failure
from paddock.fs.framing import NOT_BEGUN, Reply, write_frame
from paddock.fs.namespace_entry import LIBRARY, NAMESPACES, REMEDY, Confine, load
from paddock.fs.worker import Worker
from paddock.model.restriction import Restriction

SOCKET = 3
INTERPRETER = 4
"""By which the server has executed this process, if it is open. Clients can reach what a worker has open."""

CONFINEMENT = 5
"""The library that confines workers."""

DESCRIPTORS = 1 + 2 + 2 + len(NAMESPACES)
"""The worker's socket, the restriction in two files, up to two user namespaces, and the others."""

COMPLAINT_BYTES = 1000
"""One line."""


def request_worker(
    connection: socket.socket, worker: socket.socket, namespaces: list[int], restriction: Restriction
) -> None:
    """Ask the fork server at the other end for a worker, or raise OSError. Descriptors stay the caller's."""
    with contextlib.ExitStack() as stack:
        # In files, for a profile may grant more paths than a message can hold.
        given = [_memory(stack, content) for content in (restriction.words, restriction.filter)]
        socket.send_fds(connection, [b"w"], [worker.fileno(), *given, *namespaces])


def _memory(stack: contextlib.ExitStack, content: bytes) -> int:
    file = os.memfd_create("paddock-restriction", os.MFD_CLOEXEC)
    stack.callback(os.close, file)
    os.write(file, content)
    return file


def serve(connection: socket.socket, confine: Confine, work: Callable[[], None]) -> None:
    """Make workers, which are confined and then do their work, until the other end is closed."""
    gc.freeze()
    failed = contextlib.ExitStack()
    while True:
        message, files, _, _ = socket.recv_fds(connection, 1, DESCRIPTORS)
        failed.close()
        if not message:
            return
        with contextlib.ExitStack() as stack:
            for file in files:
                stack.callback(os.close, file)
            complaint = _make_worker(connection, files, confine, work)
            if complaint is not None and files:
                # Open until the next request: an operation that nobody has read would reset the connection
                # before the server has read this.
                _tell(failed.enter_context(socket.socket(fileno=os.dup(files[0]))), complaint)


def _make_worker(
    connection: socket.socket, files: list[int], confine: Confine, work: Callable[[], None]
) -> str | None:
    """Return when the worker is confined, or why it is not."""
    # For what it says until it is confined; then it leads nowhere. The host's /dev/null, which is standard
    # error here, could be opened and changed through the worker's /proc.
    complaints, standard_error = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    pid = os.fork()
    if pid == 0:
        connection.close()
        _become_worker(files, standard_error, confine, work)
    os.close(standard_error)
    _, status = os.waitpid(pid, 0)
    try:
        if status == 0:
            return None
        text = os.read(complaints, COMPLAINT_BYTES).decode(errors="replace").strip()
    finally:
        os.close(complaints)
    return text.removeprefix("paddock: ") or "the file worker was killed before it was confined"


def _tell(own: socket.socket, complaint: str) -> None:
    # It is empty, and takes a line at once. Nobody may be there any more.
    with contextlib.suppress(OSError):
        own.sendall(write_frame(Reply(NOT_BEGUN, to_failure(OperationFailed(complaint)))))
        own.shutdown(socket.SHUT_WR)


def _become_worker(files: list[int], standard_error: int, confine: Confine, work: Callable[[], None]) -> None:
    """Become a worker, in a copy of the fork server. Does not return."""
    status = 1
    try:
        own, words, filter_, *namespaces = files
        for file, number in ((own, 0), (own, 1), (standard_error, 2)):
            os.dup2(file, number)
        confine(words, filter_, namespaces)
        # Only a child is in the pid namespace, and dies with it. This copy ends; the spawner reaps the child.
        if os.fork() == 0:
            work()
        status = 0
    except Exception as error:
        os.write(2, str(error).encode(errors="replace"))
    finally:
        os._exit(status)


def _loaded() -> Confine:
    try:
        return load(f"/proc/self/fd/{CONFINEMENT}")
    except (OSError, AttributeError) as error:
        complaint = f"{LIBRARY} can't be loaded: {error}; {REMEDY}"

    def refuse(*_: object) -> None:
        raise OSError(complaint)

    return refuse


def main() -> None:
    """Serve the socket that the server has let this process inherit."""
    confine = _loaded()
    os.closerange(INTERPRETER, CONFINEMENT + 1)
    serve(socket.socket(fileno=SOCKET), confine, lambda: Worker().run())
