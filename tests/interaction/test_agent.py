"""The tools of an agent on real servers, over memory and over a websocket."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import paddock
from paddock.agent.event import (
    ApprovalAnswered,
    ApprovalAsked,
    EventReader,
    ExecCommandBegin,
    ExecCommandEnd,
    ExecCommandOutputDelta,
)
from paddock.agent.process_table import PROCESS_LIMIT
from paddock.agent.reply import ExecReply
from paddock.client.connection import Connection
from paddock.client.opening import open_box
from paddock.model.decision import Action, Origin
from paddock.model.denial import DenialKind
from paddock.model.profile import Access, AccessEntry, ExactPath, ManagedProfile, RestrictedFileSystem
from paddock.protocol.bound import MAX_PATH_CHARS
from paddock.rules.policy import Policy
from paddock.rules.rule import PrefixRule
from paddock.sandbox.profile.codec import digest_of
from paddock.sandbox.profile.table import built_in
from paddock.transport.link import Accept, Link
from paddock.transport.memory import connect_memory
from tests.interaction.cutting_proxy import CuttingProxy
from tests.serving import serving
from tests.unit.audit.logs import segments
from tests.wire import served


@asynccontextmanager
async def memory_box() -> AsyncIterator[paddock.Box]:
    async with served() as server:

        async def dial(accept: Accept) -> Link:
            return connect_memory(server.accept, accept)[1]

        async with await open_box(Connection(), dial, client_name="test") as box:
            yield box


@pytest.fixture(params=["memory", "websocket"])
async def place(request: pytest.FixtureRequest) -> AsyncIterator[str | paddock.Box | None]:
    """Where commands run; a server of its own takes a second to start, so that few tests ask for one."""
    async with AsyncExitStack() as stack:
        match request.param:
            case "memory":
                yield await stack.enter_async_context(memory_box())
            case "websocket":
                yield (await stack.enter_async_context(served())).url
            case _:
                yield None


@pytest.fixture
def project() -> Iterator[Path]:
    # Not in /tmp, which the profile of a workspace lets every command write.
    with tempfile.TemporaryDirectory(prefix="paddock-agent-", dir="/var/tmp") as directory:
        yield Path(directory)


class Recorder:
    """Answers every question alike, and keeps them."""

    def __init__(self, answer: str) -> None:
        self.requests: list[paddock.ApprovalRequest] = []
        self._answer = answer

    async def __call__(self, request: paddock.ApprovalRequest) -> str:
        self.requests.append(request)
        return self._answer


async def exec_command(tools: paddock.Tools, **arguments: object) -> ExecReply:
    reply = await tools.call("exec_command", arguments)
    assert isinstance(reply, ExecReply), reply.text
    return reply


async def output_seen(events: EventReader) -> None:
    """Return when a command has written something."""
    async for event in events:
        if isinstance(event, ExecCommandOutputDelta):
            return


def told(log: Path, kind: str) -> list[dict[str, Any]]:
    lines = b"".join(segment.read_bytes() for segment in segments(log)).splitlines()
    return [record for record in map(json.loads, lines) if record["kind"] == kind]


@pytest.mark.parametrize("place", ["memory", "websocket", "private"], indirect=True)
async def test_denied_write_is_asked_for_by_its_exact_path_and_succeeds_when_approved(
    place: str | paddock.Box | None, project: Path
) -> None:
    target = project / "notes.txt"
    target.write_text("old\n")
    approver = Recorder("approved")
    async with paddock.Agent(
        place, profile=":read-only", approver=approver, approval_policy="on-failure", cwd=str(project)
    ) as tools:
        events = tools.events()
        # What the sandbox of the retry lets the command do is seen from inside it.
        other = project / "other.txt"
        reply = await exec_command(tools, cmd=f"echo new > notes.txt && ! echo no > {other}")
    assert reply.exit_code == 0
    assert target.read_text() == "new\n"
    assert not other.exists()
    [request] = approver.requests
    [denial] = request.denials
    assert (denial.kind, denial.target, denial.is_certain) == (DenialKind.WRITE, str(target), True)
    assert request.is_retry
    assert f"It may write {target}." in request.changes
    assert "Everything else stays as the profile says." in request.changes
    told = [event async for event in events]
    begins = [event for event in told if isinstance(event, ExecCommandBegin)]
    assert [(event.attempt, event.is_sandboxed) for event in begins] == [(1, True), (2, True)]
    ends = [event.exit_code for event in told if isinstance(event, ExecCommandEnd)]
    # The number that a failed redirection has depends on the user's shell.
    assert [code != 0 for code in ends] == [True, False]
    assert [type(event) for event in told if isinstance(event, ApprovalAsked | ApprovalAnswered)] == [
        ApprovalAsked,
        ApprovalAnswered,
    ]


async def test_server_is_asked_for_the_profile_that_was_approved(project: Path) -> None:
    target = project / "notes.txt"
    target.touch()
    log = project / "audit"
    async with (
        served(audit_log=str(log)) as server,
        paddock.Agent(
            server.url,
            profile=":read-only",
            approver=Recorder("approved"),
            approval_policy="on-failure",
            cwd=str(project),
        ) as tools,
    ):
        await exec_command(tools, cmd="echo new > notes.txt")
    first, second = told(log, "start")
    base = built_in(":read-only")
    assert isinstance(base, ManagedProfile)
    assert isinstance(base.file_system, RestrictedFileSystem)
    added = AccessEntry(path=ExactPath(path=str(target)), access=Access.WRITE)
    wider = replace(base, file_system=replace(base.file_system, entries=(*base.file_system.entries, added)))
    assert first["sandbox"]["profile"] == ":read-only"
    assert second["sandbox"]["profile"] == digest_of(wider)
    assert first["argv"] == second["argv"]


async def test_killed_server_is_told_as_an_end_that_is_not_known() -> None:
    with serving() as server:
        async with paddock.connect(server.url, reconnect=False) as box, paddock.Agent(box) as tools:
            events = tools.events()
            call = asyncio.create_task(tools.call("exec_command", {"cmd": "echo here; exec sleep 1000"}))
            await output_seen(events)
            os.kill(server.pid, signal.SIGKILL)
            reply = await call
            later = await tools.call("exec_command", {"cmd": "true"})
    assert isinstance(reply, ExecReply), reply.text
    assert (reply.exit_code, reply.session_id) == (None, None)
    assert reply.output.startswith("here\n")
    assert any("not known" in note for note in reply.notes)
    assert later.is_error


async def test_connection_that_is_lost_for_good_in_the_middle_of_a_call_is_told_as_that() -> None:
    async with served() as server, CuttingProxy(server.url) as proxy:
        patience = paddock.ReconnectPolicy(max_time_s=0.2, min_delay_s=0.01)
        async with paddock.Agent(paddock.connect(proxy.url, reconnect=patience)) as tools:
            events = tools.events()
            arguments = {"cmd": "echo here; exec sleep 1000", "yield_time_ms": 30_000}
            call = asyncio.create_task(tools.call("exec_command", arguments))
            await output_seen(events)
            proxy.refuse()
            proxy.break_all()
            reply = await call
            later = await tools.call("exec_command", {"cmd": "true"})
            file = await tools.call("read_file", {"path": "/etc/hostname"})
    assert isinstance(reply, ExecReply), reply.text
    assert (reply.exit_code, reply.session_id) == (None, None)
    assert reply.output.startswith("here\n")
    assert any("not known" in note for note in reply.notes)
    assert (later.is_error, file.is_error) == (True, True)


async def test_interrupted_connection_that_comes_back_loses_nothing() -> None:
    async with served() as server, CuttingProxy(server.url) as proxy, paddock.Agent(proxy.url) as tools:
        events = tools.events()
        arguments = {"cmd": "echo here; read x; echo got $x", "tty": True, "yield_time_ms": 30_000}
        call = asyncio.create_task(tools.call("exec_command", arguments | {"wait_for": {"pattern": "here"}}))
        await output_seen(events)
        first = await call
        assert isinstance(first, ExecReply)
        proxy.break_all()
        second = await tools.call(
            "write_stdin", {"session_id": first.session_id, "chars": "abc\n", "yield_time_ms": 30_000}
        )
    assert isinstance(second, ExecReply)
    assert second.exit_code == 0
    assert "got abc" in second.output


async def test_connection_that_is_cut_in_the_middle_of_a_call_is_made_again_within_it(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    async with served() as server, CuttingProxy(server.url) as proxy, paddock.Agent(proxy.url) as tools:
        events = tools.events()
        arguments = {"cmd": f"echo here; read x < {gate}; echo after", "yield_time_ms": 30_000}
        call = asyncio.create_task(tools.call("exec_command", arguments))
        await output_seen(events)
        proxy.break_all()
        await asyncio.to_thread(gate.write_text, "\n")
        reply = await call
    assert isinstance(reply, ExecReply)
    assert (reply.exit_code, reply.output) == (0, "here\nafter\n")


async def test_denied_write_that_nobody_approves_stays_denied(
    place: str | paddock.Box | None, project: Path
) -> None:
    approver = Recorder("denied")
    async with paddock.Agent(
        place, profile=":read-only", approver=approver, approval_policy="on-failure", cwd=str(project)
    ) as tools:
        reply = await exec_command(tools, cmd="echo new > notes.txt")
    assert reply.exit_code not in (0, None)
    assert any(str(project / "notes.txt") in note for note in reply.notes)
    assert any("refused" in note for note in reply.notes)
    assert len(approver.requests) == 1
    assert os.listdir(project) == []


@pytest.mark.parametrize("place", ["first", "last", "nowhere"])
async def test_rule_lets_no_program_of_the_workspace_out(
    project: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    work, outside = project / "work", project / "outside"
    (work / "bin").mkdir(parents=True)
    outside.mkdir()
    (work / "link").symlink_to("bin")
    paths = {"first": f"{work}/link:/usr/bin:/bin", "last": f"/usr/bin:/bin:{work}/link", "nowhere": "/bin"}
    monkeypatch.setenv("PATH", paths[place])
    rule = PrefixRule((("touch",),), Action.ALLOW, Origin("test.rules", 1))
    evil = (
        f"printf '#!/bin/sh\\n/bin/touch {outside}/evil\\n' > bin/touch; chmod +x bin/touch; cp bin/touch ."
    )
    free: dict[str, object] = {"sandbox_permissions": "require_escalated"}
    async with paddock.Agent(rules=Policy([rule]), approver=Recorder("denied"), cwd=str(work)) as tools:
        await exec_command(tools, cmd=evil)
        for cmd, shell in (("./touch x", "/bin/sh"), ("touch x", str(work / "touch"))):
            assert (await tools.call("exec_command", {"cmd": cmd, "shell": shell, **free})).is_error
        for cmd in ("./touch x", "bin/touch x", f"{work}/link/touch x"):
            assert (await tools.call("exec_command", {"cmd": cmd, **free})).is_error
        assert os.listdir(outside) == []
        # Inside it is denied; outside it works, if only the host's own program can be meant.
        assert (await exec_command(tools, cmd=f"echo > {outside}/good")).exit_code != 0
        reply = await tools.call("exec_command", {"cmd": f"touch {outside}/good", **free})
    assert reply.is_error == (place != "nowhere")
    assert os.listdir(outside) == (["good"] if place == "nowhere" else [])


async def test_rule_lets_out_no_program_that_an_approved_command_has_put_in_place(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, tools_of_user, outside = project / "work", project / "bin", project / "outside"
    for directory in (work, tools_of_user, outside):
        directory.mkdir()
    (tools_of_user / "tool").symlink_to("/bin/touch")
    monkeypatch.setenv("PATH", f"{tools_of_user}:/usr/bin:/bin")
    rule = PrefixRule((("tool",),), Action.ALLOW, Origin("test.rules", 1))
    free: dict[str, object] = {"sandbox_permissions": "require_escalated"}
    more: dict[str, object] = {
        "sandbox_permissions": "with_additional_permissions",
        "additional_permissions": {"file_system": {"write": [str(tools_of_user)]}},
    }
    approver = Recorder("approved")
    async with paddock.Agent(rules=Policy([rule]), approver=approver, cwd=str(work)) as tools:
        await exec_command(tools, cmd=f"tool {outside}/good", **free)
        assert (os.listdir(outside), approver.requests) == (["good"], [])
        await exec_command(tools, cmd=f"cd {tools_of_user}; rm tool; cp /bin/rm tool", **more)
        await exec_command(tools, cmd=f"tool {outside}/good", **free)
    _, asked = approver.requests
    assert f"commands in the sandbox can write {tools_of_user}/tool" in asked.reason


async def test_rule_lets_out_no_program_that_has_another_name_in_the_workspace(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As uv makes them, for the programs of an environment and of its own tools."""
    work, tools_of_user, outside = project / "work", project / "bin", project / "outside"
    for directory in (work, tools_of_user, outside):
        directory.mkdir()
    for name in ("tool", "single"):
        shutil.copy("/bin/true", tools_of_user / name)
    (work / "tool").hardlink_to(tools_of_user / "tool")
    monkeypatch.setenv("PATH", f"{tools_of_user}:/usr/bin:/bin")
    rules = Policy(
        PrefixRule(((name,),), Action.ALLOW, Origin("test.rules", 1)) for name in ("tool", "single")
    )
    free: dict[str, object] = {"sandbox_permissions": "require_escalated"}
    approver = Recorder("denied")
    async with paddock.Agent(rules=rules, approver=approver, cwd=str(work)) as tools:
        await exec_command(tools, cmd="cat /bin/touch > tool")
        assert (await exec_command(tools, cmd=f"single {outside}/evil", **free)).exit_code == 0
        assert (await tools.call("exec_command", {"cmd": f"tool {outside}/evil", **free})).is_error
    [asked] = approver.requests
    assert f"{tools_of_user}/tool has other names" in asked.reason
    assert os.listdir(outside) == []


