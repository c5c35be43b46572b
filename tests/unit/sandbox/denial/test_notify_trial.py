"""A host on which executions can't be decided on says why."""

from __future__ import annotations

import socket
import subprocess

import pytest

from paddock.model.host import Bubblewrap, BwrapCapabilities, HostFacts
from paddock.sandbox.denial import notify_trial
from paddock.sandbox.denial.notify_trial import notify_problem


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (FileNotFoundError(2, "No such file or directory", "/bwrap"), "No such file or directory: '/bwrap'"),
        (subprocess.TimeoutExpired("bwrap", 10.0), "timed out after 10.0 seconds"),
    ],
)
def test_trial_that_fails_is_the_reason(
    monkeypatch: pytest.MonkeyPatch, failure: Exception, reason: str
) -> None:
    def fail(*_: object) -> str:
        raise failure

    monkeypatch.setattr(notify_trial, "_trial", fail)
    monkeypatch.setattr(notify_trial, "_ptrace_refusal", lambda: None)
    facts = HostFacts(
        arch="x86_64",
        kernel=(6, 0),
        bwrap=Bubblewrap("/bwrap", BwrapCapabilities()),
        can_unshare=True,
    )
    problem = notify_problem(facts, "/init", "/leader")
    assert problem is not None
    assert problem.detail.startswith("a trial of it failed: ")
    assert reason in problem.detail


def test_sandbox_that_ends_before_it_asks_has_no_listener() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        ours.send(b"filter")
        theirs.close()
        assert notify_trial._listener_of(ours) is None
        assert notify_trial._listener_of(ours) is None
