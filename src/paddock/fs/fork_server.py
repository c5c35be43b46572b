"""A process that forks workers for sandboxes, each within milliseconds.

It has already imported what a worker needs, and forks for each one. A request is a message on the socket at
descriptor 3. It carries the descriptors of the worker's own socket, of the worker's restrictions, and of the
sandbox to enter. The fork server exits when the socket closes. A worker that can't be confined exits before
it reads an operation, and reports the reason on its socket.

It must have only one thread: otherwise a fork is unsafe, and the kernel refuses entry to a user namespace.
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
from paddock.memory_file import memory_file
from paddock.model.restriction import Restriction

SOCKET = 3
INTERPRETER = 4
"""The descriptor that the server executed this process by, if open. Clients can reach a worker's files."""

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
        # In files, because a profile may grant more paths than a message can hold.
        given = []
        for content in (restriction.words, restriction.filter):
            given.append(memory_file("paddock-restriction", content))
            stack.callback(os.close, given[-1])
        socket.send_fds(connection, [b"w"], [worker.fileno(), *given, *namespaces])


def serve(connection: socket.socket, confine: Confine, work: Callable[[], None]) -> None:
    """Fork confined workers until the other end closes."""
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
                # Keep it open until the next request: closing it with an unread operation would reset the
                # connection before the server has read the complaint.
                _tell(failed.enter_context(socket.socket(fileno=os.dup(files[0]))), complaint)


def _make_worker(
    connection: socket.socket, files: list[int], confine: Confine, work: Callable[[], None]
) -> str | None:
    """Fork a worker. Return None once it is confined, or the reason why it can't be."""
    # Carries the worker's complaints until it is confined, and nothing afterwards. The worker must not keep
    # our standard error: that is the host's /dev/null, which could be opened and changed through the worker's
    # /proc.
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
    # The socket is empty, so a line fits without waiting. The other end may be gone.
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
        # Only a child is in the pid namespace and dies with it. This process exits; the spawner reaps the
        # child.
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
    """Serve the socket inherited from the server."""
    confine = _loaded()
    os.closerange(INTERPRETER, CONFINEMENT + 1)
    serve(socket.socket(fileno=SOCKET), confine, lambda: Worker().run())