@pytest.mark.parametrize("is_link_before", [True, False])
async def test_approved_command_runs_in_the_directory_that_the_question_named(
    place: str | paddock.Box | None, project: Path, is_link_before: bool
) -> None:
    work, outside = project / "work", project / "outside"
    (work / "sub").mkdir(parents=True)
    outside.mkdir()
    swap = f"mv sub sub2 && ln -s {outside} sub"
    asked: list[str] = []

    async def approve(request: paddock.ApprovalRequest) -> str:
        asked.append(request.cwd)
        if not is_link_before:
            assert (await exec_command(tools, cmd=swap)).exit_code == 0
        return "approved"

    async with paddock.Agent(place, approver=approve, cwd=str(work)) as tools:
        if is_link_before:
            await exec_command(tools, cmd=swap)
        free = {"cmd": "touch made", "workdir": "sub", "sandbox_permissions": "require_escalated"}
        reply = await tools.call("exec_command", free)
    assert asked == [str(outside if is_link_before else work / "sub")]
    assert reply.is_error != is_link_before
    assert os.listdir(outside) == (["made"] if is_link_before else [])


@pytest.mark.parametrize(
    ("shell", "file", "chosen"),
    [
        ("bash", ".bashrc", None),
        ("bash", "named", None),
        ("bash", ".bashrc", "rbash"),
        ("zsh", ".zshenv", None),
        ("zsh", ".zshenv", "rzsh"),
    ],
)
async def test_unsandboxed_shell_reads_no_file_that_a_command_has_written(
    project: Path, monkeypatch: pytest.MonkeyPatch, shell: str, file: str, chosen: str | None
) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    variables = {"SHELL": program, "HOME": str(project)}
    if file == "named":
        variables["BASH_ENV"] = str(project / file)
    else:
        # As with `ssh host paddock serve`.
        variables |= {"SHLVL": "0", "SSH_CLIENT": "::1 1 22"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    link = project / (chosen or shell)
    link.symlink_to(program)
    more = {} if chosen is None else {"shell": str(link)}
    async with paddock.Agent(approver=Recorder("approved"), cwd=str(project)) as tools:
        await exec_command(tools, cmd=f"echo 'echo trapped > trap' > {file}")
        outside = await asyncio.create_subprocess_exec(link, "-c", ":", cwd=project)
        assert await outside.wait() == 0
        (project / "trap").unlink()
        done = await exec_command(tools, cmd="echo $0", sandbox_permissions="require_escalated", **more)
    assert done.output == f"{link if chosen else program}\n"
    assert not (project / "trap").exists()


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("exec_command", {"cmd": "true", "workdir": "@"}),
        ("exec_command", {"cmd": "true", "shell": "@", "sandbox_permissions": "require_escalated"}),
        ("exec_command", {"cmd": "@true", "sandbox_permissions": "require_escalated"}),
        ("read_file", {"path": "@"}),
        ("edit_file", {"path": "@", "old": "a", "new": "b"}),
        ("search_files", {"path": "@", "pattern": "a"}),
        ("list_files", {"path": "@"}),
        ("apply_patch", {"input": "*** Begin Patch\n*** Add File: @\n+x\n*** End Patch"}),
    ],
)
async def test_path_that_is_too_long_for_the_server_is_an_answer_for_the_model(
    place: str | paddock.Box | None, project: Path, tool: str, arguments: dict[str, str]
) -> None:
    named = {name: value.replace("@", f"/{'x' * MAX_PATH_CHARS}/") for name, value in arguments.items()}
    rule = PrefixRule((("true",),), Action.ALLOW, Origin("test.rules", 1))
    approver = Recorder("approved")
    async with paddock.Agent(place, rules=Policy([rule]), approver=approver, cwd=str(project)) as tools:
        reply = await tools.call(tool, named)
        told = reply.text if reply.is_error else approver.requests[0].reason
        assert str(MAX_PATH_CHARS) in told
        assert (await exec_command(tools, cmd="true")).exit_code == 0


