"""Entering a sandbox that another process keeps, and giving up every privilege there.

A program that is confined from its first instruction must find its own files in the sandbox,
and then whoever it works for can read them too. This one has read all it needs before it
enters. From then on it sees the files of the sandbox as a command in it does: as the same
user and without capabilities.

Privilege: to enter the user namespace of a sandbox that the same user made gives every
capability in that namespace, and none outside. They are gone when `give_up` returns.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct
from collections.abc import Iterable

from paddock.fs.syscall import call_libc

NAMESPACES = ("net", "ipc", "pid", "mnt")
"""In the order in which they are entered; that of the files last, because after it /proc is another."""

_NS_GET_USERNS = 0xB701
_PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 24, 38
_CAPABILITY_VERSION_3 = 0x20080522
_NO_CAPABILITIES = struct.pack("=6I", 0, 0, 0, 0, 0, 0)
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REMOUNT, _MS_BIND = 1, 2, 4, 8, 32, 4096


def open_namespaces(pid: int) -> list[int]:
    """Descriptors of the namespaces of a process, and of the user namespace that owns them; for `enter`.

    Raises OSError when it is gone, or belongs to another user.
    """
    files: list[int] = []
    try:
        for name in NAMESPACES:
            files.append(os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC))
        # Not that of the process itself, which may be a further one inside.
        owner = fcntl.ioctl(files[-1], _NS_GET_USERNS)
        return [owner, *files]
    except OSError:
        for file in files:
            os.close(file)
        raise


def enter(namespaces: Iterable[int]) -> None:
    """Enter what `open_namespaces` gave. Children are in the pid namespace, this process is not.

    The process must have one thread. Raises OSError.
    """
    for namespace in namespaces:
        call_libc("setns", namespace, 0)
    # The memory of a process can be written through its /proc, though it belongs to no command.
    flags = _MS_REMOUNT | _MS_BIND | _MS_RDONLY | _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
    try:
        call_libc("mount", None, b"/proc", None, ctypes.c_ulong(flags), None)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        # None is mounted there.


def give_up() -> None:
    """Drop every capability, for good, and gain none in execve. Raises OSError."""
    with open("/proc/sys/kernel/cap_last_cap", "rb") as file:
        last = int(file.read())
    for capability in range(last + 1):
        call_libc("prctl", _PR_CAPBSET_DROP, capability, 0, 0, 0)
    call_libc("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    call_libc("capset", struct.pack("=Ii", _CAPABILITY_VERSION_3, 0), _NO_CAPABILITIES)
