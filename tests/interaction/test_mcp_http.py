"""`paddock mcp --listen`: who may come in, and the same tools for both eras."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitRequestParams, ElicitResult

from tests.life_line import LifeLine
from tests.mcp_client import (
    ERAS,
    META,
    Answer,
    Answers,
    accept,
    client_of,
    each_era,
    fields,
    rules_file,
    text,
)

TOKEN = "t" * 40
STOP_TIMEOUT_S = 20.0


@pytest.fixture(scope="module")
def workspace() -> Iterator[Path]:
    # Not in /tmp, which the profile of a workspace lets every command write.
    with tempfile.TemporaryDirectory(prefix="paddock-mcp-", dir="/var/tmp") as directory:
        yield Path(directory)


@pytest.fixture(scope="module")
def token(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("mcp") / "token"
    file.write_text(TOKEN)
    file.chmod(0o600)
    return file


@pytest.fixture(scope="module")
def url(workspace: Path, token: Path) -> Iterator[str]:
    rules = rules_file(token.parent)
    with listening("--workspace", workspace, "--rules", rules, "--listen-token-file", token) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.terminate()
        assert server.wait(STOP_TIMEOUT_S) == 0


def listening(*arguments: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "paddock.cli.main",
            "mcp",
            "--listen",
            "http://127.0.0.1:0",
            *map(str, arguments),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )


@asynccontextmanager
async def authorized(url: str, era: str, answer: Answer | None = None) -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60) as http,
        client_of(streamable_http_client(url, http_client=http), era, answer) as client,
    ):
        yield client


class Stateless:
    """A client of the stateless revision that can be asked, and numbers its requests as a test wants."""

    def __init__(self, http: httpx2.AsyncClient, url: str, program: str = "test") -> None:
        self._http = http
        self._url = url
        self._headers = {
            "Authorization": f"Bearer {TOKEN}",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": ERAS[1],
            "User-Agent": program,
        }

    async def call(self, request_id: int, arguments: dict[str, Any], **params: Any) -> dict[str, Any]:
        """Call `shell`; return the result or the error."""
        meta = {
            f"{META}/protocolVersion": ERAS[1],
            f"{META}/clientInfo": {"name": "test", "version": "0"},
            f"{META}/clientCapabilities": {"elicitation": {}},
        }
        params |= {"name": "shell", "arguments": arguments, "_meta": meta}
        message = {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}
        routing = {"Mcp-Method": "tools/call", "Mcp-Name": "shell"}
        answer = await self._http.post(self._url, json=message, headers=self._headers | routing)
        told: dict[str, Any] = answer.json()
        found: dict[str, Any] = told.get("result") or told["error"]
        return found

    async def answer(self, request_id: int, arguments: dict[str, Any], asked: dict[str, Any]) -> Any:
        """Repeat a call that asked something, with a yes."""
        answers = {key: {"action": "accept", "content": {}} for key in asked["inputRequests"]}
        return await self.call(
            request_id, arguments, requestState=asked["requestState"], inputResponses=answers
        )

    async def cancel(self, request_id: int) -> None:
        message = {
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": {"requestId": request_id},
        }
        answer = await self._http.post(self._url, json=message, headers=self._headers)
        assert answer.status_code == 202


def call(command: str, workspace: Path, **more: object) -> dict[str, Any]:
    return {"command": command, "workdir": str(workspace), "login": False, **more}


@each_era
async def test_tools_are_listed_and_called(era: str, url: str, workspace: Path) -> None:
    async with authorized(url, era) as client:
        assert len((await client.list_tools()).tools) == 8
        told = fields(await client.call_tool("shell", call("echo hi", workspace)))
    assert told["output"] == "hi\n"


@each_era
async def test_question_goes_to_the_client_and_the_command_goes_on(
    era: str, url: str, workspace: Path
) -> None:
    answers = Answers(accept())
    async with authorized(url, era, answers) as client:
        told = fields(await client.call_tool("shell", call(f"git init -q {era}; echo rc=$?", workspace)))
    assert told["output"] == "rc=0\n"
    assert len(answers.questions) == 1


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": f"Bearer {TOKEN}", "Origin": "http://evil.example"}, 403),
        ({"Authorization": f"Bearer {TOKEN}", "Origin": "null"}, 403),
        ({"Authorization": f"Bearer {TOKEN}", "Host": "evil.example:80"}, 403),
        ({"Authorization": f"Bearer {TOKEN}"}, 400),
    ],
)
async def test_stranger_is_turned_away(url: str, headers: dict[str, str], status: int) -> None:
    async with httpx2.AsyncClient() as http:
        answer = await http.post(url, json={}, headers=headers)
    assert answer.status_code == status


async def test_sessions_of_the_handshake_era_do_not_see_each_others_commands(
    url: str, workspace: Path
) -> None:
    async with authorized(url, ERAS[0]) as one, authorized(url, ERAS[0]) as other:
        started = fields(
            await one.call_tool("exec_command", {"cmd": "read x", "tty": True, "yield_time_ms": 250})
        )
        number = started["session_id"]
        foreign = await other.call_tool("write_stdin", {"session_id": number, "chars": "x\n"})
        ended = fields(await one.call_tool("write_stdin", {"session_id": number, "chars": "x\n"}))
    assert foreign.is_error
    assert ended["exit_code"] == 0


async def test_session_that_its_client_ends_takes_its_commands_along(url: str, workspace: Path) -> None:
    life_line = LifeLine(workspace)
    try:
        async with authorized(url, ERAS[0]) as client:
            await client.call_tool(
                "exec_command", {"cmd": f"{life_line.hold} sleep 600", "yield_time_ms": 250}
            )
            await life_line.held()
        await life_line.cut()
    finally:
        life_line.close()
        os.unlink(workspace / "life-line")


async def test_closed_stream_of_a_stateless_request_cancels_it(url: str, workspace: Path) -> None:
    life_line = LifeLine(workspace)
    try:
        async with authorized(url, ERAS[1]) as client:
            command = call(f"{life_line.hold} sleep 600", workspace, timeout_ms=600_000)
            calling = asyncio.create_task(client.call_tool("shell", command))
            await life_line.held()
            calling.cancel()
            await life_line.cut()
    finally:
        life_line.close()
        os.unlink(workspace / "life-line")


@each_era
async def test_cancelling_ends_a_command_that_was_asked_about(era: str, url: str, workspace: Path) -> None:
    life_line = LifeLine(workspace)
    try:
        async with authorized(url, era, Answers(accept())) as client:
            # In the stateless era this closes the stream of the request that brought the answer.
            command = call(f"git init -q c-{era}; {life_line.hold} sleep 600", workspace, timeout_ms=600_000)
            calling = asyncio.create_task(client.call_tool("shell", command))
            await life_line.held()
            calling.cancel()
            await life_line.cut()
    finally:
        life_line.close()
        os.unlink(workspace / "life-line")


async def test_cancelling_during_a_question_leaves_nothing_running(url: str, workspace: Path) -> None:
    asked = asyncio.Event()

    async def silent(params: ElicitRequestParams) -> ElicitResult:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    life_line = LifeLine(workspace)
    try:
        async with authorized(url, ERAS[0], silent) as client:
            command = call(f"{life_line.hold} git init -q never", workspace)
            calling = asyncio.create_task(client.call_tool("shell", command))
            await asked.wait()
            calling.cancel()
            await life_line.cut()
    finally:
        life_line.close()
        os.unlink(workspace / "life-line")
    assert not (workspace / "never").exists()


async def test_stateless_client_cancels_a_call_that_waits_for_its_answer(url: str, workspace: Path) -> None:
    life_line = LifeLine(workspace)
    arguments = call(f"{life_line.hold} git init -q never; sleep 600", workspace, timeout_ms=600_000)
    try:
        async with httpx2.AsyncClient(timeout=50) as http:
            client = Stateless(http, url)
            asked = await client.call(7, arguments)
            assert asked["resultType"] == "input_required"
            await client.cancel(7)
            await life_line.cut()
            late = await client.answer(8, arguments, asked)
    finally:
        life_line.close()
        os.unlink(workspace / "life-line")
    assert "call again" in late["message"]
    assert not (workspace / "never").exists()


async def test_stateless_client_cancels_no_call_that_may_be_another_clients(
    url: str, workspace: Path
) -> None:
    async with httpx2.AsyncClient(timeout=50) as http:
        one, other = Stateless(http, url, "one"), Stateless(http, url, "other")
        first = call("git init -q first; echo rc=$?", workspace)
        asked = await one.call(7, first)
        # The number is the same, but not the client.
        await other.cancel(7)
        await one.cancel(6)
        assert (await one.answer(8, first, asked))["structuredContent"]["output"] == "rc=0\n"
        # A second instance of the same client: the number does not say which of them is meant.
        commands = [call(f"git init -q {name}; echo rc=$?", workspace) for name in ("second", "third")]
        questions = [await one.call(7, arguments) for arguments in commands]
        await one.cancel(7)
        for arguments, asked in zip(commands, questions, strict=True):
            told = await one.answer(8, arguments, asked)
            assert told["structuredContent"]["output"] == "rc=0\n"


def test_address_that_others_can_reach_needs_a_token() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "paddock", "mcp", "--listen", "http://0.0.0.0:0"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "--listen-token-file" in done.stderr
    assert done.stdout == ""


async def test_no_command_reads_the_token_of_the_door(url: str, workspace: Path, token: Path) -> None:
    (token.parent / "other").write_text("readable")
    link = workspace / "link"
    link.symlink_to(token)
    command = f"cat {token.parent}/other {token} {link} 2>&1; true"
    async with authorized(url, ERAS[0]) as client:
        told = text(await client.call_tool("shell", call(command, workspace)))
    assert "readable" in told
    assert TOKEN not in told
    assert TOKEN in link.read_text()