async def test_new_file_is_granted_by_its_directory(place: str | paddock.Box | None, project: Path) -> None:
    approver = Recorder("approved_for_session")
    async with paddock.Agent(
        place, profile=":read-only", approver=approver, approval_policy="on-failure", cwd=str(project)
    ) as tools:
        first = await exec_command(tools, cmd="echo new > notes.txt")
        assert (project / "notes.txt").read_text() == "new\n"
        (project / "notes.txt").unlink()
        second = await exec_command(tools, cmd="echo new > notes.txt")
    assert (first.exit_code, second.exit_code) == (0, 0)
    [request] = approver.requests
    assert any(f"{project} and everything in it" in change for change in request.changes)


async def test_on_request_tells_the_model_of_a_denial_and_grants_what_it_asks_for(
    place: str | paddock.Box | None, project: Path
) -> None:
    target = project / "notes.txt"
    target.touch()
    approver = Recorder("approved")
    async with paddock.Agent(place, profile=":read-only", approver=approver, cwd=str(project)) as tools:
        denied = await exec_command(tools, cmd="echo new > notes.txt")
        assert denied.exit_code not in (0, None)
        assert approver.requests == []
        assert any("with_additional_permissions" in note for note in denied.notes)
        granted = await exec_command(
            tools,
            cmd="echo new > notes.txt",
            sandbox_permissions="with_additional_permissions",
            additional_permissions={"file_system": {"write": [str(target)]}},
            justification="May I write the notes?",
        )
    assert granted.exit_code == 0
    assert target.read_text() == "new\n"
    [request] = approver.requests
    assert (request.justification, request.is_retry) == ("May I write the notes?", False)


