"""What a tracer is asked about: all that the filter refuses, and what the profile can refuse."""

from __future__ import annotations

import errno
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.model.profile import Access, Limits, NetworkMode
from paddock.sandbox.denial.observation import Observation, opening
from paddock.sandbox.host.syscall_table import MACHINES
from paddock.sandbox.plan import bpf, seccomp
from paddock.sandbox.plan.plan import PRIVATE, Plan
from paddock.sandbox.profile.access import Rule
from tests.unit.sandbox.bpf_machine import WORD, Call, run

NOTHING_TO_READ = Rule("/w/secret", Access.DENY, "/w/secret")
ROOT_READ = Rule("/", Access.READ, ":root")
ROOT_WRITE = Rule("/", Access.WRITE, ":root")
WORKSPACE = Rule("/w", Access.WRITE, ":project_roots")
OWN = Rule("/run/paddock", Access.DENY, PRIVATE)

O_RDWR, O_CREAT, O_EXCL, O_TRUNC, O_DIRECTORY, O_PATH = 0o2, 0o100, 0o200, 0o1000, 0o200000, 0o10000000
O_TMPFILE = 0o20000000 | O_DIRECTORY

every_machine = pytest.mark.parametrize("machine", list(MACHINES))
every_mode = pytest.mark.parametrize("mode", list(NetworkMode))


def plan(*rules: Rule, network: NetworkMode = NetworkMode.RESTRICTED) -> Plan:
    return Plan((), (), (*rules, OWN), network, Limits(), "/w", has_proc=True)


@cache
def observation(machine: str, *rules: Rule, network: NetworkMode = NetworkMode.RESTRICTED) -> Observation:
    return Observation(plan(*rules, network=network), MACHINES[machine])


@cache
def program_of(watching: Observation) -> bytes:
    return watching.program()


def verdict(machine: str, watching: Observation, name: str, *arguments: int) -> int:
    known = MACHINES[machine]
    return run(program_of(watching), Call(known.audit_architecture, known.numbers[name], arguments))


def is_asked(machine: str, watching: Observation, name: str, *arguments: int) -> bool:
    return verdict(machine, watching, name, *arguments) == bpf.RETURN_NOTIFY


# Values that conditions look for, in either half, so that calls often fit and nearly fit.
halves = st.sampled_from([0, 1, 2, 3, 5, 8, 10, 16, 0o100, 0o1000, 0o4755, 0x5412, 0x541C, 0x10000000, WORD])
words = st.builds(lambda low, high: high << 32 | low, halves, halves)
numbers = st.one_of(
    st.sampled_from(sorted({number for known in MACHINES.values() for number in known.numbers.values()})),
    st.integers(0, 500),
    st.integers(0, WORD),
)


@every_mode
@every_machine
@given(number=numbers, arguments=st.tuples(*[words] * 6))
def test_what_the_filter_refuses_is_refused_by_the_tracer_or_still_by_the_kernel(
    machine: str, mode: NetworkMode, number: int, arguments: tuple[int, ...]
) -> None:
    watching = observation(machine, ROOT_READ, network=mode)
    call = Call(MACHINES[machine].audit_architecture, number, arguments)
    enforced = run(seccomp.program(mode, machine), call)
    remaining = run(seccomp.remainder(machine), call)
    if enforced == bpf.RETURN_ALLOW:
        assert remaining == bpf.RETURN_ALLOW
        assert watching.refusal(number, arguments) is None
    elif remaining == bpf.RETURN_ALLOW:
        rule = watching.refusal(number, arguments)
        assert rule is not None
        assert run(program_of(watching), call) == bpf.RETURN_NOTIFY
        assert enforced == bpf.RETURN_ERRNO | rule.errno
    else:
        assert remaining == enforced


@every_mode
@every_machine
@given(number=numbers, arguments=st.tuples(*[words] * 6))
def test_whatever_is_asked_has_an_answer(
    machine: str, mode: NetworkMode, number: int, arguments: tuple[int, ...]
) -> None:
    watching = observation(machine, ROOT_READ, NOTHING_TO_READ, network=mode)
    call = Call(MACHINES[machine].audit_architecture, number, arguments)
    if run(program_of(watching), call) == bpf.RETURN_NOTIFY:
        assert watching.refusal(number, arguments) or watching.call(number)


