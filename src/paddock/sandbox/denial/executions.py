"""Serves the executions of one command: reads each, has it decided, and lets it continue or redirects it.

    asked       a task wants to execute something
    ready       somebody has answered, or a task that waited for an answer is gone

The kernel executes a program that runs natively, and reads its path and arguments again. A task that is
denied, and in strict mode every task, becomes paddock-stub first (`stubs`). paddock-leader starts a program
that is let out of the sandbox, and the stub stands in for it.

`Executions` answers EPERM to what it does not understand, and to what fails.
"""

from __future__ import annotations

import errno
import logging
import os
import select
import socket
import threading
from collections import deque
from contextlib import ExitStack, suppress
from functools import partial
from typing import Final

from msgspec import Struct

from paddock.journal import Journal
from paddock.sandbox.denial import stub_instruction
from paddock.sandbox.denial.escalation import Leader, escalation_of
from paddock.sandbox.denial.exec_answer import Deny, Escalate, ExecAnswer, ExecPolicy, Run, Withdraw, leave
from paddock.sandbox.denial.exec_call import NOT_THERE, ExecCall, ExecCallReader
from paddock.sandbox.denial.followed_task import LOOK_MS
from paddock.sandbox.denial.notification import Listener, Question
from paddock.sandbox.denial.redirection import AT_EXECVE_CHECK, EXECVEAT
from paddock.sandbox.denial.stubs import HELD_BYTES_LIMIT, Copy, Stubs, process_of

journal = Journal(logging.getLogger(__name__))

WAITING_LIMIT: Final = 256
"""Executions of one command that may wait for an answer. Each takes two of our descriptors. Their arguments
and variables take no more memory than those of tasks on their way to the stub."""

COMPLAINTS_LIMIT: Final = 10
"""Most undecided executions of one command to log."""

_TOO_MANY: Final = Deny("Execution denied: too many executions of this command wait for an answer\n")
_FAILED: Final = Deny("Execution denied: no decision could be made\n")


class _Waiting(Struct, eq=False):
    """A call that somebody decides on."""

    question: Question
    call: ExecCall
    withdraw: Withdraw | None = None
    file: int = -1
    """Becomes readable when its process ends."""
    size_bytes: int = 0