async def test_question_names_where_a_link_leads(project: Path) -> None:
    inside, outside = project / "inside", project / "outside"
    inside.mkdir()
    outside.mkdir()
    (inside / "link").symlink_to(outside)
    approver = Recorder("denied")
    async with paddock.Agent(None, approver=approver, cwd=str(inside)) as tools:
        refused = await tools.call(
            "exec_command",
            {
                "cmd": "echo x > link/new",
                "sandbox_permissions": "with_additional_permissions",
                "additional_permissions": {"file_system": {"write": [str(inside / "link")]}},
            },
        )
        edited = await tools.call(
            "apply_patch", {"input": "*** Begin Patch\n*** Add File: link/new\n+x\n*** End Patch"}
        )
    command, patch = approver.requests
    assert command.changes[0] == f"It may write {outside}, which is where {inside / 'link'} leads."
    assert patch.changes[0].startswith(
        f"It may write {outside / 'new'}, which is where {inside / 'link/new'} leads; the tool, "
    )
    assert patch.command == ("apply_patch", str(outside / "new"))
    assert (refused.is_error, edited.is_error) == (True, True)
    assert os.listdir(outside) == []


async def test_profile_that_hides_something_is_never_left(project: Path) -> None:
    hidden = project / "secret"
    hidden.write_text("key\n")
    profile = {
        "type": "managed",
        "file_system": {
            "type": "restricted",
            "entries": [
                {"path": {"type": "special", "value": {"kind": "root"}}, "access": "read"},
                {"path": {"type": "path", "path": str(hidden)}, "access": "deny"},
            ],
        },
        "network": "restricted",
    }
    approver = Recorder("approved")
    async with paddock.Agent(
        None, profile=profile, approver=approver, approval_policy="on-failure", cwd=str(project)
    ) as tools:
        # The command names nothing for certain, so that nothing less than no sandbox would do.
        vague = await exec_command(tools, cmd="mkdir -p a/b")
        read = await exec_command(tools, cmd="cat secret")
        escalated = await tools.call(
            "exec_command", {"cmd": "cat secret", "sandbox_permissions": "require_escalated"}
        )
    assert approver.requests == []
    assert (vague.exit_code, read.exit_code) == (1, 1)
    assert "key" not in read.output
    assert escalated.is_error
    assert hidden.read_text() == "key\n"


