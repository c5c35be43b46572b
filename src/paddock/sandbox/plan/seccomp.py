"""Lists the system calls that a confined command may not make.

Each network mode and machine has one program, made of the lists below; `paddock sandbox --explain` prints the
same lists. The program allows whatever they do not name: mounts, missing capabilities and Landlock confine
files, processes and namespaces. It refuses what those do not reach - sockets, parts of the kernel that belong
to no namespace, ways into other processes - and new user namespaces, in which a command would have
capabilities again.

The filter is the innermost wall and can't be taken down: bubblewrap loads it last, and every child inherits
it. It can't look behind pointers, so it decides by numbers and flags alone.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from functools import cache
from typing import Final, assert_never

from msgspec import Struct

from paddock.errors import SandboxUnavailable
from paddock.model.profile import NetworkMode
from paddock.sandbox.host.syscall_table import MACHINES, Machine
from paddock.sandbox.plan import bpf
from paddock.sandbox.plan.bpf import Condition, Word

AF_UNIX: Final = 1
AF_INET: Final = 2
AF_INET6: Final = 10
AF_NETLINK: Final = 16

SOCK_STREAM: Final = 1
SOCK_SEQPACKET: Final = 5
SOCK_TYPE_MASK: Final = 0xF
"""The rest of the word holds flags such as SOCK_CLOEXEC (socket(2))."""

NETLINK_ROUTE: Final = 0
CLONE_NEWUSER: Final = 0x10000000
S_ISUID: Final = 0o4000
O_CREAT: Final = 0o100
O_TMPFILE_BIT: Final = 0o20000000
"""The same on every machine that has a filter (asm-generic/fcntl.h)."""
OLD_CALLS: Final = frozenset(("chmod", "creat", "mknod", "open"))
"""Calls that newer machines have only under another name."""
FIRST_PROCESS: Final = 1
"""The init, where there is a pid namespace."""
PRIO_PROCESS: Final = 0
IOPRIO_WHO_PROCESS: Final = 1
"""Selects one process; the other values select a whole group or user, to which the init belongs."""
TIOCSTI: Final = 0x5412
TIOCLINUX: Final = 0x541C
TIOCEXCL: Final = 0x540C
TIOCSETD: Final = 0x5423
IOCTL_TYPE_MASK: Final = 0xFF00
"""The part of a request of ioctl(2) that names the driver or the file system (asm-generic/ioctl.h)."""
BTRFS_IOCTL: Final = 0x9400
BCACHEFS_IOCTL: Final = 0xBC00
FICLONE: Final = 0x40049409
FICLONERANGE: Final = 0x4020940D
FIDEDUPERANGE: Final = 0xC0189436
"""Every file system has these three, under the numbers of Btrfs: they copy between two open files."""
FS_IOC_REMOVE_ENCRYPTION_KEY: Final = 0xC0406618
F_SETSIG: Final = 10
SIGKILL: Final = 9
SIGCONT: Final = 18
"""The same on every machine that has a filter."""
F_SETLEASE: Final = 1024
F_SETDELEG: Final = 1040
"""The second, since Linux 6.19, does the same to directories (linux/fcntl.h)."""


class Rule(Struct, frozen=True):
    """One call that is refused, always or when all conditions hold, and why."""

    call: str
    reason: str
    conditions: tuple[Condition, ...] = ()
    errno: int = errno.EPERM

    @property
    def is_denial(self) -> bool:
        """Return whether the rule forbids something, and not only one of two ways to do it."""
        return self.errno != errno.ENOSYS


@cache
def program(mode: NetworkMode, machine: str) -> bytes:
    """Return the filter for `bwrap --seccomp`. Raises SandboxUnavailable for a machine that has none."""
    return _assembled(_known(machine), rules(mode))


@cache
def remainder(machine: str) -> bytes:
    """Return the filter for a traced command; `Observation.program` has the rest. Raises as `program`."""
    return _assembled(_known(machine), [rule for rule in _ALWAYS if not rule.is_denial])


def rules(mode: NetworkMode) -> tuple[Rule, ...]:
    """Return what the filter refuses under a network mode, in the order in which it tries the rules."""
    match mode:
        case NetworkMode.RESTRICTED:
            return _ALWAYS + _NO_NETWORK
        case NetworkMode.LOOPBACK:
            return _ALWAYS + _PRIVATE_LOOPBACK
        case NetworkMode.PROXIED:
            return _ALWAYS + _PROXY_ALONE
        case NetworkMode.ENABLED:
            return _ALWAYS + _HOST_NETWORK
        case _:
            assert_never(mode)


def _assembled(machine: Machine, refused: Iterable[Rule]) -> bytes:
    refusals = [
        bpf.Refusal(machine.numbers[rule.call], rule.errno, rule.conditions)
        for rule in refused
        if rule.call not in OLD_CALLS or rule.call in machine.numbers
    ]
    return bpf.assemble(machine.audit_architecture, refusals, foreign_abi_bit=machine.foreign_abi_bit)


def _known(machine: str) -> Machine:
    known = MACHINES.get(machine)
    if known is None:
        raise SandboxUnavailable(
            f"there is no seccomp filter for the machine {machine!r}",
            f"use one of {', '.join(MACHINES)}",
        )
    return known


def _among(word: Word, *values: int, mask: int = bpf.WHOLE_WORD) -> Condition:
    return Condition(word, values, mask)


def _not_among(word: Word, *values: int, mask: int = bpf.WHOLE_WORD) -> Condition:
    return Condition(word, values, mask, is_negated=True)


_FIRST: Final = Word(0)
_SECOND: Final = Word(1)
_THIRD: Final = Word(2)
_FOURTH: Final = Word(3)

_SET_USER_ID: Final = "a set-user-ID program acts for its owner outside of the sandbox"


def _makes_set_user_id(mode: Word) -> Condition:
    return _among(mode, S_ISUID, mask=S_ISUID)


def _makes_file(flags: Word) -> Condition:
    """Return the condition under which open(2) reads its mode; otherwise that word holds anything."""
    return _not_among(flags, 0, mask=O_CREAT | O_TMPFILE_BIT)


_ALWAYS: Final = (
    # This includes empty files that are being created: the next writer may be root, and then the bit stays
    # (CAP_FSETID). mkdir(2) ignores this bit. These rules come first because no other calls are so frequent.
    *(
        Rule(call, _SET_USER_ID, (_makes_file(flags), _makes_set_user_id(mode)))
        for call, flags, mode in (("openat", _THIRD, _FOURTH), ("open", _SECOND, _THIRD))
    ),
    *(
        Rule(call, _SET_USER_ID, (_makes_set_user_id(mode),))
        for call, mode in (
            ("chmod", _SECOND),
            ("fchmod", _SECOND),
            ("fchmodat", _THIRD),
            ("fchmodat2", _THIRD),
            ("creat", _SECOND),
            ("mknod", _SECOND),
            ("mknodat", _THIRD),
        )
    ),
    # The mode is behind a pointer. Programs take this errno for an old kernel's, and use openat.
    Rule("openat2", "it could make a set-user-ID program unseen", errno=errno.ENOSYS),
    *(
        Rule(call, "it reaches into other processes, the init of the sandbox included")
        for call in ("ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd")
    ),
    *(
        Rule(call, "it makes system calls that no filter sees")
        for call in ("io_uring_setup", "io_uring_enter", "io_uring_register")
    ),
    *(Rule(call, "keyrings are shared with the host") for call in ("keyctl", "add_key", "request_key")),
    *(
        Rule(call, "it opens parts of the kernel that a command does not need and an attack does")
        for call in ("bpf", "userfaultfd", "perf_event_open", "open_by_handle_at")
    ),
    # Without processor time the init would notice neither its clock nor its launcher, and the same user could
    # take that time away.
    *(
        Rule(call, "the init of the sandbox needs its share of the machine", (_among(_FIRST, FIRST_PROCESS),))
        for call in (
            "sched_setscheduler",
            "sched_setparam",
            "sched_setattr",
            "sched_setaffinity",
            "prlimit64",
        )
    ),
    *(
        Rule(call, "the init of the sandbox needs its share of the machine", conditions)
        for call, process in (("setpriority", PRIO_PROCESS), ("ioprio_set", IOPRIO_WHO_PROCESS))
        for conditions in ((_not_among(_FIRST, process),), (_among(_SECOND, FIRST_PROCESS),))
    ),
    Rule("syslog", "the kernel log belongs to the host"),
    *(
        Rule(
            call,
            "a new user namespace gives capabilities back",
            (_among(_FIRST, CLONE_NEWUSER, mask=CLONE_NEWUSER),),
        )
        for call in ("clone", "unshare")
    ),
    # The flags are behind a pointer. C libraries take this errno for an old kernel's, and use clone.
    Rule("clone3", "it could make a user namespace unseen", errno=errno.ENOSYS),
    Rule(
        "ioctl",
        "it types into the terminal, in the name of whoever reads there next",
        (_among(_SECOND, TIOCSTI, TIOCLINUX),),
    ),
    Rule(
        "ioctl",
        "nobody could open the terminal any more, or type there, when the command has ended",
        (_among(_SECOND, TIOCEXCL, TIOCSETD),),
    ),
    # They act on all of a file system, whatever part of it the sandbox shows, and ask for no capability.
    Rule(
        "ioctl",
        "a snapshot shows what the sandbox hides, and to delete a subvolume passes over what it protects",
        (
            _among(_SECOND, BTRFS_IOCTL, BCACHEFS_IOCTL, mask=IOCTL_TYPE_MASK),
            _not_among(_SECOND, FICLONE, FICLONERANGE, FIDEDUPERANGE),
        ),
    ),
    Rule(
        "ioctl",
        "it locks encrypted directories for everybody",
        (_among(_SECOND, FS_IOC_REMOVE_ENCRYPTION_KEY),),
    ),
    # Only a file's owner may do this, but even on a read-only mount. The kernel lets others go on after
    # fs.lease-break-time, and then the owner can do it again.
    Rule(
        "fcntl",
        "it makes everybody wait who opens the file",
        (_among(_SECOND, F_SETLEASE, F_SETDELEG),),
    ),
    # With it, each line that is typed at a terminal would continue a command that is stopped, and the command
    # could read the line (native/suspension.h). Only these two signals act on a stopped process, and one that
    # is killed can continue its parent or its child (CSIGNAL in clone(2), PR_SET_PDEATHSIG).
    Rule(
        "fcntl",
        "a command that is stopped would go on whenever somebody types",
        (_among(_SECOND, F_SETSIG), _among(_THIRD, SIGCONT, SIGKILL)),
    ),
)

_UNIX_PAIRS: Final = (
    Rule("socketpair", "only AF_UNIX makes pairs that stay inside", (_not_among(_FIRST, AF_UNIX),)),
    # Every other type can send to any address, connected or not: in AF_UNIX, SOCK_RAW is another word for
    # SOCK_DGRAM (unix_create in the kernel).
    Rule(
        "socketpair",
        "a datagram socket sends to any socket of the host",
        (_not_among(_SECOND, SOCK_STREAM, SOCK_SEQPACKET, mask=SOCK_TYPE_MASK),),
    ),
)

_NO_NETWORK: Final = (
    *(
        Rule(call, "the network is restricted")
        for call in ("connect", "bind", "listen", "accept", "accept4", "sendmmsg", "recvmmsg")
    ),
    # Without an address this is send(2), by which event loops wake themselves through a socket pair.
    Rule("sendto", "the network is restricted", (_not_among(Word(4), 0),)),
    Rule("sendto", "the network is restricted", (_not_among(Word(4, is_high=True), 0),)),
    Rule("socket", "the network is restricted", (_not_among(_FIRST, AF_UNIX),)),
    Rule(
        "socket",
        "a datagram socket sends to any socket of the host",
        (_not_among(_SECOND, SOCK_STREAM, SOCK_SEQPACKET, mask=SOCK_TYPE_MASK),),
    ),
    *_UNIX_PAIRS,
)

_PRIVATE_LOOPBACK: Final = (
    # A path leads out of the network namespace, and connect(2) has it behind a pointer: so no AF_UNIX at all.
    Rule("socket", "only the private loopback is open", (_not_among(_FIRST, AF_INET, AF_INET6, AF_NETLINK),)),
    # Programs list their interfaces with this much of netlink; Node.js fails without it.
    Rule(
        "socket",
        "only the addresses of the private loopback may be asked for",
        (_among(_FIRST, AF_NETLINK), _not_among(_THIRD, NETLINK_ROUTE)),
    ),
    *_UNIX_PAIRS,
)

_PROXY_ALONE: Final = (
    # Netlink is refused too: where a proxy does all the talking, no program needs to know of interfaces.
    Rule("socket", "only the proxy leads out", (_not_among(_FIRST, AF_INET, AF_INET6),)),
    *_UNIX_PAIRS,
)

_HOST_NETWORK: Final = tuple(
    Rule(
        call,
        "only the internet, local sockets and netlink are the network",
        (_not_among(_FIRST, AF_UNIX, AF_INET, AF_INET6, AF_NETLINK),),
    )
    for call in ("socket", "socketpair")
)
