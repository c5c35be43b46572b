"""Lets a task that waits in execve become another program instead.

The caller must really execute something, so that close-on-exec descriptors close and a parent that waits in
vfork(2) goes on. So we stop the task with ptrace(2) when its call has failed, and make it call execveat(2)
with a descriptor that we gave it before. We write nothing to its memory, which it may share with its parent
or with other threads.

Only for x86_64, and only for one thread of ours at a time: a task has one tracer, which is a thread.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from paddock.sandbox.denial.notification import Memory

_GET_REGISTERS, _SET_REGISTERS, _CONTINUE = 12, 13, 7
DETACH, SEIZE, INTERRUPT = 17, 0x4206, 0x4207
"""PTRACE_* of sys/ptrace.h and linux/ptrace.h."""
EVENT_STOP: Final = 128
WAIT_ALL: Final = 0x40000000
"""__WALL: threads, too."""

EXECVEAT: Final = 322
AT_EMPTY_PATH: Final = 0x1000
AT_EXECVE_CHECK: Final = 0x10000
"""Asks whether a file may be executed, and executes nothing (execveat(2), Linux 6.14)."""
_SYSCALL: Final = b"\x0f\x05"
_VDSO: Final = 33
"""AT_SYSINFO_EHDR of getauxval(3)."""
_PADDING: Final = 9
"""Where the identification of an ELF file has zeros (elf(5))."""
_PAIR: Final = struct.Struct("=QQ")
_NO_CALL: Final = 2**64 - 1


_NAMES: Final = (
    "r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss "
    "fs_base gs_base ds es fs gs"
)


class _Registers(ctypes.Structure):
    """struct user_regs_struct of x86_64."""

    _fields_ = tuple((name, ctypes.c_uint64) for name in _NAMES.split())
    r10: int
    r8: int
    rax: int
    rdx: int
    rsi: int
    rdi: int
    orig_rax: int
    rip: int


_libc = ctypes.CDLL(None, use_errno=True)
_ptrace = _libc["ptrace"]
_ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
_ptrace.restype = ctypes.c_long


def redirect(task: int, file: int, argv: int, memory: Memory, fail: Callable[[], None]) -> None:
    """Let a task that waits in a call execute the file of a descriptor that it has.

    `fail` makes its call fail. `argv` is the address of the arguments, which stay for people to see; there
    are no variables. Raises OSError if it is impossible; the call has then failed, or still waits.
    """
    empty = _empty_string(task, memory)
    with _seized(task):
        ptrace(INTERRUPT, task)
        fail()
        signals = _wait_for_stop(task)
        registers = _Registers()
        ptrace(_GET_REGISTERS, task, ctypes.addressof(registers))
        if memory.data(task, registers.rip - len(_SYSCALL), len(_SYSCALL)) != _SYSCALL:
            raise OSError(0, "the task is not where it made its call")
        registers.rip -= len(_SYSCALL)
        registers.rax = EXECVEAT
        # An error after which the kernel does not restart the call.
        registers.orig_rax = _NO_CALL
        registers.rdi, registers.rsi, registers.rdx = file, empty, argv
        registers.r10, registers.r8 = 0, AT_EMPTY_PATH
        ptrace(_SET_REGISTERS, task, ctypes.addressof(registers))
        for number in signals:
            # The signals were for the caller, and reach it or what it has become.
            with suppress(OSError):
                os.kill(task, number)


@contextmanager
def _seized(task: int) -> Iterator[None]:
    ptrace(SEIZE, task)
    try:
        yield
    finally:
        try:
            ptrace(DETACH, task)
        except OSError:
            # It was killed meanwhile, and its parent learns of that only after its tracer.
            with suppress(ChildProcessError):
                os.waitpid(task, WAIT_ALL)


def _wait_for_stop(task: int) -> list[int]:
    """Wait until the task has stopped because of us. Return the signals that came before."""
    signals: list[int] = []
    while True:
        _, status = os.waitpid(task, WAIT_ALL)
        if not os.WIFSTOPPED(status):
            raise ProcessLookupError(0, "the task has ended")
        if status >> 16 == EVENT_STOP:
            return signals
        signals.append(os.WSTOPSIG(status))
        ptrace(_CONTINUE, task)


def _empty_string(task: int, memory: Memory) -> int:
    """Return the address of a NUL in the kernel's own library, which no honest program changes."""
    with open(f"/proc/{task}/auxv", "rb") as file:
        vector = file.read()
    found = dict(_PAIR.iter_unpack(vector[: len(vector) - len(vector) % _PAIR.size]))
    address = found.get(_VDSO, 0)
    if not address or memory.data(task, address + _PADDING, 1) != b"\0":
        raise OSError(0, "the task has no library of the kernel")
    return int(address) + _PADDING


def ptrace(request: int, task: int, data: int = 0) -> None:
    """Make a request of ptrace(2). Raises OSError."""
    if _ptrace(request, task, 0, data) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
