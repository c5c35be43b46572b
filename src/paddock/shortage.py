"""Errors from a momentary shortage of the host, which say nothing about the file in question.

Reading "too many open files" as "there is no such file" would leave out paths that must be denied, and
reading it as "somebody has changed it" would blame the wrong party.
"""

from __future__ import annotations

import errno

TYPE_CHECKING = False
if TYPE_CHECKING:
    from threading import Thread
    from typing import Final

_SHORT: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOMEM))


def raise_if_short(error: OSError) -> None:
    """Raise the error itself if it is a shortage, for a caller that handles every other error."""
    if error.errno in _SHORT:
        raise error


def start_thread(thread: Thread) -> None:
    """Start a thread. Raises OSError if there is no room for it, where Python has a RuntimeError for that."""
    try:
        thread.start()
    except (RuntimeError, MemoryError) as error:
        # pthread_create(3): a limit of processes, or no memory for a stack.
        raise no_thread() from error


def no_thread() -> OSError:
    """Return the error of a thread that there is no room for."""
    problem = (
        "no thread can be started; raise the limit of processes (ulimit -u, pids.max of the control group)"
    )
    return OSError(errno.EAGAIN, problem)
