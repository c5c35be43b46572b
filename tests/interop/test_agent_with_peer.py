"""The tools of an agent on the peer's server, which tells that a sandbox denied something, and not what."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import paddock
from paddock.agent.reply import ExecReply
from tests.interaction.cutting_proxy import CuttingProxy
from tests.interop.peer_profile import WORKSPACE_ALONE


async def test_denied_write_is_asked_for_and_succeeds_when_approved(peer_url: str, tmp_path: Path) -> None:
    requests = []

    async def approve(request: paddock.ApprovalRequest) -> str:
        requests.append(request)
        return "approved"

    async with paddock.Agent(
        peer_url, profile=":read-only", approver=approve, approval_policy="on-failure", cwd=str(tmp_path)
    ) as tools:
        reply = await tools.call("exec_command", {"cmd": "echo new > notes.txt && cat notes.txt"})
    assert isinstance(reply, ExecReply), reply.text
    assert (reply.exit_code, reply.output) == (0, "new\n")
    [request] = requests
    assert "without a sandbox" in request.changes[0]


async def test_workspace_is_written_without_a_question(peer_url: str, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("x = 1\n")
    async with paddock.Agent(peer_url, profile=WORKSPACE_ALONE, cwd=str(tmp_path)) as tools:
        ran = await tools.call("exec_command", {"cmd": "echo hello > out.txt; cat app.py"})
        edited = await tools.call("edit_file", {"path": "app.py", "old": "1", "new": "2"})
        wrong = await tools.call("edit_file", {"path": "app.py", "old": "1", "new": "2"})
        patch = "*** Begin Patch\n*** Update File: app.py\n@@\n-x = 2\n+x = 3\n*** End Patch"
        patched = await tools.call("apply_patch", {"input": patch})
        read = await tools.call("read_file", {"path": "app.py"})
        stdin = await tools.call("exec_command", {"cmd": "cat", "stdin": "x"})
    assert "x = 1" in ran.text
    assert "+x = 2" in edited.text
    assert wrong.is_error
    assert (patched.text, read.text) == ("M app.py", "1\tx = 3")
    assert (tmp_path / "out.txt").read_text() == "hello\n"
    # It can't let a command read the end of its input, which is told before anything runs.
    assert stdin.is_error


async def test_denied_write_that_nobody_approves_stays_denied(peer_url: str, tmp_path: Path) -> None:
    async with paddock.Agent(
        peer_url, profile=":read-only", approval_policy="on-failure", cwd=str(tmp_path)
    ) as tools:
        reply = await tools.call("exec_command", {"cmd": "echo new > notes.txt"})
    assert reply.exit_code not in (0, None)
    assert any("refused" in note for note in reply.notes)
    assert os.listdir(tmp_path) == []


async def test_connection_that_is_cut_in_the_middle_of_a_call_is_made_again_within_it(
    peer_url: str, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    async with CuttingProxy(peer_url) as proxy, paddock.Agent(proxy.url, cwd=str(tmp_path)) as tools:
        events = tools.events()
        arguments = {"cmd": f"echo here; read x < {gate}; echo after", "yield_time_ms": 30_000}
        call = asyncio.create_task(tools.call("exec_command", arguments))
        async for event in events:
            if isinstance(event, paddock.ExecCommandOutputDelta):
                break
        proxy.break_all()
        await asyncio.to_thread(gate.write_text, "\n")
        reply = await call
    assert (reply.exit_code, reply.output) == (0, "here\nafter\n")


async def test_terminal_is_typed_to(peer_url: str) -> None:
    async with paddock.Agent(peer_url) as tools:
        first = await tools.call(
            "exec_command",
            {"cmd": "echo ready; read word; echo got $word", "tty": True, "wait_for": {"pattern": "ready"}},
        )
        second = await tools.call(
            "write_stdin",
            {"session_id": first.session_id, "chars": "abc\n", "yield_time_ms": 30_000},
        )
    assert second.exit_code == 0
    assert "got abc" in second.output


async def test_command_outlives_its_call_and_is_interrupted(peer_url: str) -> None:
    async with paddock.Agent(peer_url) as tools:
        first = await tools.call(
            "exec_command",
            {"cmd": "echo ready; exec sleep 1000", "yield_time_ms": 30_000, "wait_for": {"pattern": "ready"}},
        )
        assert isinstance(first, ExecReply), first.text
        second = await tools.call(
            "write_stdin", {"session_id": first.session_id, "chars": "\x03", "yield_time_ms": 30_000}
        )
    assert isinstance(second, ExecReply), second.text
    assert second.exit_code is not None
