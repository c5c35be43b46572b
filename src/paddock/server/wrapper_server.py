"""Answers the wrappers of one command: decides on what each would execute, and runs it, lets it out or denies
it.

A wrapper (native/execve_wrapper.c, or the original's) sends one end of a stream to the command's socket, and
the rest is said there (`intercept.wire`). As for notifications, an `ExecPolicy` decides, and paddock-leader
starts programs outside; the wrapper represents such a program inside.

Everything that arrives comes from a confined command. The server closes a stream that breaks the protocol,
and its wrapper runs nothing.
"""

from __future__ import annotations

import array
import logging
import os
import select
import socket
import stat
import struct
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from msgspec import Struct, field

from paddock.intercept import wire
from paddock.intercept.wire import FrameReader, WireError
from paddock.journal import Journal
from paddock.protocol.value_count import count_strings
from paddock.sandbox.denial.escalation import Escalation, Leader, ProcessStatus, escalation_of, status_of
from paddock.sandbox.denial.exec_answer import Deny, Escalate, ExecAnswer, ExecPolicy, Run, Withdraw, leave
from paddock.sandbox.denial.exec_call import NOT_THERE, ExecCall, ExecCallReader
from paddock.sandbox.denial.stubs import HELD_BYTES_LIMIT

journal = Journal(logging.getLogger(__name__))

STREAMS_LIMIT: Final = 256
"""Wrappers of one command that are served at once; others wait. Each takes some descriptors."""

HELD_BYTES: Final = 64 << 20
"""The memory that all incomplete requests may take together: a few of the largest."""

VALUES_LIMIT: Final = 1 << 18
"""Values of one request: of the 2 MiB that the kernel takes by default (execve(2)), each word takes at least
the eight bytes of its pointer. Reading them holds up all others in this process, for some milliseconds."""

REASON_CHARACTERS: Final = 16 << 10
"""The longest reason sent to a wrapper: a sixth of what a stream takes at once."""

LOGGED_FAILURES: Final = 10
"""Streams of one command whose failure is logged: a command could make as many as it likes."""

FINISH_TIMEOUT_S: Final = 5.0
"""How long to wait for a thread that may hang in a dead file system. It is left behind then."""

_READ_BYTES: Final = 1 << 16
_FILES_SPACE: Final = socket.CMSG_SPACE(wire.FILES_LIMIT * struct.calcsize("i"))
_FLAGS: Final = socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
_CREDENTIALS: Final = struct.Struct("=3i")
_TOLD: Final = struct.Struct("=2i")
"""The report of paddock-leader about a program (native/escalation.h)."""
_EXITED, _DIED = 1, 2
_SIGNAL: Final = struct.Struct("=i")
"""A signal for such a program, as paddock-leader takes it."""
_DENIED: Final = "Execution denied: "
_UNDECIDED: Final = Deny(f"{_DENIED}no decision could be made\n")
_TOO_MANY: Final = Deny(f"{_DENIED}too many executions of this command wait for an answer\n")


class _Stream(Struct, eq=False):
    """A wrapper that is served."""

    channel: socket.socket
    process: int
    """The process that has made the stream."""
    reader: FrameReader = field(default_factory=FrameReader)
    files: list[int] = field(default_factory=list)
    """Descriptors that have arrived and belong to no program yet."""
    call: ExecCall | None = None
    withdraw: Withdraw | None = None
    """Set while somebody decides."""
    escalation: Escalation | None = None
    """Set while the server waits for its descriptors."""
    status: ProcessStatus | None = None
    """The wrapper's status before it gets the verdict: afterwards it blocks signals, which its program
    must not."""
    program: socket.socket | None = None
    """Reports on the program outside; closing it ends the program."""

    @property
    def held_bytes(self) -> int:
        """Return about how much memory the arguments and variables take that are kept for it."""
        called = 0 if self.call is None else self.call.size_bytes
        return called + (0 if self.escalation is None else len(self.escalation.told))


