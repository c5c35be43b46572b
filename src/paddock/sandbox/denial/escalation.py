"""Lets a program run outside of the sandbox, in place of a task inside.

An `Escalation` holds what was decided on: the program and the working directory, both opened on the host and
found to be the files that the caller means, and our copy of arguments and variables. When the caller has
become paddock-stub (native/stub.c), `request` asks paddock-leader (native/leader.c) to start the program,
with the descriptors, group, limits and signals that the stub has from its caller. The `Leader` answers each
request, and only its answer says whether the program was started.
"""

from __future__ import annotations

import array
import ctypes
import errno
import os
import re
import resource
import socket
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from typing import Final, NamedTuple

from msgspec import Struct

from paddock.memory_file import memory_file
from paddock.sandbox.denial import stub_instruction
from paddock.sandbox.denial.exec_answer import NOT_BEGUN, Outcome
from paddock.sandbox.denial.exec_call import ExecCall, open_on_host

FILES_LIMIT: Final = 240
_NUMBERS_LIMIT: Final = 4096
"""Highest descriptor to look for. The kernel makes a new program's table as small as possible."""
_LIMITS: Final = 16
_REQUEST: Final = struct.Struct(f"=iIIIQQQ{2 * _LIMITS}Q{FILES_LIMIT}i")
"""struct escalation of native/escalation.h."""
_ANSWER: Final = struct.Struct("=QQ")
"""struct escalation_answer."""
_LEADER_GONE: Final = "the leader of its session ended before it was started"
_UNLIMITED: Final = 2**64 - 1
_PIDFD_GETFD: Final = 438
_WORD_BITS: Final = 64
_STATUS_BYTES: Final = 8192
"""Bytes to read of /proc/PID/status, which has about 1,500 (proc_pid_status(5))."""
_STATUS: Final = re.compile(
    rb"^Umask:\s*(\d+)$.*^FDSize:\s*(\d+)$.*^SigBlk:\s*(\w+)$.*^SigIgn:\s*(\w+)$", re.MULTILINE | re.DOTALL
)
"""The program's name comes first, and the kernel escapes newlines in it."""

_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc["syscall"]
_syscall.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_long, ctypes.c_long)
_syscall.restype = ctypes.c_long


class ProcessStatus(NamedTuple):
    """Attributes of a process that its program does not choose; signals as bits."""

    table_size: int
    """The size of its table of descriptors."""
    mask: int
    blocked: int
    ignored: int


