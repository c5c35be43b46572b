"""Which back-end decides on executions, on hosts that do not exist."""

from __future__ import annotations

import pytest

from paddock.cli.finding import Level
from paddock.cli.sandbox_diagnosis import interception_finding
from paddock.errors import SandboxUnavailable
from paddock.model.host import HostFacts, Problem
from paddock.model.interceptor import Interceptor
from paddock.sandbox.denial.exec_answer import ExecPolicy, Run
from paddock.sandbox.enforce.command import Command
from paddock.sandbox.enforce.wrapped_command import control_variables, wrapped
from paddock.sandbox.host.tracing import unnotifiable
from paddock.sandbox.interception import Availability, Interceptors, choose

NO_NOTIFY = Problem("notify", "ptrace is refused", "allow it")
NO_WRAPPER = Problem("wrapper", "there is no shell", "make one")


@pytest.mark.parametrize(
    ("available", "wanted", "chosen"),
    [
        (Availability(None, None), None, Interceptor.NOTIFY),
        (Availability(NO_NOTIFY, None), None, Interceptor.WRAPPER),
        (Availability(None, None), Interceptor.WRAPPER, Interceptor.WRAPPER),
        (Availability(None, NO_WRAPPER), None, Interceptor.NOTIFY),
    ],
)
def test_the_first_that_can_be_had_is_used_or_the_one_that_is_wanted(
    available: Availability, wanted: Interceptor | None, chosen: Interceptor
) -> None:
    assert choose(available, wanted) is chosen


def test_where_there_is_none_every_reason_is_told() -> None:
    with pytest.raises(SandboxUnavailable) as caught:
        choose(Availability(NO_NOTIFY, NO_WRAPPER), None)
    assert "notify: ptrace is refused; wrapper: there is no shell" in caught.value.problem
    assert caught.value.remedy == "make one"
    with pytest.raises(SandboxUnavailable) as caught:
        choose(Availability(NO_NOTIFY, None), Interceptor.NOTIFY)
    assert caught.value.remedy == "allow it"


@pytest.mark.parametrize(
    ("arch", "kernel", "is_there"),
    [("x86_64", (5, 14), True), ("x86_64", (5, 13), False), ("aarch64", (6, 18), False)],
)
def test_notifications_need_a_kernel_and_a_machine(
    arch: str, kernel: tuple[int, int], is_there: bool
) -> None:
    facts = HostFacts(arch=arch, kernel=kernel, bwrap=None, can_unshare=True)
    assert (unnotifiable(facts) is None) is is_there


def test_doctor_tells_what_there_is() -> None:
    assert interception_finding(Availability(None, NO_WRAPPER)).level is Level.OK
    second = interception_finding(Availability(NO_NOTIFY, None))
    assert (second.level, second.remedy) == (Level.WARN, "allow it")
    assert second.detail.startswith("wrapper: ")
    none = interception_finding(Availability(NO_NOTIFY, NO_WRAPPER))
    assert none.detail.startswith("none: ")
    assert "there is no shell" in none.detail


@pytest.mark.parametrize("program", ["bash", "/usr/bin/bash", "rbash"])
def test_a_command_of_bash_is_run_by_the_patched_one_under_its_own_name(program: str) -> None:
    command = Command([program, "-c", "x"], "/", (), {"A": "1"})
    made = wrapped(command, "/opt/bash")
    assert (made.argv, made.arg0) == (["/opt/bash", "-c", "x"], program)
    assert made.environment == {"A": "1", **control_variables("/opt/bash")}
    assert wrapped(Command([program], "/", (), {}, arg0="-bash"), "/opt/bash").arg0 == "-bash"


@pytest.mark.parametrize("program", ["sh", "/bin/dash", "python3", "bash.py"])
def test_no_other_command_can_be_wrapped(program: str) -> None:
    with pytest.raises(SandboxUnavailable):
        wrapped(Command([program], "/", (), {}), "/opt/bash")


def test_host_on_which_nobody_answers_refuses_interception() -> None:
    facts = HostFacts(arch="aarch64", kernel=(6, 18), bwrap=None, can_unshare=True)
    there = Interceptors(facts, wanted=Interceptor.NOTIFY)
    with pytest.raises(SandboxUnavailable, match="not there for aarch64"):
        there.choose()
    with pytest.raises(SandboxUnavailable, match="answers wrappers"):
        there.serve_wrappers(ExecPolicy(lambda *_: Run()), None)