@every_machine
def test_foreign_calls_end_as_without_a_tracer(machine: str) -> None:
    known, program = MACHINES[machine], observation(machine, ROOT_READ).program()
    assert run(program, Call(0x40000003, known.numbers["openat"])) == bpf.RETURN_KILL_PROCESS
    if known.foreign_abi_bit:
        foreign = Call(known.audit_architecture, known.foreign_abi_bit | known.numbers["openat"])
        assert run(program, foreign) == bpf.RETURN_ERRNO | errno.ENOSYS


@every_machine
def test_a_command_can_have_no_listener_of_its_own(machine: str) -> None:
    watching = observation(machine, ROOT_READ)
    assert verdict(machine, watching, "seccomp", 1, 8) == bpf.RETURN_ERRNO | errno.EBUSY
    assert verdict(machine, watching, "seccomp", 1, 8 | 1 << 5) == bpf.RETURN_ERRNO | errno.EBUSY
    assert verdict(machine, watching, "seccomp", 1, 0) == bpf.RETURN_ALLOW


@every_machine
def test_where_everything_can_be_read_only_changes_are_asked_about(machine: str) -> None:
    watching = observation(machine, ROOT_READ, WORKSPACE)
    assert not is_asked(machine, watching, "openat", 0, 0, 0)
    assert not is_asked(machine, watching, "openat", 0, 0, O_DIRECTORY)
    assert not is_asked(machine, watching, "execve")
    assert not is_asked(machine, watching, "chdir")
    for flags in (1, O_RDWR, O_CREAT, O_TRUNC, O_TMPFILE | O_RDWR):
        assert is_asked(machine, watching, "openat", 0, 0, flags)
    for name in (
        "mkdirat",
        "unlinkat",
        "renameat2",
        "symlinkat",
        "truncate",
        "fchmodat",
        "fchownat",
    ):
        assert is_asked(machine, watching, name)


@every_machine
def test_where_something_can_not_be_read_reading_and_executing_are_asked_about(machine: str) -> None:
    for rules in ([ROOT_READ, NOTHING_TO_READ], [Rule("/usr", Access.READ, ":minimal")]):
        watching = observation(machine, *rules)
        for name in ("openat", "execve", "execveat", "chdir"):
            assert is_asked(machine, watching, name)


@every_machine
def test_nothing_about_files_is_asked_where_all_can_be_written(machine: str) -> None:
    watching = observation(machine, ROOT_WRITE)
    for name in ("openat", "mkdirat", "execve", "chdir"):
        assert not is_asked(machine, watching, name, 0, 0, O_RDWR)


@every_machine
def test_addresses_are_asked_about_where_only_some_can_be_reached(machine: str) -> None:
    loopback = observation(machine, ROOT_READ, network=NetworkMode.LOOPBACK)
    assert is_asked(machine, loopback, "connect")
    assert is_asked(machine, loopback, "sendto", 0, 0, 0, 0, 1 << 32)
    assert not is_asked(machine, loopback, "sendto")
    assert not is_asked(machine, observation(machine, ROOT_READ, network=NetworkMode.ENABLED), "connect")


@pytest.mark.parametrize(
    ("flags", "wanted"),
    [
        (0, ["read something"]),
        (O_DIRECTORY, ["read something"]),
        (O_PATH, []),
        (O_RDWR, ["write file"]),
        (O_TRUNC, ["write file"]),
        (O_RDWR | O_CREAT, ["write name"]),
        (O_TRUNC | O_CREAT, ["write name"]),
        (O_CREAT, ["write vacancy", "read something"]),
        (O_RDWR | O_CREAT | O_EXCL, ["write vacancy"]),
        (O_CREAT | O_EXCL, ["write vacancy"]),
        (O_TMPFILE | O_RDWR, ["write something"]),
    ],
)
def test_flags_tell_what_a_file_is_opened_for(flags: int, wanted: list[str]) -> None:
    assert [f"{kind} {need}" for kind, need in opening(flags)] == wanted
