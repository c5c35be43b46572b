"""Follows tasks through executions that were allowed, and kills those that become another program.

Between a decision and the moment when the kernel looks at a path or a descriptor, others may replace the
file: a thread that shares the caller's descriptors, a signal handler of the caller, whoever can write a link.
At the end of execve(2) nobody can. The task stops there (PTRACE_EVENT_EXEC) before its first instruction,
without other threads, and the kernel names the program. If our thread ends, the kernel kills the tasks that
it follows.

For one thread, which is the tracer of all of them.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import Final

from msgspec import Struct

from paddock.sandbox.denial.redirection import DETACH, EVENT_STOP, INTERRUPT, SEIZE, WAIT_ALL, ptrace

_TRACE_EXEC: Final = 0x10
_KILL_WITH_US: Final = 0x100000
"""PTRACE_O_TRACEEXEC and PTRACE_O_EXITKILL."""
_EVENT_EXEC: Final = 4

LOOK_MS: Final = 2
"""How long to wait for other events before looking at the tasks again: no descriptor reports that one has
stopped."""

_PATIENCE_S: Final = 0.002
"""How long to stay with a task at first; usually it stops sooner."""

_PAUSE_S: Final = 0.0001


class _Followed(Struct, frozen=True):
    task: int
    process: int
    """The task's number once it has executed something (ptrace(2))."""
    program: os.stat_result


class FollowedTasks:
    """The tasks of one command that are followed."""

    def __init__(self) -> None:
        self._tasks: dict[int, _Followed] = {}
        self.exchanged = 0
        """Number of tasks that had become another program, and were killed."""

    def __bool__(self) -> bool:
        return bool(self._tasks)

    def begin(self, task: int, process: int, program: os.stat_result) -> None:
        """Follow a task that waits in execve, and continues next, to this program. Raises OSError."""
        ptrace(SEIZE, task, _TRACE_EXEC | _KILL_WITH_US)
        self._tasks[task] = _Followed(task, process, program)

    def stay(self) -> None:
        """Follow the tasks for a moment, after one has continued."""
        end = time.monotonic() + _PATIENCE_S
        while self.follow() and time.monotonic() < end:
            time.sleep(_PAUSE_S)

    def follow(self) -> bool:
        """Look at all tasks. Return whether any is still on its way."""
        for followed in list(self._tasks.values()):
            self._look(followed)
        return bool(self._tasks)

    def release(self, task: int) -> bool:
        """Stop following a task that asks again, because its last execution has failed. Return whether it was
        followed.

        Its question is void: the call restarts, and the kernel asks again.
        """
        followed = self._tasks.get(task)
        if followed is None:
            return False
        with suppress(OSError):
            ptrace(INTERRUPT, task)
            _, status = os.waitpid(task, WAIT_ALL)
            self._settle(followed, task, status)
        self._tasks.pop(task, None)
        return True

    def _look(self, followed: _Followed) -> None:
        is_there = False
        # The task first: a thread that executes something takes the number of its process in one step, so it
        # is found under the second number if it is no longer found under the first. The other way round, that
        # step could come between two looks that both find nothing, and the task would stay stopped for good.
        for number in dict.fromkeys((followed.task, followed.process)):
            with suppress(ChildProcessError):
                found, status = os.waitpid(number, WAIT_ALL | os.WNOHANG)
                is_there = True
                if found:
                    self._settle(followed, number, status)
                    return
        if not is_there:
            self._tasks.pop(followed.task, None)

    def _settle(self, followed: _Followed, number: int, status: int) -> None:
        event = status >> 16
        if os.WIFSTOPPED(status) and event == _EVENT_EXEC and not _is_program(number, followed.program):
            self.exchanged += 1
            # Keep following it: its parent learns of its end only after its tracer.
            with suppress(OSError):
                os.kill(number, signal.SIGKILL)
            return
        self._tasks.pop(followed.task, None)
        if not os.WIFSTOPPED(status):
            return
        # A signal has stopped it, which is its own affair: it has not become anything yet.
        passed = os.WSTOPSIG(status) if event not in (_EVENT_EXEC, EVENT_STOP) else 0
        with suppress(OSError):
            ptrace(DETACH, number, passed)


def _is_program(process: int, program: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(f"/proc/{process}/exe"), program)
    except OSError:
        return False
