"""Taking on the rules and the filter that a sandbox has for commands.

What native/init.c does for a command, for a process that enters the sandbox later. It lasts,
for this thread and for whatever it starts from now on; so it comes before other threads do.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
import struct

from paddock.fs.syscall import call_libc
from paddock.model.restriction import LandlockRules, Restriction

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
"""Their numbers on every machine (landlock_create_ruleset(2), Linux 5.13)."""
_RULE_PATH_BENEATH = 1
_RULESET = struct.Struct("=QQQ")
_RULE = struct.Struct("=Qi")

_OF_ANY_FILE = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15
"""Execute, write, read, truncate, ioctl: the kernel refuses the others for a path that is no directory."""

_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2
_INSTRUCTION_BYTES = 8


class _FilterProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def take_on(restriction: Restriction) -> None:
    """Restrict this thread for good. It must have no_new_privs. Raises OSError: nothing is promised then."""
    if restriction.landlock is not None:
        _take_on_rules(restriction.landlock)
    length = len(restriction.filter) // _INSTRUCTION_BYTES
    program = _FilterProgram(length, restriction.filter)
    call_libc("prctl", _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0)


def _take_on_rules(rules: LandlockRules) -> None:
    # A kernel that does not know the last fields takes them as long as they are zero.
    wanted = _RULESET.pack(rules.files, rules.ports, rules.scopes)
    ruleset = _landlock(_CREATE_RULESET, wanted, ctypes.c_size_t(len(wanted)), 0)
    try:
        for path in rules.writable:
            # What can't be reached needs no grant.
            with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
                _grant(ruleset, path, rules.files)
        _landlock(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _grant(ruleset: int, path: str, rights: int) -> None:
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= _OF_ANY_FILE
        _landlock(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, _RULE.pack(rights, place), 0)
    finally:
        os.close(place)


def _landlock(number: int, *arguments: object) -> int:
    return call_libc("syscall", ctypes.c_long(number), *arguments)
