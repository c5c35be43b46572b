"""Executes a program under a filter that refuses what interception by the kernel needs, or Landlock.

    python -m tests.sandbox.refusing ptrace|listener|landlock COMMAND...

It answers as many containers do.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import sys

from paddock.sandbox.denial.observation import NEW_LISTENER
from paddock.sandbox.host.syscall_table import MACHINES
from paddock.sandbox.plan import bpf
from paddock.sandbox.plan.bpf import Condition, Refusal, Word

PR_SET_NO_NEW_PRIVS = 38
PR_SET_SECCOMP = 22
SECCOMP_MODE_FILTER = 2
CREATE_RULESET = 444
"""landlock_create_ruleset(2), the same number on every machine."""


class FilterProgram(ctypes.Structure):
    """struct sock_fprog of linux/filter.h."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def refuse(what: str) -> None:
    """Have the kernel refuse a call from now on, to this process and all that it starts."""
    machine = MACHINES[platform.machine()]
    listening = Condition(Word(1), (0,), NEW_LISTENER, is_negated=True)
    refusal = {
        "ptrace": Refusal(machine.numbers["ptrace"], errno.EPERM, ()),
        "landlock": Refusal(CREATE_RULESET, errno.ENOSYS, ()),
        "listener": Refusal(machine.numbers["seccomp"], errno.EPERM, (listening,)),
    }[what]
    code = bpf.assemble(machine.audit_architecture, [refusal], foreign_abi_bit=machine.foreign_abi_bit)
    program = FilterProgram(len(code) // 8, code)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
        PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program)
    ):
        raise OSError(ctypes.get_errno(), "the filter was not loaded")


if __name__ == "__main__":
    refuse(sys.argv[1])
    os.execvp(sys.argv[2], sys.argv[2:])
