"""A rule lets a line out of the sandbox only if its programs, shell and input are what the rule means."""

from __future__ import annotations

import errno
from typing import Any

import pytest

import paddock
from paddock.agent.fake_executor import FakeExecutor
from paddock.agent.fake_files import FakeFiles
from paddock.client.confinement import Sandbox
from paddock.errors import OperationFailed, file_error
from paddock.model.decision import Action, Origin
from paddock.rules.policy import Policy
from paddock.rules.rule import PrefixRule
from tests.unit.agent.scene import Answers, saying, write_denied

STATUS = Policy([PrefixRule((("git",), ("status",)), Action.ALLOW, Origin("test.rules", 1))])


ELF = b"\x7fELF"


class Host(FakeExecutor):
    """With programs in it."""

    path: str | None = "/usr/bin:/bin"

    def install(self, *paths: str, content: bytes = ELF, mode: int = 0o755) -> None:
        for path in paths:
            self.contents[path], self.modes[path] = content, mode

    async def search_path(self, sandbox: Sandbox | None) -> str | None:
        return self.path


def host(*endings: Any) -> Host:
    executor = Host(saying(*(endings or (0,))))
    executor.install(*(f"/usr/bin/{name}" for name in ("git", "env", "perl")))
    executor.install(*(f"/work/{name}" for name in ("git", "bin/git", "py")))
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


@pytest.mark.parametrize("content", [ELF, b"#!/usr/bin/perl\n", None])
@pytest.mark.parametrize(
    "path", ["/usr/bin:/work/bin", "/usr/bin:/bin:/work/none", "/usr/bin:.", "/usr/bin:"]
)
async def test_name_is_asked_about_if_any_directory_of_path_is_in_reach(
    content: bytes | None, path: str
) -> None:
    """A shell goes on where the kernel does not execute what it has found, whatever that is."""
    executor = host()
    executor.path = path
    if content is None:
        del executor.contents["/usr/bin/git"]
    else:
        executor.install("/usr/bin/git", content=content)
    assert len(await asked(executor, "git status")) == 1
    assert await asked(host(), "/usr/bin/git status") == []


async def test_every_program_that_path_leads_to_counts() -> None:
    for other, questions in ((ELF, 0), (b"#!/usr/bin/perl\n", 0), (b"#!/work/py\n", 1), (b"text", 1)):
        executor = host()
        executor.install("/opt/bin/git", content=other)
        executor.path = "/usr/bin:/opt/bin:/usr/bin"
        assert len(await asked(executor, "git status")) == questions


class Unreachable(FakeFiles):
    """With a directory in which this user finds nothing."""

    place, number = "/root/bin", errno.EACCES

    async def way(self, path: str) -> list[str]:
        if f"{path}/".startswith(f"{self.place}/"):
            raise file_error(OperationFailed, "it can't be reached", self.number, path)
        return await super().way(path)


@pytest.mark.parametrize("number", [errno.EACCES, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EIO])
@pytest.mark.parametrize("place", ["/root/bin", "/work/bin"])
async def test_directory_in_which_this_user_finds_nothing_counts_only_where_commands_write(
    monkeypatch: pytest.MonkeyPatch, place: str, number: int
) -> None:
    monkeypatch.setattr(Unreachable, "place", place)
    monkeypatch.setattr(Unreachable, "number", number)
    monkeypatch.setattr("paddock.agent.fake_executor.FakeFiles", Unreachable)
    executor = host()
    executor.path = f"/usr/bin:{place}"
    # A failing disk says nothing about what is there.
    is_asked = place == "/work/bin" or number == errno.EIO
    assert len(await asked(executor, "git status")) == is_asked


@pytest.mark.parametrize("mode", [0o644, 0o600, 0o000])
async def test_file_that_nobody_can_execute_does_not_count(mode: int) -> None:
    executor = host()
    executor.install("/opt/bin/git", content=b"#!/work/py\n", mode=mode)
    executor.path = "/opt/bin:/usr/bin"
    assert await asked(executor, "git status") == []


async def test_line_for_a_shell_that_may_read_files_first_is_asked_about() -> None:
    for program, questions in (("/usr/bin/dash", 0), ("/opt/elvish", 1), ("/opt/zsh-mine", 1)):
        executor = host()
        executor.links["/bin/sh"] = program
        executor.install(program)
        reasons = await asked(executor, "git status")
        assert len(reasons) == questions
        assert all("/bin/sh may read files first" in reason for reason in reasons)


async def test_file_that_is_no_program_is_asked_about() -> None:
    executor = host()
    executor.install("/usr/bin/git", content=b"echo a shell reads this itself\n")
    assert len(await asked(executor, "git status")) == 1


