"""A `SandboxAgent` of the OpenAI Agents SDK with a scripted model, in a Paddock sandbox."""

from __future__ import annotations

import asyncio
import io
import json
import re
import sys
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest_asyncio
from agents import RunConfig, Runner
from agents.sandbox import Manifest, SandboxAgent, SandboxRunConfig
from agents.sandbox.capabilities import Filesystem, Shell
from agents.sandbox.snapshot import LocalSnapshotSpec
from agents.testing import ScriptedModel, assistant_message, function_call
from openai.types.responses import ResponseCustomToolCall

from paddock.adapters.openai_agents import PaddockSandboxClient
from paddock.adapters.openai_rules import ShellRules
from paddock.agent.command_rules import CommandRules
from paddock.model.decision import Action, Origin
from paddock.rules.policy import Policy
from paddock.rules.rule import PrefixRule
from tests.ecosystem.conftest import Server
from tests.ecosystem.pages import run_page
from tests.ecosystem.refusal import is_refusal
from tests.ecosystem.way import TOKEN

ACT = "Do it another way, or ask the user; trying again changes nothing."


@pytest_asyncio.fixture
async def session(server: Server) -> AsyncIterator[Any]:
    client = PaddockSandboxClient(server.target)
    session = await client.create()
    await session.start()
    yield session
    await client.delete(session)


async def told(session: Any, *calls: tuple[str, dict[str, Any]], shell: Shell | None = None) -> list[str]:
    """What the model reads after each of its calls."""
    script: list[Any] = [
        [function_call(name, arguments, call_id=str(number))]
        for number, (name, arguments) in enumerate(calls)
    ]
    agent = SandboxAgent(
        name="a",
        model=ScriptedModel([*script, [assistant_message("done")]]),
        capabilities=[Filesystem(), shell or Shell()],
    )
    result = await Runner.run(
        agent, "begin", run_config=RunConfig(sandbox=SandboxRunConfig(session=session), tracing_disabled=True)
    )
    return [str(item.output) for item in result.new_items if item.type == "tool_call_output_item"]


async def test_a_command_works_and_a_write_to_etc_is_refused_and_explained(session: Any) -> None:
    written, refused = await told(
        session,
        ("exec_command", {"cmd": "echo hello > note; cat note"}),
        ("exec_command", {"cmd": "touch /etc/paddock-no"}),
    )
    assert "hello" in written
    assert is_refusal(refused)
    assert not await (await session._inner.workspace.path("/etc/paddock-no")).exists()


async def test_a_terminal_is_written_to_across_calls(session: Any) -> None:
    command = {"cmd": "read line; echo got $line", "tty": True, "yield_time_ms": 250}
    (started,) = await told(session, ("exec_command", command))
    number = int(started.split("session ID ")[1].split()[0])
    (ended,) = await told(
        session, ("write_stdin", {"session_id": number, "chars": "word\n", "yield_time_ms": 5000})
    )
    assert "got word" in ended


async def test_files_are_requests_and_not_commands(session: Any, requests: Counter[str]) -> None:
    inner = session._inner
    root = inner.state.manifest.root
    requests.clear()
    await inner.write(Path(root, "a", "file"), io.BytesIO(b"text"))
    assert (await inner.read(Path(root, "a", "file"))).read() == b"text"
    await inner.rm(Path(root, "a"), recursive=True)
    assert requests["process/start"] == 0
    assert requests["fs/readFile"] == 1


async def test_a_patch_changes_files_without_a_command(session: Any, requests: Counter[str]) -> None:
    inner = session._inner
    await inner.workspace.write_bytes("file.txt", b"one\ntwo\n")
    requests.clear()
    await inner.apply_patch({"type": "update_file", "path": "file.txt", "diff": "@@\n one\n-two\n+three\n"})
    assert await inner.workspace.read_bytes("file.txt") == b"one\nthree\n"
    assert requests["process/start"] == 0


