"""A rule lets a line out of the sandbox only if its programs, shell and input are what the rule means."""

from __future__ import annotations

from typing import Any

import pytest

import paddock
from paddock.agent.fake_executor import FakeExecutor
from paddock.client.confinement import Sandbox
from paddock.model.decision import Action, Origin
from paddock.rules.policy import Policy
from paddock.rules.rule import PrefixRule
from tests.unit.agent.scene import Answers, saying, write_denied

STATUS = Policy([PrefixRule((("git",), ("status",)), Action.ALLOW, Origin("test.rules", 1))])


class Host(FakeExecutor):
    """With programs in it."""

    path: str | None = "/usr/bin:/bin"

    async def search_path(self, sandbox: Sandbox | None) -> str | None:
        return self.path


def host(*endings: Any) -> Host:
    executor = Host(saying(*(endings or (0,))))
    executor.contents |= {"/usr/bin/git": b"\x7fELF", "/work/git": b"\x7fELF", "/work/bin/git": b"\x7fELF"}
    return executor


async def asked(executor: Host, cmd: str, **more: object) -> list[str]:
    """Return why somebody was asked before the line ran without the sandbox."""
    answers = Answers("approved")
    async with paddock.Agent(executor, rules=STATUS, approver=answers) as tools:
        arguments = {"cmd": cmd, "sandbox_permissions": "require_escalated", **more}
        reply = await tools.call("exec_command", arguments)
    assert not reply.is_error, reply.text
    assert [started.command.sandbox for started in executor.started] == [None]
    return [request.reason for request in answers.requests]


@pytest.mark.parametrize("cmd", ["git status", "/usr/bin/git status", "git status; git status -s"])
async def test_allowed_line_leaves_the_sandbox_without_a_question(cmd: str) -> None:
    assert await asked(host(), cmd) == []


@pytest.mark.parametrize(
    "cmd",
    [
        *(
            "./git status",
            "bin/git status",
            "/work/git status",
            "/work/bin/../git status",
            "git status; ./git status",
        ),
        *("git\fstatus\f/../evil", "git\\\tstatus\\\t/../evil", "git\rstatus\r/../evil"),
    ],
)
async def test_program_in_reach_of_the_sandbox_is_asked_about(cmd: str) -> None:
    assert len(await asked(host(), cmd)) == 1


@pytest.mark.parametrize(
    "path", ["/work/bin:/usr/bin", "/work/none:/usr/bin", ".:/usr/bin", ":/usr/bin", "/tmp/x:/bin"]
)
async def test_name_that_is_looked_up_in_reach_of_the_sandbox_is_asked_about(path: str) -> None:
    executor = host()
    executor.path = path
    assert len(await asked(executor, "git status")) == 1


async def test_directory_behind_that_of_the_program_does_not_matter() -> None:
    executor = host()
    executor.path = "/usr/bin:/work/bin"
    assert await asked(executor, "git status") == []


@pytest.mark.parametrize(
    "first", [b"#!/work/python\n", b"#! /usr/bin/env -S git x\n", b"#!/usr/bin/env X=1 other\n"]
)
async def test_interpreter_counts_as_the_program(first: bytes) -> None:
    executor = host()
    executor.contents["/usr/bin/git"] = first
    executor.path = "/usr/bin:/work/bin"
    is_out_of_reach = b"env -S git" in first
    assert len(await asked(executor, "git status")) == (not is_out_of_reach)


@pytest.mark.parametrize(
    "more", [{"shell": "/work/evil"}, {"shell": "/bin/bash"}, {"stdin": "x"}, {"stdin": ""}, {"tty": True}]
)
async def test_rule_says_nothing_of_another_shell_or_of_input(more: dict[str, object]) -> None:
    assert len(await asked(host(), "git status", **more)) == 1


async def test_retry_of_a_program_in_reach_of_the_sandbox_is_asked_about() -> None:
    for cmd, questions in (("git status", 0), ("/work/git status", 1)):
        executor, answers = host(write_denied("/etc/x"), 0), Answers("approved")
        executor.contents["/etc/x"] = b""
        async with paddock.Agent(
            executor, rules=STATUS, approver=answers, approval_policy="on-failure"
        ) as tools:
            await tools.call("exec_command", {"cmd": cmd})
        assert len(executor.started) == 2
        assert len(answers.requests) == questions


async def test_question_says_why_the_rule_does_not_hold() -> None:
    assert await asked(host(), "/work/git status") == [
        "a rule allows it, but commands in the sandbox can write /work/git"
    ]