async def test_confined_command_can_not_reach_the_socket_of_its_questions(project: Path) -> None:
    script = "ls $PADDOCK_RUNTIME_DIR 2> /dev/null | grep -c ask$"
    seen = []
    async with paddock.ConsoleApprover() as ask:
        for profile in (":workspace", ":danger-full-access"):
            async with paddock.Agent(None, profile=profile, approver=ask, cwd=str(project)) as tools:
                reply = await exec_command(tools, cmd=script)
            seen.append(reply.output.splitlines()[-1])
    # Inside there is none, outside there is.
    assert seen == ["0", "1"]


async def test_command_outlives_its_call_and_is_typed_to(place: str | paddock.Box | None) -> None:
    async with paddock.Agent(place) as tools:
        first = await exec_command(
            tools, cmd="read word; echo got $word; read word", tty=True, yield_time_ms=250
        )
        assert first.exit_code is None
        second = await tools.call(
            "write_stdin",
            {
                "session_id": first.session_id,
                "chars": "abc\n",
                "yield_time_ms": 30_000,
                "wait_for": {"pattern": "got abc"},
            },
        )
        assert "got abc" in second.text
        third = await tools.call("write_stdin", {"session_id": first.session_id, "chars": "\x03"})
        assert isinstance(third, ExecReply)
        assert third.exit_code == 130
        fourth = await tools.call("write_stdin", {"session_id": first.session_id})
        assert fourth.is_error
        assert "exit code 130" in fourth.text


