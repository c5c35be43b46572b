"""Guides tasks on their way to paddock-stub (native/stub.c), with instructions for each.

    redirect    makes a task that waits in a call execute the stub instead
    serve       allows that when the kernel asks about it. The stub then asks what to do, gets the answer as a
                descriptor, and executes the program in it, which `serve` allows too

In strict mode a task is followed (`followed_task`) while it becomes the stub, and while the stub becomes the
program. A task that becomes anything else is killed before it can do anything.
"""

from __future__ import annotations

import errno
import os
import socket
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct

from paddock import own_program
from paddock.memory_file import memory_file
from paddock.sandbox.denial.escalation import Escalation, Leader
from paddock.sandbox.denial.followed_task import FollowedTasks
from paddock.sandbox.denial.notification import Listener, Memory, Question
from paddock.sandbox.denial.redirection import AT_EMPTY_PATH, EXECVEAT, redirect

STUB: Final = Path(__file__).parents[2] / "native" / "paddock-stub"

ASK: Final = 0x50414444
"""The flags by which the stub asks what to do (native/stub.c)."""

HELD_BYTES_LIMIT: Final = 16 << 20
"""Arguments and variables of one command's calls on their way to the stub: enough for two of the longest."""

STUBS_LIMIT: Final = 1024
"""Number of tasks on their way, above which to look for those that died."""


class Copy(Struct, frozen=True):
    """A program that the stub executes from our copy of path and arguments."""

    told: bytes
    binary: os.stat_result
    """What the process becomes: the program or, for a script, its interpreter."""


Instruction = bytes | Copy | Escalation


class _Replay(Struct, frozen=True):
    """A task that executes the stub next."""

    file: int
    """The number that the stub has there."""
    process: int
    instruction: Instruction


