"""Watches what a command attempts, and notes what its profile refuses.

A tracer answers the kernel's questions about the calls of one command. It has a thread of its own, because
reading memory and looking at files may block. It only looks: it refuses what the profile's filter refuses,
and lets everything else continue, confined by the sandbox as without a tracer. A command can change what its
arguments point to after the look, so the record is reliable only for a command that hides nothing.

If somebody decides on the command's executions (`executions`), the tracer asks for that decision too, because
a command has at most one listener.

When the tracer ends, or its process dies, watched calls fail with ENOSYS, and none waits.
"""

from __future__ import annotations

import errno
import logging
import os
import select
import socket
import struct
import threading
from collections.abc import Iterable
from typing import Final

from paddock.journal import Journal
from paddock.model.denial import Trace
from paddock.sandbox.denial.attempt import Attempt, Content, FileAttempt, Need, Resolution, denial_of
from paddock.sandbox.denial.call_arguments import ArgumentReader, NamedFile, Subject
from paddock.sandbox.denial.exec_answer import ExecPolicy
from paddock.sandbox.denial.executions import Executions
from paddock.sandbox.denial.mount_overlay import MountOverlay
from paddock.sandbox.denial.notification import Listener, Question
from paddock.sandbox.denial.observation import Observation
from paddock.sandbox.denial.policy import Policy
from paddock.sandbox.denial.resolution import resolve
from paddock.sandbox.denial.trace import Notes
from paddock.sandbox.host.syscall_table import MACHINES
from paddock.sandbox.plan.plan import Plan
from paddock.sandbox.profile.path import clean

journal = Journal(logging.getLogger(__name__))

KNOWN_LIMIT: Final = 1024
"""Attempts that need no second look, because builds name the same files again and again: 4 MiB at most."""

TURN_TIMEOUT_S: Final = 0.05
"""How long one tracer waits for another, which may hang in a dead file system and must not block the rest."""

_turn: Final = threading.Lock()
"""One tracer of a process answers at a time: twenty at once would each take the interpreter from the event
loop in turn."""

FINISH_TIMEOUT_S: Final = 5.0
"""How long to wait for a thread that hangs in a dead file system, before leaving it behind."""

_DESCRIPTOR: Final = struct.Struct("=i")
_DESCRIPTOR_SPACE: Final = socket.CMSG_SPACE(_DESCRIPTOR.size)


def trace_plan(
    plan: Plan,
    arch: str,
    *,
    is_traced: bool = True,
    execution_policy: ExecPolicy | None = None,
    leader: socket.socket | None = None,
) -> Tracer:
    """Return a tracer for a command under a plan, on a machine of this kind.

    For a command that is not traced, it handles only the executions that somebody decides on. The tracer
    takes ownership of `leader`, which starts programs outside of the sandbox.
    """
    overlay = MountOverlay(plan.mounts, plan.placeholders)
    observation = Observation(
        plan, MACHINES[arch], is_traced=is_traced, is_intercepted=execution_policy is not None
    )
    executions = None if execution_policy is None else Executions(execution_policy, leader)
    try:
        return Tracer(observation, Policy(plan), overlay, executions, is_traced=is_traced)
    except BaseException:
        if executions is not None:
            executions.close()
        raise