async def test_command_without_terminal_is_interrupted_by_a_signal(place: str | paddock.Box | None) -> None:
    async with paddock.Agent(place) as tools:
        first = await exec_command(
            tools, cmd="echo ready; exec sleep 1000", wait_for={"pattern": "ready"}, yield_time_ms=30_000
        )
        assert first.session_id is not None
        typed = await tools.call("write_stdin", {"session_id": first.session_id, "chars": "x"})
        assert typed.is_error
        ended = await tools.call(
            "write_stdin", {"session_id": first.session_id, "chars": "\x03", "yield_time_ms": 30_000}
        )
        assert isinstance(ended, ExecReply)
        assert ended.exit_code == 130


async def test_sixty_four_commands_are_kept_and_the_least_used_makes_room() -> None:
    async with served() as server, paddock.Agent(server.url, profile=":danger-full-access") as tools:
        arguments = {"cmd": "exec sleep 1000", "yield_time_ms": 250}
        started = await asyncio.gather(*(tools.call("exec_command", arguments) for _ in range(PROCESS_LIMIT)))
        assert all(isinstance(reply, ExecReply) and reply.session_id is not None for reply in started)
        oldest = tools.sessions[0]
        await exec_command(tools, **arguments)
        assert len(tools.sessions) == PROCESS_LIMIT
        # It is really gone: its executor tells how it ended.
        assert await oldest.live.exited_within(30)
        assert oldest.live.ending is not None
        assert oldest.live.ending.exit_code == 137
        gone = await tools.call("write_stdin", {"session_id": oldest.session_id})
    assert "made room" in gone.text