class Leader:
    """Our end of the socket of one paddock-leader. For one thread at a time; `close` it."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._outcomes: dict[int, Outcome] = {}
        self._numbers = count(1)

    @property
    def file(self) -> int:
        """Return the descriptor, which becomes readable when there is something to `serve`."""
        return self._control.fileno()

    def request(self, request: Callable[[int], bytes], files: Sequence[int], outcome: Outcome) -> None:
        """Send the request built for its number. `outcome` gets the answer. Raises OSError."""
        number = next(self._numbers)
        sent = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))]
        self._control.sendmsg([request(number)], sent, socket.MSG_DONTWAIT)
        self._outcomes[number] = outcome

    def serve(self) -> bool:
        """Take the answers that have come. Return whether more can come."""
        try:
            while answer := self._control.recv(_ANSWER.size, socket.MSG_DONTWAIT):
                number, error = _ANSWER.unpack(answer)
                outcome = self._outcomes.pop(number)
                outcome(os.strerror(error) if error else None)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def close(self) -> None:
        """Take the answers that have come. The leader answers at once: a request without one was not
        started."""
        self.serve()
        self._control.close()
        while self._outcomes:
            self._outcomes.popitem()[1](_LEADER_GONE)


class Escalation(Struct):
    """A program to run outside. `close` it."""

    outcome: Outcome
    """Learns the outcome, at the latest at `close`."""
    program: int
    directory: int
    told: bytes
    """Path, arguments and variables, as native/instruction.h has them."""
    is_script: bool
    """Whether to execute it by its path, which its interpreter needs; the sandbox can't change that path."""
    problem: str | None = NOT_BEGUN
    """Why it was not started, as far as is known; None once the leader reports the outcome."""

    def close(self) -> None:
        """Let go of the files."""
        os.close(self.program)
        os.close(self.directory)
        if self.problem is not None:
            self.outcome(self.problem)

    def request(
        self,
        leader: Leader,
        stub: int,
        blocked: int,
        told: Sequence[int],
        stub_end: socket.socket,
    ) -> None:
        """Have the program started as the process `stub` would start it; the bits say what the stub has open.

        `blocked` are the signals that were blocked before the stub blocked all of them.

        Raises OSError; nothing is started then.
        """
        with self._failing_with_reason(), ExitStack() as opened:
            status = status_of(stub)._replace(blocked=blocked)
            numbers, files = _descriptors_of(stub, open_numbers(told, status.table_size), opened)
            passed = dict(zip(numbers, files, strict=True))
            self.request_with(leader, stub, status, passed, stub_end)

    def request_with(
        self,
        leader: Leader,
        caller: int,
        status: ProcessStatus,
        passed: Mapping[int, int],
        caller_end: socket.socket,
    ) -> None:
        """Have the program started as the process `caller` would, with this status and these descriptors.

        `passed` maps the program's numbers to the descriptors. Raises OSError; nothing is started then.
        """
        with self._failing_with_reason(), ExitStack() as opened:
            memory = memory_file("program", self.told)
            opened.callback(os.close, memory)
            request = partial(self._request, caller, status, tuple(passed))
            files = (self.program, self.directory, memory, caller_end.fileno(), *passed.values())
            leader.request(request, files, self.outcome)
            self.problem = None

    @contextmanager
    def _failing_with_reason(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.problem = error.strerror or str(error)
            raise

    def _request(self, caller: int, status: ProcessStatus, numbers: Sequence[int], request: int) -> bytes:
        """Return the bytes of a request of this number."""
        limits = [value for number in range(_LIMITS) for value in _limit_of(caller, number)]
        return _REQUEST.pack(
            os.getpgid(caller),
            status.mask,
            self.is_script,
            len(numbers),
            status.ignored,
            status.blocked,
            request,
            *limits,
            *numbers,
            *[0] * (FILES_LIMIT - len(numbers)),
        )


def escalation_of(call: ExecCall, environment: Sequence[bytes], outcome: Outcome) -> Escalation:
    """Open on the host the files that a call means. Raises OSError if others are there."""
    program = call.program
    if program is None:
        raise OSError(errno.ENOENT, "the host does not have the program")
    with ExitStack() as opened:
        file = open_on_host(os.fsencode(program.path), program.status)
        opened.callback(os.close, file)
        directory = open_on_host(call.cwd, os.stat(f"/proc/{call.task}/cwd"))
        opened.callback(os.close, directory)
        told = stub_instruction.run(os.fsencode(program.path), call.argv, environment)
        escalation = Escalation(outcome, file, directory, told, program.head().startswith(b"#!"))
        opened.pop_all()
    return escalation


def open_numbers(told: Sequence[int], size: int) -> Sequence[int]:
    """Return the numbers that may be open in a table of this size. Raises OSError if it is too large.

    The bits cover the lowest numbers; the caller must try all others.
    """
    if size > _NUMBERS_LIMIT:
        raise OSError(errno.EMFILE, f"descriptors above {_NUMBERS_LIMIT} can't be carried out of a sandbox")
    known = _WORD_BITS * len(told)
    numbers = [number for number in range(known) if told[number // _WORD_BITS] >> number % _WORD_BITS & 1]
    return [*numbers, *range(known, size)]


def _descriptors_of(process: int, numbers: Sequence[int], opened: ExitStack) -> tuple[list[int], list[int]]:
    """Return our copies of the descriptors that a process has open, by its numbers.

    Raises OSError if there are too many. The process has executed the stub, so all of its descriptors are
    inherited.
    """
    pidfd = os.pidfd_open(process)
    opened.callback(os.close, pidfd)
    found, files = [], []
    # One by one, because a process that is not dumpable shows no list (proc_pid_fd(5)).
    for number in numbers:
        file = _syscall(_PIDFD_GETFD, pidfd, number, 0)
        if file < 0:
            if (error := ctypes.get_errno()) != errno.EBADF:
                raise OSError(error, os.strerror(error))
            continue
        opened.callback(os.close, file)
        found.append(number)
        files.append(file)
    if len(files) > FILES_LIMIT:
        raise OSError(errno.EMFILE, f"more than {FILES_LIMIT} descriptors can't be carried out of a sandbox")
    return found, files


def status_of(process: int) -> ProcessStatus:
    """Read the current status of a process. Raises OSError."""
    file = os.open(f"/proc/{process}/status", os.O_RDONLY | os.O_CLOEXEC)
    try:
        found = _STATUS.search(os.read(file, _STATUS_BYTES))
    finally:
        os.close(file)
    if found is None:
        raise OSError(errno.ESRCH, os.strerror(errno.ESRCH))
    mask, size, blocked, ignored = found.groups()
    return ProcessStatus(int(size), int(mask, 8), int(blocked, 16), int(ignored, 16))


def _limit_of(process: int, number: int) -> tuple[int, int]:
    soft, hard = resource.prlimit(process, number)
    return (
        _UNLIMITED if soft == resource.RLIM_INFINITY else soft,
        _UNLIMITED if hard == resource.RLIM_INFINITY else hard,
    )