class Stubs:
    """The stubs of one command. For one thread; `close` it."""

    def __init__(self, memory: Memory, leader: Leader | None, *, is_strict: bool) -> None:
        self._memory = memory
        self._leader = leader
        self._is_strict = is_strict
        # An O_PATH descriptor can't be given to others.
        self._stub = os.open(f"/proc/self/fd/{own_program.opened(STUB)}", os.O_RDONLY | os.O_CLOEXEC)
        self._status = os.fstat(self._stub)
        self._replays: dict[int, _Replay] = {}
        self._instructions: dict[int, Instruction] = {}
        self._copies: dict[int, os.stat_result] = {}
        """The programs that stubs are about to become."""
        self.followed = FollowedTasks()
        """The tasks that are followed."""

    def close(self) -> None:
        """Discard the pending instructions."""
        for replay in self._replays.values():
            _drop(replay.instruction)
        for told in self._instructions.values():
            _drop(told)
        os.close(self._stub)

    # --- on the way ---------------------------------------------------------

    def redirect(self, listener: Listener, question: Question, told: Instruction) -> None:
        """Make a task become the stub, and take ownership of its instructions. Raises OSError."""
        try:
            self._redirect(listener, question, told)
        except OSError as error:
            if isinstance(told, Escalation):
                told.problem = error.strerror or str(error)
            _drop(told)
            raise

    def _redirect(self, listener: Listener, question: Question, told: Instruction) -> None:
        process = process_of(question.task)
        number = listener.give(question, self._stub)
        argv_at = question.arguments[2 if question.number == EXECVEAT else 1]
        if len(self._replays) + len(self._instructions) >= STUBS_LIMIT or not self._has_room(_size_of(told)):
            self._sweep()
            if not self._has_room(_size_of(told)):
                raise OSError(errno.ENOMEM, "too much waits to be executed")
        # Before it can be asked about.
        self._replays[question.task] = _Replay(number, process, told)
        try:
            fail = partial(listener.refuse, question, errno.EPERM)
            redirect(question.task, number, argv_at, self._memory, fail)
        except OSError:
            del self._replays[question.task]
            raise

    def _has_room(self, size_bytes: int) -> bool:
        """Return whether another task with this much may be on its way. One always may."""
        held = sum(_size_of(replay.instruction) for replay in self._replays.values())
        held += sum(map(_size_of, self._instructions.values()))
        return not held or held + size_bytes <= HELD_BYTES_LIMIT

    def _sweep(self) -> None:
        """Forget tasks that died on their way."""
        for task in [task for task in self._replays if not os.path.exists(f"/proc/{task}")]:
            _drop(self._replays.pop(task).instruction)
        for task in [task for task in self._instructions if not os.path.exists(f"/proc/{task}")]:
            _drop(self._instructions.pop(task))
        for task in [task for task in self._copies if not os.path.exists(f"/proc/{task}")]:
            del self._copies[task]

    # --- questions of the kernel --------------------------------------------

    def serve(self, listener: Listener, question: Question) -> bool:
        """Answer a call that follows from a redirection. Return False for any other call. Raises OSError."""
        task, arguments = question.task, question.arguments
        if self.followed.release(task):
            # It is asked about again.
            return True
        is_at = question.number == EXECVEAT
        replay = self._replays.pop(task, None)
        if replay is not None:
            _drop(self._instructions.pop(replay.process, None))
        if replay is not None and is_at and self._is_stub_next(replay, question):
            # If another thread executes, it takes the number of its process.
            self._instructions[replay.process] = replay.instruction
            self._let_become(listener, question, replay.process, self._status)
            return True
        if is_at and arguments[4] & 0xFFFFFFFF == ASK and task in self._instructions:
            self._hand_over(listener, question)
            return True
        if replay is not None:
            _drop(replay.instruction)
        _drop(self._instructions.pop(task, None))
        binary = self._copies.pop(task, None)
        # Otherwise the stub has died, and another process has its number.
        if binary is not None and self._is_stub(task):
            self._let_become(listener, question, task, binary)
            return True
        return False

    def _is_stub_next(self, replay: _Replay, question: Question) -> bool:
        """Return whether the task executes the stub: a signal handler may have replaced the file."""
        arguments = question.arguments
        if (arguments[0], arguments[4]) != (replay.file, AT_EMPTY_PATH):
            return False
        try:
            found = os.stat(f"/proc/{question.task}/fd/{replay.file}")
        except OSError:
            return False
        return os.path.samestat(found, self._status)

    def _is_stub(self, task: int) -> bool:
        return os.path.samestat(os.stat(f"/proc/{task}/exe"), self._status)

    def _let_become(
        self, listener: Listener, question: Question, process: int, program: os.stat_result
    ) -> None:
        """Let a task execute something; in strict mode, nothing but this program. Raises OSError."""
        if not self._is_strict:
            listener.let(question)
            return
        self.followed.begin(question.task, process, program)
        listener.let(question)
        self.followed.stay()

    # --- what the stub is told ----------------------------------------------

    def _hand_over(self, listener: Listener, question: Question) -> None:
        """Tell the stub what to do, if it is the stub."""
        told = self._instructions.pop(question.task)
        try:
            if not self._is_stub(question.task):
                listener.refuse(question, errno.EPERM)
            elif isinstance(told, Escalation):
                self._let_out(listener, question, told)
            else:
                self._tell(listener, question, told)
        finally:
            _drop(told)

    def _tell(self, listener: Listener, question: Question, told: bytes | Copy) -> None:
        file = memory_file("instruction", told.told if isinstance(told, Copy) else told)
        try:
            if isinstance(told, Copy):
                self._copies[question.task] = told.binary
            listener.answer_with(question, file)
        finally:
            os.close(file)

    def _let_out(self, listener: Listener, question: Question, escalation: Escalation) -> None:
        """Have the program started outside, and join the stub to it."""
        assert self._leader is not None
        theirs, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, ours:
            blocked, first, second, _, third = question.arguments[1:6]
            escalation.request(self._leader, question.task, blocked, (first, second, third), ours)
            # If the task has ended by now, the other end is closed, and the program is killed.
            listener.answer_with(question, theirs.fileno())


def process_of(task: int) -> int:
    """Return the process that a thread belongs to. Raises OSError."""
    try:
        # This works only for a first thread, which is usually the one that executes (pidfd_open(2)).
        os.close(os.pidfd_open(task))
    except ProcessLookupError:
        raise
    except OSError:
        return _group_of(task)
    return task


def _group_of(task: int) -> int:
    with open(f"/proc/{task}/status", "rb") as file:
        for line in file:
            if line.startswith(b"Tgid:"):
                return int(line[5:])
    raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))


def _size_of(told: Instruction) -> int:
    return len(told if isinstance(told, bytes) else told.told)


def _drop(told: Instruction | None) -> None:
    """Close what nobody needs any more."""
    if isinstance(told, Escalation):
        told.close()