async def test_stdin_is_all_that_a_command_reads(place: str | paddock.Box | None) -> None:
    async with paddock.Agent(place) as tools:
        given = await exec_command(tools, cmd="wc -c", stdin="x" * 300_000)
        nothing = await exec_command(tools, cmd="wc -c")
    assert (given.output, nothing.output) == ("300000\n", "0\n")


async def test_cancelled_call_leaves_its_command_running() -> None:
    async with paddock.Agent(None) as tools:
        events = tools.events()
        call = asyncio.create_task(tools.call("exec_command", {"cmd": "echo here; read x", "tty": True}))
        await output_seen(events)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        [session] = tools.sessions
        arguments = {"session_id": session.session_id, "chars": "\n", "yield_time_ms": 30_000}
        reply = await tools.call("write_stdin", arguments)
    assert isinstance(reply, ExecReply)
    assert reply.exit_code == 0
    assert "here" in reply.output


async def test_files_are_read_and_changed_under_the_profile(
    place: str | paddock.Box | None, project: Path
) -> None:
    (project / "app.py").write_text("def run():\n    pass\n")
    approver = Recorder("approved")
    async with paddock.Agent(place, approver=approver, cwd=str(project)) as tools:
        read = await tools.call("read_file", {"path": "app.py"})
        edited = await tools.call("edit_file", {"path": "app.py", "old": "pass", "new": "return 1"})
        found = await tools.call("search_files", {"pattern": "return"})
        patch = "*** Begin Patch\n*** Update File: app.py\n@@\n-    return 1\n+    return 2\n"
        patch += "*** Add File: new/notes.txt\n+one\n*** End Patch"
        patched = await tools.call("apply_patch", {"input": patch})
        listed = await tools.call("list_files", {"depth": 2})
    assert approver.requests == []
    assert read.text == "1\tdef run():\n2\t    pass"
    assert "+    return 1" in edited.text
    assert found.text == "app.py:2:     return 1"
    assert patched.text == "M app.py\nA new/notes.txt"
    assert (project / "app.py").read_text() == "def run():\n    return 2\n"
    assert {"app.py", "new/", "new/notes.txt"} <= set(listed.text.splitlines())


