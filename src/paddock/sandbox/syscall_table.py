"""Numbers of the system calls that a filter looks at, by machine.

Facts of the kernel's interface, which never change; a test holds them against
libseccomp. A machine that is not here has no filter, and so no sandbox.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class Machine:
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
            "ioctl": 16,
            "socket": 41,
            "connect": 42,
            "accept": 43,
            "sendto": 44,
            "bind": 49,
            "listen": 50,
            "socketpair": 53,
            "clone": 56,
            "ptrace": 101,
            "syslog": 103,
            "add_key": 248,
            "request_key": 249,
            "keyctl": 250,
            "unshare": 272,
            "accept4": 288,
            "perf_event_open": 298,
            "recvmmsg": 299,
            "open_by_handle_at": 304,
            "sendmmsg": 307,
            "process_vm_readv": 310,
            "process_vm_writev": 311,
            "bpf": 321,
            "userfaultfd": 323,
            "io_uring_setup": 425,
            "io_uring_enter": 426,
            "io_uring_register": 427,
            "clone3": 435,
            "pidfd_getfd": 438,
        }
    ),
)

AARCH64: Final = Machine(
    name="aarch64",
    audit_architecture=0xC00000B7,
    numbers=MappingProxyType(
        {
            "ioctl": 29,
            "unshare": 97,
            "syslog": 116,
            "ptrace": 117,
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
            "perf_event_open": 241,
            "accept4": 242,
            "recvmmsg": 243,
            "open_by_handle_at": 265,
            "sendmmsg": 269,
            "process_vm_readv": 270,
            "process_vm_writev": 271,
            "bpf": 280,
            "userfaultfd": 282,
            "io_uring_setup": 425,
            "io_uring_enter": 426,
            "io_uring_register": 427,
            "clone3": 435,
            "pidfd_getfd": 438,
        }
    ),
)

MACHINES: Final[Mapping[str, Machine]] = MappingProxyType(
    {machine.name: machine for machine in (X86_64, AARCH64)}
)
