"""The filters, held against libseccomp: its numbers, and a second telling of the policy compiled by it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from functools import cache
from itertools import product
from types import ModuleType

import pytest

from paddock.errors import SandboxUnavailable
from paddock.model.profile import NetworkMode
from paddock.sandbox.host.syscall_table import MACHINES
from paddock.sandbox.plan import bpf, seccomp
from tests.unit.sandbox.bpf_machine import Call, run

REFUSED = bpf.RETURN_ERRNO | errno.EPERM
X32_BIT = 0x40000000
I386 = 0x40000003
ARM = 0x40000028
NEWEST_CALL = 480
"""Beyond the newest call that libseccomp may know."""

DOMAINS = range(46)
TYPES = range(16)
CLOEXEC = 0o2000000
NEWUSER = 0x10000000


@pytest.fixture(scope="module", name="library")
def libseccomp() -> ModuleType:
    try:
        import pyseccomp
    except RuntimeError:
        pytest.skip("libseccomp2 is not installed")
    module: ModuleType = pyseccomp
    return module


every_machine = pytest.mark.parametrize("machine", list(MACHINES))
every_mode = pytest.mark.parametrize("mode", list(NetworkMode))


@every_machine
def test_numbers_are_those_that_libseccomp_knows(library: ModuleType, machine: str) -> None:
    known = MACHINES[machine]
    for name, number in known.numbers.items():
        assert library.resolve_syscall(known.audit_architecture, name) == number, name


ALWAYS = {
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    "pidfd_getfd",
    "io_uring_setup",
    "io_uring_enter",
    "io_uring_register",
    "keyctl",
    "add_key",
    "request_key",
    "bpf",
    "userfaultfd",
    "perf_event_open",
    "open_by_handle_at",
    "syslog",
}
ABOUT_A_PROCESS = {"sched_setscheduler", "sched_setparam", "sched_setattr", "sched_setaffinity", "prlimit64"}
"""Refused for the first process."""
PRIORITIES = {"setpriority": 0, "ioprio_set": 1}
"""Refused but for a process, which is not the first."""
MODES = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "creat": 1, "mknod": 1, "mknodat": 2}
"""Refused with the set-user-ID bit in this argument."""
OPENING = {"open": 1, "openat": 2}
"""Refused with this bit in the argument behind this one, if that has a flag that makes a file."""
CREATING = (0o100, 0o20000000)
SOME_FLAGS = (0, 1, 2, 0o100, 0o300, 0o1101, 0o20200002, 0o200000, 0o10000000, 1 << 32 | 0o100, 1 << 38)
SOME_MODES = (0, 0o755, 0o4755, 0o6755, 0o2755, 0o4000, 1 << 32 | 0o4000)
REFUSED_REQUESTS = (
    *(0x5412, 0x541C, 0x540C, 0x5423),
    # Btrfs: a snapshot in two forms, the removal of a subvolume in two, a look at names, and one not in use.
    *(0x50009401, 0x50009417, 0x5000940F, 0x5000943F, 0xD000943E, 0x94FF),
    # Bcachefs: a subvolume or snapshot, and its removal.
    *(0x4020BC10, 0x4020BC11),
    # fscrypt(7): the removal of a key.
    0xC0406618,
)
ALLOWED_REQUESTS = (0, 0x5401, 0x40049409, 0x4020940D, 0xC0189436, 0x80046601, 0xC0406619, 0x9301, 0x9501)
NETWORK_CALLS = {"connect", "bind", "listen", "accept", "accept4", "sendmmsg", "recvmmsg"}
OPEN_DOMAINS = {
    ("socket", NetworkMode.RESTRICTED): {1},
    ("socketpair", NetworkMode.RESTRICTED): {1},
    ("socket", NetworkMode.LOOPBACK): {2, 10, 16},
    ("socketpair", NetworkMode.LOOPBACK): {1},
    ("socket", NetworkMode.PROXIED): {2, 10},
    ("socketpair", NetworkMode.PROXIED): {1},
    ("socket", NetworkMode.ENABLED): {1, 2, 10, 16},
    ("socketpair", NetworkMode.ENABLED): {1, 2, 10, 16},
}


@cache
def compiled_by(library: ModuleType, mode: NetworkMode, machine: str) -> bytes:
    architecture = MACHINES[machine].audit_architecture
    refuse = library.ERRNO(errno.EPERM)
    reference = library.SyscallFilter(library.ALLOW)
    reference.set_attr(library.Attr.ACT_BADARCH, library.KILL_PROCESS)
    if library.system_arch() != architecture:
        reference.add_arch(architecture)
        reference.remove_arch(library.system_arch())
    for call in ALWAYS:
        reference.add_rule(refuse, call)
    for call in ("clone", "unshare"):
        reference.add_rule(refuse, call, library.Arg(0, library.MASKED_EQ, NEWUSER, NEWUSER))
    for call in ("clone3", "openat2"):
        reference.add_rule(library.ERRNO(errno.ENOSYS), call)
    for request in REFUSED_REQUESTS:
        reference.add_rule(refuse, "ioctl", library.Arg(1, library.MASKED_EQ, 0xFFFFFFFF, request))
    for command in (1024, 1040):
        reference.add_rule(refuse, "fcntl", library.Arg(1, library.MASKED_EQ, 0xFFFFFFFF, command))
    for call in ABOUT_A_PROCESS:
        reference.add_rule(refuse, call, library.Arg(0, library.MASKED_EQ, 0xFFFFFFFF, 1))
    for call, process in PRIORITIES.items():
        reference.add_rule(refuse, call, library.Arg(1, library.MASKED_EQ, 0xFFFFFFFF, 1))
        for which in set(range(5)) - {process}:
            reference.add_rule(refuse, call, library.Arg(0, library.EQ, which))
    for call, argument in MODES.items():
        if call in MACHINES[machine].numbers:
            reference.add_rule(refuse, call, library.Arg(argument, library.MASKED_EQ, 0o4000, 0o4000))
    for (call, argument), flag in product(OPENING.items(), CREATING):
        if call in MACHINES[machine].numbers:
            makes = library.Arg(argument, library.MASKED_EQ, flag, flag)
            is_set = library.Arg(argument + 1, library.MASKED_EQ, 0o4000, 0o4000)
            reference.add_rule(refuse, call, makes, is_set)
    for call in ("socket", "socketpair"):
        for domain in set(DOMAINS) - OPEN_DOMAINS[call, mode]:
            reference.add_rule(refuse, call, library.Arg(0, library.EQ, domain))
    for call in ("socket", "socketpair"):
        if mode is NetworkMode.RESTRICTED or (mode is not NetworkMode.ENABLED and call == "socketpair"):
            for kind in set(TYPES) - {1, 5}:
                reference.add_rule(refuse, call, library.Arg(1, library.MASKED_EQ, 0xF, kind))
    if mode is NetworkMode.RESTRICTED:
        for call in NETWORK_CALLS:
            reference.add_rule(refuse, call)
        reference.add_rule(refuse, "sendto", library.Arg(4, library.NE, 0))
    if mode is NetworkMode.LOOPBACK:
        reference.add_rule(refuse, "socket", library.Arg(0, library.EQ, 16), library.Arg(2, library.NE, 0))
    memory = os.memfd_create("program")
    with os.fdopen(memory, "w+b") as file:
        reference.export_bpf(file)
        file.seek(0)
        return file.read()


def calls_of_interest(machine: str) -> Iterator[Call]:
    """Every number there is, and those that are looked at with every kind of argument."""
    known = MACHINES[machine]
    for number in range(NEWEST_CALL):
        yield Call(known.audit_architecture, number)
    arguments: dict[str, Iterator[tuple[int, ...]]] = {
        "socket": product(DOMAINS, (*TYPES, 1 | CLOEXEC, 2 | CLOEXEC), (0, 1, 4, 9, 15, 16)),
        "socketpair": product(DOMAINS, (*TYPES, 1 | CLOEXEC, 2 | CLOEXEC), (0, 17)),
        "sendto": product((0,), (0,), (0,), (0,), (0, 1, 1 << 32, 0x7FFF00000000, (1 << 64) - 1), (0, 16)),
        "ioctl": product((0,), (*REFUSED_REQUESTS, *ALLOWED_REQUESTS, 1 << 32 | 0x5412, 0xFF << 32 | 0x541C)),
        "fcntl": product((0,), (*range(20), *range(1020, 1045), 1 << 32 | 1024, 0xFF << 32 | 1040), (0, 1)),
        "clone": product((0, 0x11, NEWUSER, NEWUSER | 0x11, 0x20000000, 1 << 32 | NEWUSER)),
        "unshare": product((0, NEWUSER, NEWUSER | 0x20000, 0x400, 0x40000000)),
        **{name: product((0, 1, 2, 1 << 32 | 1, 1000)) for name in ABOUT_A_PROCESS},
        **{name: product(range(5), (0, 1, 2, 1 << 32 | 1, 1000)) for name in PRIORITIES},
        **{name: product(*[(0,)] * position, SOME_MODES) for name, position in MODES.items()},
        **{name: product(*[(0,)] * position, SOME_FLAGS, SOME_MODES) for name, position in OPENING.items()},
    }
    for name, choices in arguments.items():
        for choice in choices if name in known.numbers else ():
            yield Call(known.audit_architecture, known.numbers[name], choice)


@pytest.mark.unmeasured
@every_mode
@every_machine
def test_every_verdict_is_that_of_the_same_policy_compiled_by_libseccomp(
    library: ModuleType, mode: NetworkMode, machine: str
) -> None:
    ours = seccomp.program(mode, machine)
    theirs = compiled_by(library, mode, machine)
    for call in calls_of_interest(machine):
        assert run(ours, call) == run(theirs, call), call


@every_mode
@every_machine
def test_bits_that_the_kernel_ignores_open_nothing(mode: NetworkMode, machine: str) -> None:
    program, known = seccomp.program(mode, machine), MACHINES[machine]
    ignored = 0xDEADBEEF << 32
    for name, arguments in {
        "socket": (40, 1),
        "socketpair": (2 if mode is not NetworkMode.ENABLED else 40, 1),
        "ioctl": (0, seccomp.TIOCSTI),
        "fcntl": (0, seccomp.F_SETLEASE),
    }.items():
        call = Call(known.audit_architecture, known.numbers[name], tuple(a | ignored for a in arguments))
        assert run(program, call) == REFUSED, name


@every_mode
@pytest.mark.parametrize(("machine", "foreign"), [("x86_64", I386), ("aarch64", ARM)])
def test_the_other_architecture_of_a_machine_is_killed(mode: NetworkMode, machine: str, foreign: int) -> None:
    program = seccomp.program(mode, machine)
    for number in range(NEWEST_CALL):
        assert run(program, Call(foreign, number)) == bpf.RETURN_KILL_PROCESS


@every_mode
def test_x32_calls_do_not_exist_and_so_are_no_way_around_the_numbers(mode: NetworkMode) -> None:
    program = seccomp.program(mode, "x86_64")
    architecture = MACHINES["x86_64"].audit_architecture
    for number in (*range(600), 0x3FFFFFFF):
        answer = run(program, Call(architecture, X32_BIT | number))
        assert answer == bpf.RETURN_ERRNO | errno.ENOSYS


@every_mode
def test_each_refusal_tells_its_reason_and_names_a_call_of_every_machine(mode: NetworkMode) -> None:
    for rule in seccomp.rules(mode):
        assert rule.reason
        is_old = rule.call in seccomp.OLD_CALLS
        assert all(rule.call in machine.numbers or is_old for machine in MACHINES.values())


def test_a_machine_without_a_filter_is_refused_by_name() -> None:
    with pytest.raises(SandboxUnavailable, match=r"no seccomp filter for the machine 'riscv64'; use one of"):
        seccomp.program(NetworkMode.RESTRICTED, "riscv64")
