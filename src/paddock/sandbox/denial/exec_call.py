"""Reads and pins what a task that waits in execve(2) wants to execute.

It copies path, arguments and variables from the task's memory once, the last two on demand. It opens the
program as the task would find it, and everything here is about that descriptor, whatever has its name later.
The kernel reads everything again when the call continues, so the copy is what the caller asked for only if
nobody races.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import resource
import stat
import struct
from contextlib import suppress
from typing import Final

from msgspec import Struct, field

from paddock.sandbox.denial.notification import Memory, Question, Strings
from paddock.sandbox.denial.shebang import HEAD_BYTES, MAX_INTERPRETERS, Interpreter, interpreter_of

ARGUMENTS_BYTES: Final = 6 << 20
"""The most that the kernel accepts of arguments and variables together: a quarter of the caller's stack, but
no more than this (execve(2)). We read that much of each."""

_LEAST_ARGUMENTS_BYTES: Final = 128 << 10
"""What the kernel accepts however small the stack is (ARG_MAX of linux/limits.h)."""

_STRING_BYTES: Final = 64
"""Overhead of each string in memory."""

NOT_THERE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ENAMETOOLONG})
"""The kernel's own error if there is nothing to execute."""

_MAGIC: Final = (b"\x7fELF", b"#!")
_READ: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_OPENAT2: Final = 437
_OPEN_HOW: Final = struct.Struct("=QQQ")
_IN_ROOT: Final = 0x10
"""RESOLVE_IN_ROOT of openat2(2): links are followed as whoever has this root would; Linux 5.6."""
_NO_LINKS: Final = 0x04
"""RESOLVE_NO_SYMLINKS."""
_AT_FDCWD: Final = -100

_OWN_FILE: Final = re.compile(rb"/+proc/+(?:self|thread-self)/+(exe|fd/+\d+)|/+dev/+(fd/+\d+)")
"""Names of a task's own open files. To any other process they mean something else."""

_libc = ctypes.CDLL(None, use_errno=True)
_openat2 = _libc["syscall"]
_openat2.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t)
_openat2.restype = ctypes.c_long


class PinnedFile(Struct, frozen=True):
    """A file as a task finds it, opened."""

    path: str
    """Absolute, links resolved, as the task sees it."""
    file: int
    """An O_PATH descriptor, open as long as the call that it belongs to."""
    status: os.stat_result

    @property
    def is_genuine(self) -> bool:
        """Return whether the path leads to the same file on the host."""
        try:
            status = os.stat(self.path, follow_symlinks=False)
        except OSError:
            return False
        return os.path.samestat(status, self.status)

    def head(self) -> bytes:
        """Return the first bytes, as the kernel reads them; nothing if they can't be read.

        Nor if it is no regular file, which the kernel does not execute either. Opening a device may do
        something: a terminal would become ours, and the keys of whoever has its other end our signals.
        """
        if not stat.S_ISREG(self.status.st_mode):
            return b""
        try:
            file = os.open(f"/proc/self/fd/{self.file}", _READ)
        except OSError:
            return b""
        try:
            return os.pread(file, HEAD_BYTES, 0)
        except OSError:
            return b""
        finally:
            os.close(file)


class PinnedInterpreter(Struct, frozen=True):
    """The program that a script is handed to, opened, and the line that names it."""

    line: Interpreter
    file: PinnedFile


class ExecCall(Struct):
    """One call, which waits until somebody answers. `close` it then.

    For one thread at a time.
    """

    task: int
    called: bytes
    """Absolute, as the caller named the program; it may have dots and links."""
    path: bytes
    """A name by which another process in the same directory finds it: the caller's own, if that works."""
    _arguments: list[bytes] | int
    """The arguments, or their address until they are read."""
    cwd: bytes
    program: PinnedFile | None
    """None if only the caller itself can find it, through links in /proc."""
    _reader: ExecCallReader
    _variables: int
    """Their address."""
    _pinned: list[int] = field(default_factory=list)
    _environment: list[bytes] | None = None

    @property
    def argv(self) -> list[bytes]:
        """Read the arguments that the program would get, when somebody asks for them. Raises OSError."""
        if isinstance(self._arguments, int):
            self._arguments = self._reader.strings(self.task).strings(self._arguments)
        return self._arguments

    def environment(self) -> list[bytes]:
        """Return the variables that the program would get, as `NAME=VALUE`. Raises OSError."""
        if self._environment is None:
            self._environment = self._reader.strings(self.task).strings(self._variables)
        return self._environment

    @property
    def size_bytes(self) -> int:
        """Return about how much memory the arguments and variables take that were read so far."""
        arguments = () if isinstance(self._arguments, int) else self._arguments
        return sum(len(text) + _STRING_BYTES for text in (*arguments, *(self._environment or ())))

    @property
    def is_permitted(self) -> bool:
        """Return whether the caller may execute the file, as far as the file's mode says."""
        program = self.program
        return (
            program is not None
            and stat.S_ISREG(program.status.st_mode)
            and os.access(f"/proc/self/fd/{program.file}", os.X_OK)
        )

    @property
    def is_executable(self) -> bool:
        """Return whether the file is permitted, and a program or a script by its first bytes."""
        return self.is_permitted and self.program is not None and self.program.head().startswith(_MAGIC)

    def interpreters(self) -> tuple[list[PinnedInterpreter], bool]:
        """Return the programs that a script is handed to in turn, and whether these are all of them."""
        found: list[PinnedInterpreter] = []
        program = self.program
        while program is not None and len(found) <= MAX_INTERPRETERS:
            interpreter = interpreter_of(program.head())
            if interpreter is None:
                return found, True
            try:
                program = self.pin(interpreter.path)
            except OSError:
                return found, False
            found.append(PinnedInterpreter(interpreter, program))
        return found, False

    def pin(self, path: bytes) -> PinnedFile:
        """Open another program as the caller would find it, such as an interpreter. Raises OSError."""
        pinned = self._reader.pin(self.task, os.path.join(self.cwd, path))
        self._pinned.append(pinned.file)
        return pinned

    def close(self) -> None:
        """Close the pinned files, and let go of arguments and variables. Idempotent."""
        for file in self._pinned:
            os.close(file)
        self._pinned.clear()
        self._arguments, self._environment = [], []