async def test_changes_of_one_file_at_one_time_are_all_made(
    place: str | paddock.Box | None, project: Path
) -> None:
    (project / "list").write_text("one\ntwo\nthree\nfour\n")
    async with paddock.Agent(place, approver=Recorder("approved"), cwd=str(project)) as tools:
        patches = [
            tools.call(
                "apply_patch",
                {"input": f"*** Begin Patch\n*** Update File: list\n@@\n-{old}\n+{new}\n*** End Patch"},
            )
            for old, new in (("one", "1"), ("two", "2"))
        ]
        edits = [
            tools.call("edit_file", {"path": "list", "old": old, "new": new})
            for old, new in (("three", "3"), ("four", "4"))
        ]
        await asyncio.gather(*patches, *edits)
    assert (project / "list").read_text() == "1\n2\n3\n4\n"


async def test_file_outside_of_the_workspace_is_asked_for(
    place: str | paddock.Box | None, project: Path
) -> None:
    (project / "inside").mkdir()
    outside = project / "outside.txt"
    outside.write_text("old\n")
    arguments = {"path": str(outside), "old": "old", "new": "new"}
    refusing, approving = Recorder("denied"), Recorder("approved")
    for approver in (refusing, approving):
        async with paddock.Agent(place, approver=approver, cwd=str(project / "inside")) as tools:
            reply = await tools.call("edit_file", arguments)
        [request] = approver.requests
        assert str(outside) in request.changes[0]
        assert reply.is_error == (approver is refusing)
        assert outside.read_text() == ("old\n" if approver is refusing else "new\n")


@pytest.mark.parametrize(
    "plant",
    [
        "is a large script",
        "is a script of env with options",
        "is a script of a script",
        "is a link to a link",
        "is found behind one that can't be executed",
    ],
)
@pytest.mark.parametrize("is_planted", [True, False])
async def test_rule_lets_out_no_program_that_leads_into_the_workspace(
    plant: str, is_planted: bool, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the way: the same line is let out unasked if nothing on its way can be written inside."""
    work, outside, opt = project / "work", project / "outside", project / "opt"
    for directory in (work, outside, opt / "first", opt / "sound"):
        directory.mkdir(parents=True)
    place = work if is_planted else opt / "sound"
    # As good as any interpreter: it runs the script.
    (opt / "sound" / "py").symlink_to("/bin/sh")
    (work / "py").symlink_to("/bin/sh")
    script = f"#!{place}/py\n: > {outside}/done\n"

    def install(path: Path, content: str, mode: int = 0o755) -> None:
        path.write_text(content)
        path.chmod(mode)

    tool = opt / "first" / "tool"
    match plant:
        case "is a large script":
            install(tool, script + "#" * 300 * 1024)
        case "is a script of env with options":
            # Without options where it is to be let out: Paddock reads none.
            options = "-S -u FOO " if is_planted else ""
            install(tool, script.replace("#!", f"#!/usr/bin/env {options}"))
        case "is a script of a script":
            install(tool, f"#!{opt}/first/shim\n")
            install(opt / "first" / "shim", script)
        case "is a link to a link":
            install(opt / "sound" / "tool", script.replace(str(place), str(opt / "sound")))
            (place / "link").symlink_to(opt / "sound" / "tool")
            tool.symlink_to(place / "link")
        case _:
            install(tool, script, 0o644)
            install(place / "tool", script)
    monkeypatch.setenv("PATH", f"{opt}/first:/usr/bin:/bin:{place}")
    rule = PrefixRule((("tool",),), Action.ALLOW, Origin("test.rules", 1))
    answers = Recorder("denied")
    async with paddock.Agent(rules=Policy([rule]), approver=answers, cwd=str(work)) as tools:
        assert (await exec_command(tools, cmd=f"echo > {outside}/done")).exit_code != 0
        free = {"cmd": "tool", "sandbox_permissions": "require_escalated"}
        assert (await tools.call("exec_command", free)).is_error == is_planted
    assert os.listdir(outside) == ([] if is_planted else ["done"])
    assert len(answers.requests) == is_planted