class Executions:
    """Serves the calls of one command, in one thread; `settle_later` may be called from any.

    Takes ownership of `leader`, the socket of the paddock-leader that starts programs outside.
    """

    def __init__(self, policy: ExecPolicy, leader: socket.socket | None = None) -> None:
        self._policy = policy
        self._leader = None if leader is None else Leader(leader)
        self._reader = ExecCallReader()
        self._stubs = Stubs(self._reader.memory, self._leader, is_strict=policy.is_strict)
        self._first: tuple[int, os.stat_result] | None = None
        self._is_begun = False
        self._waiting: dict[int, _Waiting] = {}
        self._lock = threading.Lock()
        self._answers: deque[tuple[_Waiting, ExecAnswer]] = deque()
        self._is_closed = False
        self._complaints = 0
        self._poll: select.poll | None = None
        self.file = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        """Becomes readable when somebody has answered."""

    def begin(self, poll: select.poll) -> None:
        """Register with this poll object every descriptor that `ready` handles."""
        self._poll = poll
        poll.register(self.file, select.POLLIN)
        if self._leader is not None:
            poll.register(self._leader.file, select.POLLIN)

    def close(self) -> None:
        """Give up every waiting call, which the kernel has answered or will. Idempotent."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            os.close(self.file)
        for waiting in list(self._waiting.values()):
            self._give_up(waiting)
        for _, answer in self._answers:
            leave(answer)
        self._stubs.close()
        self._reader.close()
        if self._leader is not None:
            self._leader.close()

    @property
    def patience_ms(self) -> int | None:
        """Return the longest time to wait for descriptors before calling `follow`."""
        return LOOK_MS if self._stubs.followed else None

    def follow(self) -> None:
        """Check tasks that were allowed to become a program, in strict mode."""
        followed = self._stubs.followed
        followed.follow()
        if followed.exchanged and self._may_complain():
            journal.warning("killed a program that was replaced while it was being executed")
        followed.exchanged = 0

    # --- questions of the kernel --------------------------------------------

    def asked(self, listener: Listener, question: Question) -> None:
        """Decide on the call of a task that wants to execute something."""
        try:
            if not self._is_begun and self._is_start(question.task):
                listener.let(question)
            elif not self._stubs.serve(listener, question):
                self._decide(listener, question)
        except Exception as error:
            # The task may be gone, or we are out of descriptors or memory. Nothing runs that was not
            # decided on.
            self._fail(listener, question, error)

    def _is_start(self, task: int) -> bool:
        """Return whether this is the command itself, for which the init searches one directory after another.

        Nobody but the init can ask first, and it has one thread. When somebody else asks, or the same task
        with another program, the command runs.
        """
        program = os.stat(f"/proc/{task}/exe")
        if self._first is None:
            self._first = task, program
            self._reader.enter(task)
            return True
        first_task, first_program = self._first
        is_start = task == first_task and os.path.samestat(program, first_program)
        self._is_begun = not is_start
        return is_start

    # --- decisions ----------------------------------------------------------

    def _decide(self, listener: Listener, question: Question) -> None:
        if question.number == EXECVEAT and question.arguments[4] & AT_EXECVE_CHECK:
            # It executes nothing, whatever another thread makes of the path. An older kernel refuses it.
            listener.let(question)
            return
        try:
            call = self._reader.read(question, is_at=question.number == EXECVEAT)
        except OSError as error:
            if error.errno not in NOT_THERE or not listener.is_waiting(question):
                raise
            # There is nothing to execute, as the kernel would say. It must not look by itself: somebody may
            # create it now, and through /proc/self only the task finds anything.
            listener.refuse(question, error.errno)
            return
        waiting = _Waiting(question, call)
        with ExitStack() as opened:
            opened.callback(call.close)
            if not listener.is_waiting(question):
                # Perhaps another task was read.
                return
            answer = self._answer(waiting)
            if callable(answer):
                if self._wait(waiting, answer):
                    opened.pop_all()
                    return
                answer()
                answer = _TOO_MANY
            self._carry_out(listener, waiting, answer)

    def _answer(self, waiting: _Waiting) -> ExecAnswer | Withdraw:
        """Ask the policy. Raises OSError where the task can't be read."""
        try:
            return self._policy.on_exec(waiting.call, partial(self.settle_later, waiting))
        except OSError:
            raise
        except Exception as error:
            # Rules and answers come from outside; whatever they lead to, nothing runs undecided.
            if self._may_complain():
                journal.error("no decision could be made on an execution", error=error)
            return _FAILED

    def _wait(self, waiting: _Waiting, withdraw: Withdraw) -> bool:
        """Keep a call, with its files, until it is settled or its process ends. Return whether it may
        wait."""
        waiting.size_bytes = waiting.call.size_bytes
        if not self._may_wait(waiting.size_bytes):
            return False
        try:
            # Without it nobody would learn that the process has ended, and the call would stay for good.
            waiting.file = os.pidfd_open(process_of(waiting.question.task))
        except OSError:
            return False
        waiting.withdraw = withdraw
        self._waiting[waiting.question.id] = waiting
        assert self._poll is not None
        self._poll.register(waiting.file, select.POLLIN)
        return True

    def ready(self, file: int, listener: Listener) -> None:
        """Handle a readable descriptor: an answer, one of the leader's, or the end of a waiting process."""
        if file == self.file:
            self._settle(listener)
        elif self._leader is not None and file == self._leader.file:
            if not self._leader.serve():
                assert self._poll is not None
                self._poll.unregister(file)
        else:
            self._ended(file)

    def _ended(self, file: int) -> None:
        """Give up the call of a process that has ended: nobody needs the answer."""
        for waiting in list(self._waiting.values()):
            if waiting.file == file:
                self._give_up(waiting)

    def settle_later(self, waiting: _Waiting, answer: ExecAnswer) -> None:
        """Answer a call that waits, from any thread."""
        with self._lock:
            if not self._is_closed:
                self._answers.append((waiting, answer))
                os.eventfd_write(self.file, 1)
                return
        leave(answer)

    def _settle(self, listener: Listener) -> None:
        """Carry out the answers that have arrived."""
        with suppress(BlockingIOError):
            os.eventfd_read(self.file)
        while self._answers:
            waiting, answer = self._answers.popleft()
            if self._forget(waiting):
                try:
                    self._carry_out(listener, waiting, answer)
                except Exception as error:
                    self._fail(listener, waiting.question, error)
            else:
                leave(answer)

    def _give_up(self, waiting: _Waiting) -> None:
        """Withdraw a question whose answer nobody needs any more."""
        self._forget(waiting)
        waiting.call.close()
        assert waiting.withdraw is not None
        waiting.withdraw()

    def _forget(self, waiting: _Waiting) -> bool:
        """Stop waiting for an answer. Return whether anybody was waiting."""
        if self._waiting.pop(waiting.question.id, None) is None:
            return False
        assert self._poll is not None
        self._poll.unregister(waiting.file)
        os.close(waiting.file)
        return True

    # --- answers ------------------------------------------------------------

    def _carry_out(self, listener: Listener, waiting: _Waiting, answer: ExecAnswer) -> None:
        question, call = waiting.question, waiting.call
        try:
            match answer:
                case Run() if not self._policy.is_strict:
                    listener.let(question)
                case Run():
                    self._run_copy(listener, question, call)
                case Deny(message=message):
                    self._stubs.redirect(listener, question, stub_instruction.deny(message))
                case Escalate():
                    self._escalate(listener, question, call, answer)
        finally:
            call.close()

    def _run_copy(self, listener: Listener, question: Question, call: ExecCall) -> None:
        """Let the stub execute the program, from our copy of path and arguments."""
        if not call.is_executable:
            # The caller must learn of this as if from the kernel, because the stub could not go back. The
            # stub could not find what is behind other links in /proc.
            listener.refuse(question, errno.ENOEXEC if call.is_permitted else errno.EACCES)
            return
        assert call.program is not None
        interpreters, is_whole = call.interpreters()
        if not is_whole:
            listener.refuse(question, errno.ENOENT)
            return
        last = interpreters[-1].file if interpreters else call.program
        told = stub_instruction.run(call.path, call.argv, call.environment())
        self._stubs.redirect(listener, question, Copy(told, last.status))

    def _escalate(self, listener: Listener, question: Question, call: ExecCall, answer: Escalate) -> None:
        try:
            escalation = escalation_of(call, answer.environment, answer.outcome)
        except OSError as error:
            problem = error.strerror or str(error)
            answer.outcome(problem)
            reason = f"it can't be let out of the sandbox: {problem}"
            self._stubs.redirect(listener, question, stub_instruction.deny(f"Execution denied: {reason}\n"))
            return
        self._stubs.redirect(listener, question, escalation)

    def _may_complain(self) -> bool:
        """Return whether to write to the log. A command that makes executions fail could fill it."""
        self._complaints += 1
        return self._complaints <= COMPLAINTS_LIMIT

    def _may_wait(self, size_bytes: int) -> bool:
        held = sum(waiting.size_bytes for waiting in self._waiting.values())
        return len(self._waiting) < WAITING_LIMIT and (not held or held + size_bytes <= HELD_BYTES_LIMIT)

    def _fail(self, listener: Listener, question: Question, error: Exception) -> None:
        if listener.is_waiting(question):
            if self._may_complain():
                journal.warning("an execution was refused", reason=str(error) or type(error).__name__)
            # What is too long for us is too long for the kernel, which would have to read it again to say so.
            is_too_long = isinstance(error, OSError) and error.errno == errno.E2BIG
            listener.refuse(question, errno.E2BIG if is_too_long else errno.EPERM)
