"""Many calls of `paddock mcp`: at once, one after the other, as tasks, and answered at a console."""

from __future__ import annotations

import asyncio
import json
import os
from asyncio.subprocess import PIPE
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from paddock.agent.approval import ApprovalRequest
from tests.life_line import LifeLine
from tests.mcp_client import connected, each_era, fields, in_process, parameters, rules_file
from tests.processes import children_of, descendants_of, open_descriptors

CALLS_AT_ONCE = 20
SOAK_CALLS = 2000
WARM_UP = 100
GROWTH_LIMIT_BYTES = 20 * 1024 * 1024
LOOK_S = 0.1
"""Between two looks at processes that nobody tells the end of."""


def call(command: str, workspace: Path, **more: object) -> dict[str, Any]:
    return {"command": command, "workdir": str(workspace), "login": False, **more}


@each_era
async def test_twenty_calls_run_side_by_side(era: str, url: str, workspace: Path) -> None:
    # Each waits for all others, so that nothing but calls at the same time can end.
    arrived = f"[ $(ls here.* | wc -l) = {CALLS_AT_ONCE} ]"
    meeting = f"touch here.$N; until {arrived}; do read -t 0.05 <> wait; done; echo $N"
    os.mkfifo(workspace / "wait")
    async with in_process(url, workspace, era) as client:
        told = await asyncio.gather(
            *(
                client.call_tool("shell", call(f"N={number}; {meeting}", workspace, timeout_ms=50_000))
                for number in range(CALLS_AT_ONCE)
            )
        )
    assert [fields(each)["output"] for each in told] == [f"{number}\n" for number in range(CALLS_AT_ONCE)]


async def test_console_answers_in_place_of_a_client_that_cannot(
    url: str, workspace: Path, tmp_path: Path
) -> None:
    asked: list[ApprovalRequest] = []

    async def console(request: ApprovalRequest) -> str:
        asked.append(request)
        return "approved"

    async with in_process(url, workspace, rules=rules_file(tmp_path), console=console) as client:
        told = fields(await client.call_tool("shell", call("git init -q x; echo rc=$?", workspace)))
    assert told["output"] == "rc=0\n"
    assert [request.command for request in asked] == [("/usr/bin/git", "init", "-q", "x")]


async def test_vanished_client_leaves_nothing_running(workspace: Path) -> None:
    life_line = LifeLine(workspace)
    try:
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(connected(parameters("--workspace", workspace)))
            calling = asyncio.create_task(
                client.call_tool("shell", call(f"{life_line.hold} sleep 600", workspace, timeout_ms=600_000))
            )
            await life_line.held()
            [server] = [pid for pid in children_of(os.getpid()) if _is_mcp(pid)]
            os.kill(server, 9)
            await life_line.cut()
            await asyncio.wait((calling,))
    finally:
        life_line.close()


async def test_request_that_can_not_be_read_is_answered_under_its_id(workspace: Path) -> None:
    command = parameters("--workspace", workspace)
    server = await asyncio.create_subprocess_exec(
        command.command, *command.args, env=command.env, stdin=PIPE, stdout=PIPE
    )
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        for line in (
            rb'{"jsonrpc":"2.0","id":"half","method":"tools/call","params":{"arguments":{"command":"\ud800"}}}',
            b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":' + b"9" * 5000 + b"}",
            b'{"jsonrpc":"2.0","id":null,"method":"ping"}',
            b'{"jsonrpc":"2.0","id":true,"method":"ping"}',
            b"[" * 100_000,
            b'{"jsonrpc":"1.0","id":8,"method":"ping"}',
        ):
            server.stdin.write(line + b"\n")
        answers = [json.loads(await server.stdout.readline()) for _ in range(3)]
    finally:
        server.stdin.close()
        await server.wait()
    assert [(answer["id"], answer["error"]["code"]) for answer in answers] == [
        ("half", -32600),
        (7, -32600),
        (8, -32600),
    ]
    assert "hex escape" in answers[0]["error"]["message"]


def _is_mcp(pid: int) -> bool:
    return b"\0mcp\0" in Path(f"/proc/{pid}/cmdline").read_bytes()


@pytest.mark.soak
@pytest.mark.timeout(1800)
async def test_two_thousand_calls_leak_nothing(workspace: Path) -> None:
    async with connected(parameters("--workspace", workspace)) as client:
        [server] = [pid for pid in children_of(os.getpid()) if _is_mcp(pid)]
        before: tuple[int, int, int] | None = None
        for number in range(WARM_UP + SOAK_CALLS):
            if number == WARM_UP:
                before = _uses(server)
            assert fields(await client.call_tool("shell", call("true", workspace)))["exit_code"] == 0
        assert before is not None
        # A call is answered when its command has exited; what is left of its sandbox ends a moment later.
        while (after := _uses(server))[0] > before[0] or after[1] > before[1]:  # noqa: ASYNC110
            await asyncio.sleep(LOOK_S)
    assert after[2] - before[2] < GROWTH_LIMIT_BYTES


def _uses(server: int) -> tuple[int, int, int]:
    """Processes, descriptors and memory of a server and everything below it."""
    family = [server, *descendants_of(server)]
    descriptors = pages = 0
    for pid in family:
        # One of them may end meanwhile.
        with suppress(FileNotFoundError, ProcessLookupError):
            pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
            descriptors += open_descriptors(pid)
    return len(family), descriptors, pages * os.sysconf("SC_PAGE_SIZE")