class ExecCallReader:
    """Reads the calls of one sandbox, and finds files as its tasks do. `close` it in the end.

    All tasks have the same root, and none can change it without capabilities.
    """

    def __init__(self) -> None:
        self._memory = Memory()
        self._root: int | None = None

    def close(self) -> None:
        """Close the root."""
        if self._root is not None:
            os.close(self._root)
            self._root = None

    @property
    def memory(self) -> Memory:
        """Return the reader of the tasks' memory."""
        return self._memory

    def enter(self, task: int) -> None:
        """Take the root of the first task. Raises OSError."""
        self._root = os.open(f"/proc/{task}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)

    def strings(self, task: int) -> Strings:
        """Return a reader of what the arguments of a call point to. Raises OSError."""
        stack_bytes = resource.prlimit(task, resource.RLIMIT_STACK)[0]
        limit = ARGUMENTS_BYTES if stack_bytes == resource.RLIM_INFINITY else stack_bytes // 4
        return Strings(self._memory, task, min(ARGUMENTS_BYTES, max(_LEAST_ARGUMENTS_BYTES, limit)))

    def read(self, question: Question, *, is_at: bool) -> ExecCall:
        """Read execve(2), or execveat(2) if it `is_at`. Raises OSError.

        With an errno of NOT_THERE the kernel finds no program either.
        """
        directory, (path_at, argv_at, variables_at) = _AT_FDCWD, question.arguments[:3]
        if is_at:
            directory, (path_at, argv_at, variables_at) = (
                ctypes.c_int(question.arguments[0] & 0xFFFFFFFF).value,
                question.arguments[1:4],
            )
        path = self.strings(question.task).string(path_at)
        cwd = os.readlink(b"/proc/%d/cwd" % question.task)
        called, program = self._find(question.task, path, directory, cwd)
        pinned = [] if program is None else [program.file]
        if program is not None and (not path or _OWN_FILE.fullmatch(called)):
            path = os.fsencode(program.path)
        elif directory != _AT_FDCWD:
            path = called
        return ExecCall(question.task, called, path, argv_at, cwd, program, self, variables_at, pinned)

    def told(
        self, task: int, path: bytes, argv: list[bytes], cwd: bytes, environment: list[bytes]
    ) -> ExecCall:
        """Make a call from what a task says that it would execute. Raises as `read`."""
        called, program = self._find(task, path, _AT_FDCWD, cwd)
        pinned = [] if program is None else [program.file]
        return ExecCall(task, called, path, argv, cwd, program, self, 0, pinned, environment)

    def pin(self, task: int, path: bytes) -> PinnedFile:
        """Open a file by an absolute path, as a task would find it. Raises OSError."""
        own = _OWN_FILE.fullmatch(path)
        if own is not None:
            name = own[1] or own[2]
            return _pinned(os.open(b"/proc/%d/%s" % (task, name), os.O_PATH | os.O_CLOEXEC))
        assert self._root is not None
        return _pinned(_opened(self._root, path, _IN_ROOT))

    def _find(self, task: int, path: bytes, directory: int, cwd: bytes) -> tuple[bytes, PinnedFile | None]:
        """Return the absolute name of a program, and the file."""
        if not path:
            # Without AT_EMPTY_PATH there is nothing to execute; with it, the descriptor's file is the
            # program.
            file = os.open(b"/proc/%d/fd/%d" % (task, directory), os.O_PATH | os.O_CLOEXEC)
            program = _pinned(file)
            return os.fsencode(program.path), program
        base = cwd
        if not path.startswith(b"/") and directory != _AT_FDCWD:
            base = os.readlink(b"/proc/%d/fd/%d" % (task, directory))
        called = os.path.join(base, path)
        try:
            return called, self.pin(task, called)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.EXDEV):
                raise
        # A circle of links, or one of /proc that only the caller can follow.
        return called, None


def open_on_host(path: bytes, meant: os.stat_result) -> int:
    """Open an absolute path of the host, without links. Raises OSError if it is not the file meant."""
    file = _opened(_AT_FDCWD, path, _NO_LINKS)
    if os.path.samestat(os.fstat(file), meant):
        return file
    os.close(file)
    raise OSError(errno.ESTALE, f"{os.fsdecode(path)} on the host is a different file")


def _opened(directory: int, path: bytes, resolve: int) -> int:
    how = _OPEN_HOW.pack(os.O_PATH | os.O_CLOEXEC, 0, resolve)
    file: int = _openat2(_OPENAT2, directory, path, how, len(how))
    if file < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return file


def _pinned(file: int) -> PinnedFile:
    try:
        return PinnedFile(os.readlink(f"/proc/self/fd/{file}"), file, os.fstat(file))
    except BaseException:
        os.close(file)
        raise


def caller_of(task: int) -> str | None:
    """Return the program that makes the call, if it is known."""
    with suppress(OSError):
        return os.readlink(f"/proc/{task}/exe")
    return None