class WrapperServer:
    """Serves one command, in a thread. `begin` once it has `file`, and `finish` in the end.

    `leader` is the socket of the paddock-leader that starts programs outside; the server owns it from now on.
    """

    def __init__(self, policy: ExecPolicy, leader: socket.socket | None) -> None:
        self._policy = policy
        self._leader = None if leader is None else Leader(leader)
        self._calls = ExecCallReader()
        self._has_root = False
        self._failures = 0
        self._streams: dict[int, _Stream] = {}
        self._lock = threading.Lock()
        self._answers: deque[tuple[_Stream, ExecAnswer]] = deque()
        self._is_closed = False
        self._stop = False
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        try:
            # Not datagrams, as in the original: those could be sent to any such socket of the host.
            self._arrivals, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except BaseException:
            os.close(self._wake)
            raise
        self.file = theirs.detach()
        """The command's end of the socket. The caller owns it."""
        self._poll = select.poll()
        self._handlers: dict[int, Callable[[int], None]] = {}
        self._thread = threading.Thread(target=self._run, name="paddock-wrappers", daemon=True)

    def begin(self) -> None:
        """Start the thread that serves wrappers. If it can't start, they find that nobody decides."""
        try:
            self._thread.start()
        except RuntimeError:
            self._arrivals.close()

    def finish(self) -> None:
        """End the server, and every program that it let out. Blocks for a moment; call this once."""
        if self._thread.is_alive():
            with self._lock:
                self._stop = True
                os.eventfd_write(self._wake, 1)
            self._thread.join(FINISH_TIMEOUT_S)
        if self._thread.is_alive():
            return
        with self._lock:
            self._is_closed = True
            os.close(self._wake)
        for _, answer in self._answers:
            leave(answer)
        self._arrivals.close()
        self._calls.close()
        if self._leader is not None:
            self._leader.close()

    def discard(self) -> None:
        """Close everything, instead of `begin` and `finish`: there will be no command."""
        os.close(self.file)
        self.finish()

    # --- in the thread ------------------------------------------------------

    def _run(self) -> None:
        self._watch(self._wake, self._serve_answers)
        self._watch(self._arrivals.fileno(), self._serve_arrival)
        if self._leader is not None:
            self._watch(self._leader.file, partial(self._serve_leader, self._leader))
        try:
            while not self._stop:
                self._serve()
        except Exception as error:
            journal.error("the wrappers of a command are not served any more", error=error)
        finally:
            # A wrapper that asks now finds that nobody decides, and one that waits learns it.
            self._arrivals.close()
            for stream in list(self._streams.values()):
                self._end(stream)

    def _serve(self) -> None:
        for file, events in self._poll.poll():
            handler = self._handlers.get(file)
            # An event served before this one may have ended this stream.
            if handler is not None:
                handler(events)

    def _watch(self, file: int, handler: Callable[[int], None]) -> None:
        self._handlers[file] = handler
        self._poll.register(file, select.POLLIN)

    def _unwatch(self, file: int) -> None:
        if self._handlers.pop(file, None) is not None:
            self._poll.unregister(file)

    def _serve_arrival(self, events: int) -> None:
        """Take the stream of another wrapper."""
        try:
            data, files = _received(self._arrivals)
        except BlockingIOError:
            data, files = b"", []
        except WireError as error:
            self._failed(error)
            return
        if not data and events & select.POLLHUP:
            # Nobody has the other end, so nobody can ask any more.
            self._unwatch(self._arrivals.fileno())
            return
        try:
            stream = _stream_of(files) if data == wire.HELLO else None
        except OSError as error:
            self._failed(error)
            stream = None
        if stream is None:
            _close_all(files)
            return
        self._streams[stream.channel.fileno()] = stream
        self._watch(stream.channel.fileno(), partial(self._serve_stream, stream))
        if len(self._streams) == STREAMS_LIMIT:
            self._unwatch(self._arrivals.fileno())

    def _serve_stream(self, stream: _Stream, _events: int) -> None:
        try:
            data, files = _received(stream.channel)
            stream.files += files
            if not data:
                self._end(stream)
                return
            if len(stream.files) > wire.FILES_LIMIT:
                # The bytes of one message may come one by one, with more descriptors each time.
                raise WireError("received more descriptors than one message carries")
            if sum(each.reader.held_bytes for each in self._streams.values()) + len(data) > HELD_BYTES:
                raise WireError("too many questions at once")
            for message in stream.reader.feed(data):
                self._take(stream, message)
        except BlockingIOError:
            return
        except (OSError, WireError) as error:
            self._failed(error)
            self._end(stream)

    def _take(self, stream: _Stream, message: bytes) -> None:
        """Take one message. Raises OSError and WireError."""
        if count_strings(message, VALUES_LIMIT) is None:
            raise WireError(f"a message has more than {VALUES_LIMIT} values")
        if stream.escalation is not None:
            self._let_out(stream, stream.escalation, wire.read_files(message, len(stream.files)))
        elif stream.program is not None and not stream.files:
            signal = _SIGNAL.pack(wire.read_signal(message))
            stream.program.send(signal, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        elif stream.call is None and not stream.files:
            self._ask(stream, wire.read_request(message))
        else:
            raise WireError("nothing was to be said")

    def _end(self, stream: _Stream) -> None:
        """Drop a wrapper. One that still waits ends, and its program with it."""
        number = stream.channel.fileno()
        del self._streams[number]
        self._unwatch(number)
        stream.channel.close()
        if stream.withdraw is not None:
            stream.withdraw()
        if stream.call is not None:
            stream.call.close()
        if stream.escalation is not None:
            stream.escalation.close()
        if stream.program is not None:
            self._unwatch(stream.program.fileno())
            stream.program.close()
        _close_all(stream.files)
        if self._arrivals.fileno() >= 0:
            self._watch(self._arrivals.fileno(), self._serve_arrival)

    def _failed(self, error: Exception) -> None:
        self._failures += 1
        if self._failures <= LOGGED_FAILURES:
            journal.warning("a wrapper was not served", reason=str(error))

    def _say(self, stream: _Stream, frame: bytes) -> None:
        """Send a message, which is small enough to be taken at once. Raises OSError."""
        if stream.channel.send(frame, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL) != len(frame):
            raise OSError("the wrapper does not read")

    # --- decisions ----------------------------------------------------------

    def _ask(self, stream: _Stream, request: wire.ExecRequest) -> None:
        self._require_root(stream.process)
        try:
            call = stream.call = self._calls.told(
                stream.process,
                os.fsencode(request.file),
                [os.fsencode(word) for word in request.argv],
                os.fsencode(request.workdir),
                [os.fsencode(f"{name}={value}") for name, value in request.env.items()],
            )
        except OSError as error:
            if error.errno not in NOT_THERE:
                raise
            # There is nothing to execute. The wrapper learns that from the kernel.
            self._carry_out(stream, Run())
            return
        try:
            answer = self._policy.on_exec(call, partial(self._settle_later, stream))
        except Exception as error:
            # Rules and answers come from outside; whatever they lead to, nothing runs undecided.
            journal.error("no decision could be made on an execution", error=error)
            answer = _UNDECIDED
        if not isinstance(answer, Run | Deny) and not self._may_wait(call):
            if callable(answer):
                answer()
            else:
                leave(answer)
            answer = _TOO_MANY
        if callable(answer):
            stream.withdraw = answer
        else:
            self._carry_out(stream, answer)

    def _may_wait(self, call: ExecCall) -> bool:
        """Return whether a call may be kept until somebody decides, or sends its descriptors."""
        held_bytes = sum(stream.held_bytes for stream in self._streams.values())
        return held_bytes <= max(HELD_BYTES_LIMIT, call.size_bytes)

    def _require_root(self, process: int) -> None:
        """See files as the command does. Raises OSError if the process has ended, or is not in the sandbox.

        Its number may by now belong to another process, outside the sandbox.
        """
        if os.path.samestat(os.stat(f"/proc/{process}/ns/pid"), os.stat("/proc/self/ns/pid")):
            raise ProcessLookupError("the wrapper is gone")
        if not self._has_root:
            self._calls.enter(process)
            self._has_root = True

    def _settle_later(self, stream: _Stream, answer: ExecAnswer) -> None:
        """Answer a wrapper that waits, from any thread."""
        with self._lock:
            if not self._is_closed:
                self._answers.append((stream, answer))
                os.eventfd_write(self._wake, 1)
                return
        leave(answer)

    def _serve_answers(self, _events: int) -> None:
        with suppress(BlockingIOError):
            os.eventfd_read(self._wake)
        while self._answers:
            stream, answer = self._answers.popleft()
            if stream.withdraw is None or stream.channel.fileno() < 0:
                leave(answer)
                continue
            stream.withdraw = None
            try:
                self._carry_out(stream, answer)
            except OSError as error:
                self._failed(error)
                self._end(stream)

    def _carry_out(self, stream: _Stream, answer: ExecAnswer) -> None:
        """Tell a wrapper what to do. Raises OSError."""
        if isinstance(answer, Escalate):
            answer = self._prepare(stream, answer) or answer
        if stream.call is not None:
            # A wrapper may keep its stream for as long as it likes.
            stream.call.close()
        match answer:
            case Run():
                self._say(stream, wire.run())
            case Deny(message=message):
                reason = message.removeprefix(_DENIED).removesuffix("\n")
                self._say(stream, wire.deny(reason[:REASON_CHARACTERS]))
            case Escalate():
                self._say(stream, wire.escalate())

    # --- programs outside ---------------------------------------------------

    def _prepare(self, stream: _Stream, answer: Escalate) -> Deny | None:
        """Hold the program to execute outside, or return why that is impossible."""
        assert stream.call is not None
        try:
            stream.status = status_of(stream.process)
            stream.escalation = escalation_of(stream.call, answer.environment, answer.outcome)
        except OSError as error:
            problem = error.strerror or str(error)
            answer.outcome(problem)
            return Deny(f"{_DENIED}it can't be let out of the sandbox: {problem}\n")
        return None

    def _let_out(self, stream: _Stream, escalation: Escalation, numbers: list[int]) -> None:
        """Have the program started. Raises OSError."""
        assert self._leader is not None
        assert stream.status is not None
        self._require_root(stream.process)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        stream.program = ours
        with theirs:
            passed = dict(zip(numbers, stream.files, strict=True))
            escalation.request_with(self._leader, stream.process, stream.status, passed, theirs)
        stream.escalation = None
        escalation.close()
        _close_all(stream.files)
        stream.files = []
        self._watch(ours.fileno(), partial(self._serve_program, stream, ours))

    def _serve_leader(self, leader: Leader, _events: int) -> None:
        """Take the reports of programs that were started."""
        if not leader.serve():
            self._unwatch(leader.file)

    def _serve_program(self, stream: _Stream, program: socket.socket, _events: int) -> None:
        """Tell the wrapper how its program has ended."""
        try:
            told = program.recv(_TOLD.size)
        except OSError:
            told = b""
        if len(told) == _TOLD.size:
            kind, value = _TOLD.unpack(told)
            if kind not in (_EXITED, _DIED):
                # It has stopped. The terminal has stopped its wrapper too, because they share a group.
                return
            with suppress(OSError):
                self._say(stream, wire.exited(value if kind == _EXITED else 128 + value))
        self._end(stream)


def _received(file: socket.socket) -> tuple[bytes, list[int]]:
    """Read the bytes that have arrived, with their descriptors. Raises OSError, and WireError if some are
    lost."""
    data, parts, flags, _ = file.recvmsg(_READ_BYTES, _FILES_SPACE, _FLAGS)
    files = array.array("i")
    for level, kind, received in parts:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            files.frombytes(received[: len(received) - len(received) % files.itemsize])
    if flags & socket.MSG_CTRUNC:
        _close_all(list(files))
        raise WireError("received more descriptors than it can take")
    return data, list(files)


def _stream_of(files: list[int]) -> _Stream | None:
    """Make a stream from the descriptor that a wrapper sent; None if it is not one. Raises OSError."""
    if len(files) != 1 or not stat.S_ISSOCK(os.fstat(files[0]).st_mode):
        return None
    received = socket.socket(fileno=os.dup(files[0]))
    try:
        if (received.family, received.type) != (socket.AF_UNIX, socket.SOCK_STREAM):
            received.close()
            return None
        credentials = received.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    except BaseException:
        received.close()
        raise
    os.close(files[0])
    return _Stream(received, _CREDENTIALS.unpack(credentials)[0])


def _close_all(files: list[int]) -> None:
    for file in files:
        os.close(file)