async def test_a_model_patches_files_and_is_told_of_a_path_that_is_not_its_own(
    session: Any, requests: Counter[str]
) -> None:
    def patch(number: int, path: str) -> ResponseCustomToolCall:
        text = f"*** Begin Patch\n*** Add File: {path}\n+hello\n*** End Patch\n"
        return ResponseCustomToolCall(
            type="custom_tool_call", name="apply_patch", input=text, call_id=str(number)
        )

    steps = [[patch(1, "note.txt")], [patch(2, "/etc/paddock-no")], [assistant_message("done")]]
    agent = SandboxAgent(name="a", model=ScriptedModel(steps), capabilities=[Filesystem()])
    config = RunConfig(sandbox=SandboxRunConfig(session=session), tracing_disabled=True)
    requests.clear()
    ended = await Runner.run(agent, "begin", run_config=config)
    read = [str(item.output) for item in ended.new_items if item.type == "tool_call_output_item"]
    assert await session._inner.workspace.read_bytes("note.txt") == b"hello"
    assert read[1] == "apply_patch path must not escape root: /etc/paddock-no"
    assert requests["process/start"] == 0


async def test_a_model_is_told_in_the_same_words_of_every_change_that_a_patch_may_not_make(
    tmp_path: Path, server: Server
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text("a\n")
    changes = {
        "config": "Update File: .git/config\n@@\n-a\n+b",
        "hook": "Add File: .git/hook\n+x",
        "hooks": "Add File: .git/hooks/post-commit\n+x",
        "config again": "Delete File: .git/config",
    }
    steps = [
        [
            ResponseCustomToolCall(
                type="custom_tool_call",
                name="apply_patch",
                input=f"*** Begin Patch\n*** {change}\n*** End Patch\n",
                call_id=name,
            )
        ]
        for name, change in changes.items()
    ]
    client = PaddockSandboxClient(server.target)
    session = await client.create(manifest=Manifest(root=str(tmp_path)))
    agent = SandboxAgent(
        name="a",
        model=ScriptedModel([*steps, [assistant_message("done")]]),
        capabilities=[Filesystem()],
    )
    config = RunConfig(sandbox=SandboxRunConfig(session=session), tracing_disabled=True)
    ended = await Runner.run(agent, "begin", run_config=config)
    await client.delete(session)

    read = [str(item.output) for item in ended.new_items if item.type == "tool_call_output_item"]
    advice = f"Work in {tmp_path}, or ask the user to grant more; trying again changes nothing."
    assert read == [
        f"The sandbox denied: write {tmp_path}/.git/{name.split()[0]}. {advice}" for name in changes
    ]
    assert (tmp_path / ".git" / "config").read_text() == "a\n"


async def test_a_session_whose_directory_is_gone_resumes_from_its_snapshot(
    tmp_path: Path, server: Server
) -> None:
    client = PaddockSandboxClient(server.target)
    session = await client.create(snapshot=LocalSnapshotSpec(base_path=tmp_path))
    await session.start()
    await session._inner.workspace.write_bytes("a/note", b"kept")
    await session.stop()
    known = session._inner.state.model_dump(mode="json")
    await client.delete(session)

    again = await client.resume(client.deserialize_session_state(known))
    await again.start()
    assert await again._inner.workspace.read_bytes("a/note") == b"kept"
    assert again._inner.state.manifest.root != known["manifest"]["root"]
    await client.delete(again)


async def test_rules_refuse_a_command_or_have_somebody_asked_and_the_model_reads_why(session: Any) -> None:
    rules = ShellRules(
        CommandRules(
            Policy(
                (
                    PrefixRule((("git",), ("push",)), Action.PROMPT, Origin("team.rules", 1)),
                    PrefixRule((("reboot",),), Action.FORBIDDEN, Origin("team.rules", 2), "not here"),
                )
            )
        )
    )
    lines: list[dict[str, Any]] = [
        {"cmd": "echo fine"},
        {"cmd": "reboot now"},
        {"cmd": "now", "shell": "reboot"},
        {"cmd": "echo git; git push"},
    ]
    agent = SandboxAgent(
        name="a",
        model=ScriptedModel(
            [
                *([function_call("exec_command", line, call_id=str(at))] for at, line in enumerate(lines)),
                [assistant_message("done")],
            ]
        ),
        capabilities=[Shell(configure_tools=rules)],
    )
    config = RunConfig(sandbox=SandboxRunConfig(session=session), tracing_disabled=True)
    stopped = await Runner.run(agent, "begin", run_config=config)
    (interruption,) = stopped.interruptions
    state = stopped.to_state()
    state.reject(interruption, rejection_message=rules.refusal(interruption))
    ended = await Runner.run(agent, state, run_config=config)

    assert ended.final_output == "done"
    read = [str(item.output) for item in ended.new_items if item.type == "tool_call_output_item"]
    assert read[0].endswith("fine\n")
    assert read[1] == "Not done: `reboot now` is forbidden by team.rules:2: not here. " + ACT
    assert "is forbidden by team.rules:2: not here. " + ACT in read[2]
    assert read[3].startswith("Not approved: `git push` requires approval by team.rules:1. Do it another way")


async def test_an_approved_command_runs(session: Any) -> None:
    rule = PrefixRule((("echo",),), Action.PROMPT, Origin("team.rules", 1))
    agent = SandboxAgent(
        name="a",
        model=ScriptedModel(
            [
                [function_call("exec_command", {"cmd": "echo approved"}, call_id="1")],
                [assistant_message("done")],
            ]
        ),
        capabilities=[Shell(configure_tools=ShellRules(CommandRules(Policy((rule,)))))],
    )
    config = RunConfig(sandbox=SandboxRunConfig(session=session), tracing_disabled=True)
    stopped = await Runner.run(agent, "begin", run_config=config)
    state = stopped.to_state()
    state.approve(stopped.interruptions[0])
    ended = await Runner.run(agent, state, run_config=config)
    assert (
        "approved\n" in [item.output for item in ended.new_items if item.type == "tool_call_output_item"][-1]
    )


async def test_a_terminal_keeps_a_bounded_part_of_its_output_and_says_what_is_missing(session: Any) -> None:
    (said,) = await told(session, ("exec_command", {"cmd": "yes | head -c 3000000; echo end", "tty": True}))
    assert re.search(r"\[… \d{7} bytes are left out …\]", said)
    assert said.endswith("end\r\n")


async def test_a_shell_that_does_not_exist_is_told_and_not_raised(session: Any) -> None:
    (said,) = await told(session, ("exec_command", {"cmd": "true", "shell": "/no/shell"}))
    assert "Process exited with code 127" in said
    assert "/no/shell" in said


async def test_another_process_resumes_by_the_state(shared_server: Server) -> None:
    client = PaddockSandboxClient(shared_server.target)
    session = await client.create()
    inner = session._inner
    await inner.workspace.write_bytes("note", b"from here")
    script = """
import asyncio, json, sys
import paddock
from paddock.adapters.openai_agents import PaddockSandboxClient
async def main():
    state, url, token, tls_ca = json.loads(sys.argv[1])
    client = PaddockSandboxClient(paddock.connect(url, token=token, tls_ca=tls_ca))
    session = await client.resume(client.deserialize_session_state(state))
    print((await session._inner.workspace.read_bytes("note")).decode())
    await session._inner.workspace.aclose()
asyncio.run(main())
"""
    token = None if shared_server.token_file is None else TOKEN
    known = [inner.state.model_dump(mode="json"), shared_server.url, token, shared_server.tls_ca]
    command = [sys.executable, "-c", script, json.dumps(known)]
    other = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert (await other.communicate())[0] == b"from here\n"
    await client.delete(session)


async def test_a_snapshot_comes_back_in_another_session(session: Any, server: Server) -> None:
    await session._inner.workspace.write_bytes("a/b", b"kept")
    archive = await session._inner.persist_workspace()
    client = PaddockSandboxClient(server.target)
    other = await client.create()
    await other._inner.hydrate_workspace(archive)
    assert await other._inner.workspace.read_bytes("a/b") == b"kept"
    await client.delete(other)


def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    run_page("openai-agents", tmp_path)