@pytest.mark.parametrize(
    "first",
    [
        b"#!/usr/bin/perl\n",
        b"#!/usr/bin/perl -w -T\n",
        b"#!/usr/bin/env perl\n",
        b"#! \t/usr/bin/env   perl \t\n",
        b"#!/usr/bin/env /usr/bin/perl\n",
        b"#!/opt/shim -e\n",
        b"#!/usr/bin/perl\n" + b"#" * 1024 * 1024,
    ],
)
async def test_script_out_of_reach_of_the_sandbox_is_not_asked_about(first: bytes) -> None:
    executor = host()
    executor.install("/usr/bin/git", content=first)
    executor.install("/opt/shim", content=b"#!/usr/bin/env perl\n")
    assert await asked(executor, "git status") == []


@pytest.mark.parametrize(
    "first",
    [
        b"#!/work/py\n",
        b"#!/work/py\n" + b"#" * 1024 * 1024,
        # The kernel looks for these from the working directory.
        b"#!py\n",
        b"#!./py\n",
        b"#!/usr/bin/env /work/py\n",
        b"#!/usr/bin/env ./py\n",
        b"#!/usr/bin/env other\n",
        b"#!/usr/bin/env -S git x\n",
        b"#!/usr/bin/env -S -u FOO /work/py\n",
        b"#!/usr/bin/env -iS/work/py\n",
        b"#!/usr/bin/env X=1 other\n",
        b"#!/usr/bin/env PATH=/work/bin\n",
        b"#!/opt/another-env -S -u FOO perl\n",
        b"#!/opt/another-env -Sother\n",
        b"#!/usr/bin/perl /work/py\n",
        b"#!/usr/bin/perl py\n",
        b"#!/usr/bin/perl -I/work/py\n",
        b"#!/opt/shim\n",
        b"#!/usr/bin/env /opt/shim\n",
        b"#!/opt/again\n",
        b"#!/usr/bin/env git\n",
        b"#!/proc/self/cwd/py\n",
    ],
)
async def test_interpreter_counts_as_the_program(first: bytes) -> None:
    executor = host()
    executor.install("/usr/bin/git", content=first)
    executor.install("/opt/shim", content=b"#!/work/py\n")
    executor.install("/opt/again", content=b"#!/opt/again\n")
    executor.links["/opt/another-env"] = "/usr/bin/env"
    # By its path, so that only the interpreter is looked up.
    executor.path = "/usr/bin:/work/bin"
    assert len(await asked(executor, "/usr/bin/git status")) == 1


@pytest.mark.parametrize(
    ("links", "questions"),
    [
        ({"/opt/git": "/usr/bin/git"}, 0),
        ({"/opt/git": "../usr/bin/./git"}, 0),
        ({"/opt": "/usr/bin"}, 0),
        # Out at both ends.
        ({"/opt/git": "/work/link", "/work/link": "/usr/bin/git"}, 1),
        ({"/opt/git": "/work/sub/../../usr/bin/git"}, 1),
        ({"/opt": "/work/link", "/work/link": "/usr/bin"}, 1),
        # Leads nowhere, until a command makes something there.
        ({"/opt/git": "/work/missing"}, 1),
        ({"/opt/git": "git"}, 1),
        ({"/opt/git": "/dev/fd/3", "/dev/fd": "/proc/self/fd"}, 1),
    ],
)
async def test_every_link_on_the_way_counts(links: dict[str, str], questions: int) -> None:
    for cmd, path in (("/opt/git status", None), ("git status", "/opt:/bin")):
        executor = host()
        executor.links |= links
        executor.path = path or executor.path
        assert len(await asked(executor, cmd)) == questions


async def test_program_that_commands_may_write_under_another_name_is_asked_about() -> None:
    """The fake ignores case."""
    for cmd, path, questions in (
        ("/WORK/git status", "/usr/bin", 1),
        ("git status", "/WORK/bin:/usr/bin", 1),
        ("/other/git status", "/usr/bin", 0),
    ):
        executor = host()
        executor.install("/WORK/git", "/WORK/bin/git", "/other/git")
        executor.path = path
        reasons = await asked(executor, cmd)
        assert len(reasons) == questions
        assert all("commands in the sandbox can write, under another name" in reason for reason in reasons)


async def test_program_with_hard_links_is_asked_about() -> None:
    for linked, questions in (("/usr/bin/perl", 0), ("/usr/bin/git", 1), ("/opt/git", 1)):
        executor = host()
        executor.links["/usr/bin/git"] = "/opt/git"
        executor.install("/opt/git")
        executor.linked.add("/opt/git" if linked == "/usr/bin/git" else linked)
        assert len(await asked(executor, "git status")) == questions


async def test_question_names_the_link_that_commands_can_write() -> None:
    executor = host()
    executor.links |= {"/opt/git": "/work/link", "/work/link": "/usr/bin/git"}
    assert await asked(executor, "/opt/git status") == [
        "a rule allows it, but commands in the sandbox can write /work/link, which /opt/git leads through"
    ]


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