class Tracer:
    """Traces one command. `begin` once it has the other end of the socket, and `finish` in the end."""

    def __init__(
        self,
        observation: Observation,
        policy: Policy,
        overlay: MountOverlay,
        executions: Executions | None = None,
        *,
        is_traced: bool = True,
    ) -> None:
        self.is_traced = is_traced
        """Whether it records refusals."""
        self._executions = executions
        self._observation = observation
        self._policy = policy
        self._overlay = overlay
        self._stop = os.eventfd(0, os.EFD_CLOEXEC)
        try:
            self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._socket.send(observation.program())
        except BaseException:
            os.close(self._stop)
            raise
        self.file = theirs.detach()
        """For `trace=` of paddock-init. The caller owns it."""
        self._thread = threading.Thread(target=self._run, name="paddock-tracer", daemon=True)
        self._arguments = ArgumentReader(overlay)
        self._known: set[Subject] = set()
        self._notes = Notes()

    def begin(self) -> None:
        """Start to wait for the command and to answer its calls, which fail if no thread can be started."""
        try:
            self._thread.start()
        except RuntimeError:
            self._socket.close()

    def finish(self) -> Trace:
        """Stop tracing and return the record. Call it once; it blocks for a moment."""
        if self._thread.is_alive():
            os.eventfd_write(self._stop, 1)
            self._thread.join(FINISH_TIMEOUT_S)
        if not self._thread.is_alive():
            self._socket.close()
            os.close(self._stop)
            if self._executions is not None:
                self._executions.close()
        return self._notes.trace()

    def discard(self) -> None:
        """Close everything, instead of `begin` and `finish`, because there will be nothing to trace."""
        os.close(self.file)
        self.finish()

    # --- in the thread ------------------------------------------------------

    def _run(self) -> None:
        listener = self._listener()
        if listener is None:
            return
        try:
            poll = self._poll(listener.file)
            if self._executions is not None:
                self._executions.begin(poll)
            while self._serve(listener, self._ready(poll)):
                pass
        finally:
            listener.close()

    def _ready(self, poll: select.poll) -> dict[int, int]:
        return dict(poll.poll(None if self._executions is None else self._executions.patience_ms))

    def _serve(self, listener: Listener, ready: dict[int, int]) -> bool:
        """Answer what has come. Return whether more can come."""
        if self._stop in ready:
            return False
        if self._executions is not None:
            self._serve_executions(self._executions, listener, ready)
        if listener.file not in ready:
            return True
        if not ready[listener.file] & select.POLLIN:
            return False
        question = listener.question()
        if question is not None:
            has_turn = _turn.acquire(timeout=TURN_TIMEOUT_S)
            try:
                self._answer(listener, question)
            except Exception as error:
                # Whatever one call leads to, the others get their answers.
                journal.error("refused a call that could not be inspected", error=error)
                listener.refuse(question, errno.EPERM)
            finally:
                if has_turn:
                    _turn.release()
        return True

    def _serve_executions(self, executions: Executions, listener: Listener, ready: dict[int, int]) -> None:
        executions.follow()
        for file in ready:
            if file != listener.file:
                executions.ready(file, listener)

    def _listener(self) -> Listener | None:
        """Return the listener that the command sends before its program runs; None if it never does."""
        file = self._socket.fileno()
        if not self._is_readable(self._poll(file), file):
            return None
        try:
            _, parts, _, _ = self._socket.recvmsg(1, _DESCRIPTOR_SPACE, socket.MSG_CMSG_CLOEXEC)
        except ConnectionResetError:
            # The command ended before it read what was sent.
            return None
        return Listener(*_DESCRIPTOR.unpack(parts[0][2])) if parts else None

    def _poll(self, file: int) -> select.poll:
        poll = select.poll()
        poll.register(file, select.POLLIN)
        poll.register(self._stop, select.POLLIN)
        return poll

    def _is_readable(self, poll: select.poll, file: int) -> bool:
        """Wait until there is something to read; False if there never will be, or it is time to end."""
        ready = dict(poll.poll())
        return self._stop not in ready and bool(ready[file] & select.POLLIN)

    def _answer(self, listener: Listener, question: Question) -> None:
        number = question.number
        rule = self._observation.refusal(number, question.arguments)
        if rule is not None:
            told = self._arguments.of_refused(question, rule, self._observation.address(number))
            self._note(listener, question, [told])
            listener.refuse(question, rule.errno)
        elif self._executions is not None and self._observation.is_execution(number):
            if self.is_traced and (call := self._observation.call(number)):
                self._note(listener, question, self._arguments.of_watched(question, call))
            self._executions.asked(listener, question)
        elif call := self._observation.call(number):
            self._note(listener, question, self._arguments.of_watched(question, call))
            listener.let(question)
        else:
            # The filter asks about nothing else. Refuse what is not understood.
            listener.refuse(question, errno.EPERM)

    def _note(self, listener: Listener, question: Question, subjects: Iterable[Subject]) -> None:
        unknown = [told for told in subjects if told not in self._known]
        # Otherwise perhaps another task was read.
        if not unknown or not listener.is_waiting(question):
            return
        if len(self._known) + len(unknown) > KNOWN_LIMIT:
            self._known.clear()
        self._known.update(unknown)
        for told in unknown:
            denial = denial_of(self._attempt(told), self._policy)
            if denial is not None:
                self._notes.add(denial)

    def _attempt(self, told: Subject) -> Attempt:
        if not isinstance(told, NamedFile):
            return told
        found = resolve(told.path, follows=told.follows, overlay=self._overlay)
        linked = None
        if told.source is not None:
            source = resolve(told.source, follows=False, overlay=self._overlay)
            if source.content in (Content.NOTHING, Content.NOWHERE):
                found = Resolution(found.real, Content.NOWHERE)
            # rename(2) replaces a file, link(2) does not.
            linked = source.real if told.need is Need.VACANCY else None
        # Cleaning takes `..` as written; after a link it means something else.
        target = found.real if ".." in told.path.split("/") else clean(told.path)
        return FileAttempt(
            told.kind,
            target,
            told.need,
            found.real,
            found.content,
            told.is_moved,
            is_in_place=told.follows,
            linked=linked,
        )
