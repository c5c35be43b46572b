"""Numbers of the system calls that a filter looks at, by machine. Not every machine has all of them.

These facts of the kernel's interface never change; a test compares them with libseccomp. A machine that is
not here has no filter, and so no sandbox.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct


class Machine(Struct, frozen=True):
    """One instruction set, as seccomp sees it."""

    name: str
    """As `uname -m` says it."""
    audit_architecture: int
    """AUDIT_ARCH_* of linux/audit.h."""
    numbers: Mapping[str, int]
    foreign_abi_bit: int = 0
    """A bit in the number that selects another ABI; 0 if there is none."""


X86_64: Final = Machine(
    name="x86_64",
    audit_architecture=0xC000003E,
    # x32: pointers of 32 bits under the same architecture, so that only this bit tells (linux/x86 unistd.h).
    foreign_abi_bit=0x40000000,
    numbers=MappingProxyType(
        {
            "open": 2,
            "ioctl": 16,
            "socket": 41,
            "connect": 42,
            "accept": 43,
            "sendto": 44,
            "bind": 49,
            "listen": 50,
            "socketpair": 53,
            "clone": 56,
            "execve": 59,
            "fcntl": 72,
            "truncate": 76,
            "chdir": 80,
            "rename": 82,
            "mkdir": 83,
            "rmdir": 84,
            "creat": 85,
            "link": 86,
            "unlink": 87,
            "symlink": 88,
            "chmod": 90,
            "fchmod": 91,
            "chown": 92,
            "fchown": 93,
            "lchown": 94,
            "ptrace": 101,
            "syslog": 103,
            "utime": 132,
            "mknod": 133,
            "setpriority": 141,
            "sched_setparam": 142,
            "sched_setscheduler": 144,
            "setxattr": 188,
            "lsetxattr": 189,
            "removexattr": 197,
            "lremovexattr": 198,
            "sched_setaffinity": 203,
            "utimes": 235,
            "add_key": 248,
            "request_key": 249,
            "keyctl": 250,
            "ioprio_set": 251,
            "openat": 257,
            "mkdirat": 258,
            "mknodat": 259,
            "fchownat": 260,
            "futimesat": 261,
            "unlinkat": 263,
            "renameat": 264,
            "linkat": 265,
            "symlinkat": 266,
            "fchmodat": 268,
            "unshare": 272,
            "utimensat": 280,
            "accept4": 288,
            "perf_event_open": 298,
            "recvmmsg": 299,
            "prlimit64": 302,
            "open_by_handle_at": 304,
            "sendmmsg": 307,
            "process_vm_readv": 310,
            "process_vm_writev": 311,
            "sched_setattr": 314,
            "renameat2": 316,
            "seccomp": 317,
            "bpf": 321,
            "execveat": 322,
            "userfaultfd": 323,
            "io_uring_setup": 425,
            "io_uring_enter": 426,
            "io_uring_register": 427,
            "clone3": 435,
            "openat2": 437,
            "pidfd_getfd": 438,
            "fchmodat2": 452,
        }
    ),
)

AARCH64: Final = Machine(
    name="aarch64",
    audit_architecture=0xC00000B7,
    numbers=MappingProxyType(
        {
            "setxattr": 5,
            "lsetxattr": 6,
            "removexattr": 14,
            "lremovexattr": 15,
            "fcntl": 25,
            "ioctl": 29,
            "ioprio_set": 30,
            "mknodat": 33,
            "mkdirat": 34,
            "unlinkat": 35,
            "symlinkat": 36,
            "linkat": 37,
            "renameat": 38,
            "truncate": 45,
            "chdir": 49,
            "fchmod": 52,
            "fchmodat": 53,
            "fchownat": 54,
            "fchown": 55,
            "openat": 56,
            "utimensat": 88,
            "unshare": 97,
            "syslog": 116,
            "ptrace": 117,
            "sched_setparam": 118,
            "sched_setscheduler": 119,
            "sched_setaffinity": 122,
            "setpriority": 140,
            "socket": 198,
            "socketpair": 199,
            "bind": 200,
            "listen": 201,
            "accept": 202,
            "connect": 203,
            "sendto": 206,
            "add_key": 217,
            "request_key": 218,
            "keyctl": 219,
            "clone": 220,
            "execve": 221,
            "perf_event_open": 241,
            "accept4": 242,
            "recvmmsg": 243,
            "prlimit64": 261,
            "open_by_handle_at": 265,
            "sendmmsg": 269,
            "process_vm_readv": 270,
            "process_vm_writev": 271,
            "sched_setattr": 274,
            "renameat2": 276,
            "seccomp": 277,
            "bpf": 280,
            "execveat": 281,
            "userfaultfd": 282,
            "io_uring_setup": 425,
            "io_uring_enter": 426,
            "io_uring_register": 427,
            "clone3": 435,
            "openat2": 437,
            "pidfd_getfd": 438,
            "fchmodat2": 452,
        }
    ),
)

MACHINES: Final[Mapping[str, Machine]] = MappingProxyType(
    {machine.name: machine for machine in (X86_64, AARCH64)}
)
