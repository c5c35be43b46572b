"""Calls that take long become tasks, for clients that know them: on the stateless wire itself."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import httpx2

from paddock.config import Settings
from paddock.mcp_server.catalogue import ALL_TOOLS
from paddock.mcp_server.http import HttpSessions, application
from paddock.mcp_server.service import Service, offered
from paddock.mcp_server.session import Session
from paddock.mcp_server.workplace import Terms
from paddock.server.http_listener import HttpListener
from tests.life_line import LifeLine
from tests.mcp_client import META, rules_file, workplace

VERSION = "2026-07-28"
EXTENSION = "io.modelcontextprotocol/tasks"


class Stateless:
    """Requests of a client that knows tasks and can be asked, or does not."""

    def __init__(self, http: httpx2.AsyncClient, *, knows_tasks: bool = True) -> None:
        self._http = http
        self._ids = count(1)
        self._extensions: dict[str, Any] = {EXTENSION: {}} if knows_tasks else {}

    async def ask(self, method: str, header: str, **params: Any) -> dict[str, Any]:
        """The result of a request, or its error."""
        meta = {
            f"{META}/protocolVersion": VERSION,
            f"{META}/clientInfo": {"name": "test", "version": "0"},
            f"{META}/clientCapabilities": {"elicitation": {}, "extensions": self._extensions},
        }
        answer = await self._http.post(
            "/mcp",
            json={
                "jsonrpc": "2.0",
                "id": next(self._ids),
                "method": method,
                "params": {**params, "_meta": meta},
            },
            headers={
                "Accept": "application/json, text/event-stream",
                "MCP-Protocol-Version": VERSION,
                "Mcp-Method": method,
                "Mcp-Name": header,
            },
        )
        body: dict[str, Any] = answer.json()
        found: dict[str, Any] = body.get("result") or body["error"]
        return found

    async def call(self, command: str, workspace: Path) -> dict[str, Any]:
        arguments = {
            "command": command,
            "workdir": str(workspace),
            "login": False,
            "timeout_ms": 600_000,
        }
        return await self.ask("tools/call", "shell", name="shell", arguments=arguments)

    async def task(self, task_id: str, status: str) -> dict[str, Any]:
        """A task, once it has this status."""
        while (found := await self.ask("tasks/get", task_id, taskId=task_id))["status"] != status:
            assert found["status"] in ("working", "input_required"), found
        return found


@asynccontextmanager
async def stateless(
    url: str, workspace: Path, rules: Path | None = None, *, knows_tasks: bool = True, after_s: float = 0.0
) -> AsyncIterator[Stateless]:
    async with workplace(url, rules) as shared:
        terms = Terms(profile=":workspace", tools=tuple(ALL_TOOLS), workspace=str(workspace))
        sessions = HttpSessions(lambda: Session(shared, terms))
        service = Service(offered(terms.tools), sessions.of, task_after_s=after_s)
        guard = application(service, HttpListener(Settings()), 80, sessions)
        transport = httpx2.ASGITransport(app=guard)
        try:
            async with (
                service.server.session_manager.run(),
                httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=50) as http,
            ):
                yield Stateless(http, knows_tasks=knows_tasks)
        finally:
            await sessions.aclose()


async def test_long_call_is_a_task_whose_result_is_that_of_the_call(url: str, workspace: Path) -> None:
    os.mkfifo(workspace / "gate")
    async with stateless(url, workspace) as client:
        begun = await client.call("cat gate; exit 3", workspace)
        assert (begun["resultType"], begun["status"]) == ("task", "working")
        assert begun["ttlMs"] > 0
        await asyncio.to_thread((workspace / "gate").write_text, "through\n")
        task = await client.task(begun["taskId"], "completed")
    told = task["result"]["structuredContent"]
    assert (told["output"], told["exit_code"], task["result"]["isError"]) == ("through\n", 3, False)


async def test_task_asks_its_client_and_goes_on_with_the_answer(
    url: str, workspace: Path, tmp_path: Path
) -> None:
    async with stateless(url, workspace, rules_file(tmp_path)) as client:
        begun = await client.call("git init -q x; echo rc=$?", workspace)
        asking = await client.task(begun["taskId"], "input_required")
        [(key, request)] = asking["inputRequests"].items()
        assert request["method"] == "elicitation/create"
        answer = {key: {"action": "accept", "content": {}}}
        await client.ask("tasks/update", begun["taskId"], taskId=begun["taskId"], inputResponses=answer)
        task = await client.task(begun["taskId"], "completed")
    assert task["result"]["structuredContent"]["output"] == "rc=0\n"


async def test_cancelled_task_leaves_nothing_running(url: str, workspace: Path) -> None:
    life_line = LifeLine(workspace)
    try:
        async with stateless(url, workspace) as client:
            begun = await client.call(f"{life_line.hold} sleep 600", workspace)
            await life_line.held()
            await client.ask("tasks/cancel", begun["taskId"], taskId=begun["taskId"])
            await client.task(begun["taskId"], "cancelled")
            await life_line.cut()
    finally:
        life_line.close()


async def test_client_that_does_not_know_tasks_gets_the_result_itself(url: str, workspace: Path) -> None:
    async with stateless(url, workspace, knows_tasks=False) as client:
        done = await client.call("echo hi", workspace)
    assert done["structuredContent"]["output"] == "hi\n"


async def test_task_that_is_not_there_is_a_clear_error(url: str, workspace: Path) -> None:
    async with stateless(url, workspace) as client:
        assert (await client.ask("tasks/get", "none", taskId="none"))["code"] == -32602


async def test_client_that_did_not_declare_tasks_is_told_what_it_lacks(url: str, workspace: Path) -> None:
    async with stateless(url, workspace, knows_tasks=False) as client:
        refused = await client.ask("tasks/get", "none", taskId="none")
    assert (refused["code"], refused["data"]["requiredCapabilities"]["extensions"]) == (
        -32021,
        {EXTENSION: {}},
    )


async def test_name_of_a_task_in_the_header_must_be_that_in_the_body(url: str, workspace: Path) -> None:
    os.mkfifo(workspace / "gate")
    async with stateless(url, workspace) as client:
        begun = await client.call("cat gate", workspace)
        assert (await client.ask("tasks/get", "other", taskId=begun["taskId"]))["code"] == -32020
        assert (await client.ask("tasks/get", begun["taskId"], taskId=begun["taskId"]))["status"] == "working"


async def test_answer_that_cannot_be_read_leaves_the_question_open(
    url: str, workspace: Path, tmp_path: Path
) -> None:
    async with stateless(url, workspace, rules_file(tmp_path)) as client:
        begun = await client.call("git init -q x; echo rc=$?", workspace)
        task_id = begun["taskId"]
        [key] = (await client.task(task_id, "input_required"))["inputRequests"]
        unreadable: list[dict[str, Any]] = [{key: 5}, {key: {"roots": []}}, {"other": {"action": "accept"}}]
        for answers in unreadable:
            await client.ask("tasks/update", task_id, taskId=task_id, inputResponses=answers)
        assert (await client.ask("tasks/get", task_id, taskId=task_id))["status"] == "input_required"
