"""Watches what a command attempts, and notes what its profile refuses.

A tracer answers the kernel's questions about the calls of one command, in a thread of its own,
because it reads memory and looks at files, and both may block. It only looks: what the profile's
filter refuses is refused, everything else goes on, and is confined by the sandbox as without
a tracer. A command can change what its arguments point to after the look, so what is noted is
what a command that does not hide has attempted.

When the tracer ends, or its process dies, calls that are watched fail with ENOSYS, and none waits.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import struct
import threading
from collections.abc import Iterable
from typing import Final

from paddock.sandbox.attempt import Attempt, Content, FileAttempt, denial_of
from paddock.sandbox.cover import Cover
from paddock.sandbox.notification import Listener, Question
from paddock.sandbox.observation import Observation
from paddock.sandbox.path import clean
from paddock.sandbox.place import Place, place_of
from paddock.sandbox.policy import Policy
from paddock.sandbox.trace import Notes, Trace
from paddock.sandbox.witness import NamedFile, Testimony, Witness

KNOWN_LIMIT: Final = 1024
"""Attempts that need no second look, because builds name the same files again and again: 4 MiB at most."""

FINISH_TIMEOUT_S: Final = 5.0
"""For a thread that hangs in a dead file system. It is left behind then."""

_DESCRIPTOR: Final = struct.Struct("=i")
_DESCRIPTOR_SPACE: Final = socket.CMSG_SPACE(_DESCRIPTOR.size)


class Tracer:
    """Traces one command. `begin` once it has the other end of the socket, and `finish` in the end."""

    def __init__(self, observation: Observation, policy: Policy, cover: Cover) -> None:
        self._observation = observation
        self._policy = policy
        self._cover = cover
        self._stop = os.eventfd(0, os.EFD_CLOEXEC)
        try:
            self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._socket.send(observation.program())
        except BaseException:
            os.close(self._stop)
            raise
        self.file = theirs.detach()
        """For `trace=` of paddock-init. It is the caller's."""
        self._thread = threading.Thread(target=self._run, name="paddock-tracer", daemon=True)
        self._witness = Witness(cover)
        self._known: set[Testimony] = set()
        self._notes = Notes()

    def begin(self) -> None:
        """Wait for the command, and answer for it. If there can be no thread, it will not be started."""
        try:
            self._thread.start()
        except RuntimeError:
            self._socket.close()

    def finish(self) -> Trace:
        """End, and tell what was noted. Blocks for a moment; to be called once."""
        if self._thread.is_alive():
            os.eventfd_write(self._stop, 1)
            self._thread.join(FINISH_TIMEOUT_S)
        if not self._thread.is_alive():
            self._socket.close()
            os.close(self._stop)
        return self._notes.trace()

    def discard(self) -> None:
        """There will be nothing to trace: close everything, in place of `begin` and `finish`."""
        os.close(self.file)
        self.finish()

    # --- in the thread ------------------------------------------------------

    def _run(self) -> None:
        listener = self._listener()
        if listener is None:
            return
        try:
            poll = self._poll(listener.file)
            while self._is_readable(poll, listener.file):
                question = listener.question()
                if question is not None:
                    self._answer(listener, question)
        finally:
            listener.close()

    def _listener(self) -> Listener | None:
        """What the command sends before its program runs; None if it never does."""
        file = self._socket.fileno()
        if not self._is_readable(self._poll(file), file):
            return None
        try:
            _, parts, _, _ = self._socket.recvmsg(1, _DESCRIPTOR_SPACE, socket.MSG_CMSG_CLOEXEC)
        except ConnectionResetError:
            # It ended before it had read what was sent.
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
            told = self._witness.of_refused(question, rule, self._observation.address(number))
            self._note(listener, question, [told])
            listener.refuse(question, rule.errno)
        elif call := self._observation.call(number):
            self._note(listener, question, self._witness.of_watched(question, call))
            listener.let(question)
        else:
            # The filter asks about nothing else. What is not understood is not let.
            listener.refuse(question, errno.EPERM)

    def _note(self, listener: Listener, question: Question, testimonies: Iterable[Testimony]) -> None:
        unknown = [told for told in testimonies if told not in self._known]
        # Otherwise it was perhaps another task that was read.
        if not unknown or not listener.is_waiting(question):
            return
        if len(self._known) + len(unknown) > KNOWN_LIMIT:
            self._known.clear()
        self._known.update(unknown)
        for told in unknown:
            denial = denial_of(self._attempt(told), self._policy)
            if denial is not None:
                self._notes.add(denial)

    def _attempt(self, told: Testimony) -> Attempt:
        if not isinstance(told, NamedFile):
            return told
        place = place_of(told.path, follows=told.follows, cover=self._cover)
        if told.source is not None and self._is_nothing(told.source):
            place = Place(place.real, Content.NOWHERE)
        # Cleaning takes `..` as written; behind a link it means something else.
        target = place.real if ".." in told.path.split("/") else clean(told.path)
        return FileAttempt(told.kind, target, told.need, place.real, place.content, told.is_moved)

    def _is_nothing(self, path: str) -> bool:
        content = place_of(path, follows=False, cover=self._cover).content
        return content in (Content.NOTHING, Content.NOWHERE)
