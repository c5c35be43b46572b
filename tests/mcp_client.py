"""`paddock mcp`, as a process of its own or in this program, and the official SDK's client before it."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.server.lowlevel import Server
from mcp_types import CallToolResult, ElicitRequestParams, ElicitResult, TextContent

from paddock.agent.approval import Approver
from paddock.agent.command_rules import CommandRules
from paddock.mcp_server.catalogue import ALL_TOOLS
from paddock.mcp_server.service import Service, offered
from paddock.mcp_server.session import Session
from paddock.mcp_server.workplace import ServerAddress, Terms, Workplace
from paddock.rules.loader import load_sound_policy
from paddock.rules.policy import Policy

ERAS = ("legacy", "2026-07-28")
"""The modes of the client: the handshake, and the stateless revision."""

META = "io.modelcontextprotocol"
"""What the names in the `_meta` of a stateless request begin with."""

LINE_LIMIT_BYTES = 1 << 20
"""Of what a server writes here."""

each_era = pytest.mark.parametrize("era", ERAS)

Answer = Callable[[ElicitRequestParams], Awaitable[ElicitResult]]

RULES = """
prefix_rule(pattern=["git", "init"], decision="prompt", justification="makes a repo")
prefix_rule(pattern=["id"], decision="allow")
prefix_rule(pattern=["whoami"], decision="forbidden", justification="private")
"""


def rules_file(directory: Path, text: str = RULES) -> Path:
    path = directory / "test.rules"
    path.write_text(text)
    return path


def parameters(*arguments: str | Path, **options: Any) -> StdioServerParameters:
    """How to start it, with these arguments."""
    return StdioServerParameters(
        command=sys.executable,
        args=["-P", "-m", "paddock", "mcp", *map(str, arguments)],
        **options,
    )


@asynccontextmanager
async def workplace(url: str, rules: Path | None = None) -> AsyncIterator[Workplace]:
    """Commands run on that server, which takes less time than to start one for each test."""
    policy = Policy() if rules is None else load_sound_policy([rules])
    opened = Workplace(ServerAddress(url), CommandRules(policy))
    try:
        yield opened
    finally:
        await opened.aclose()


@asynccontextmanager
async def in_process(
    url: str,
    workspace: Path,
    era: str = ERAS[0],
    *,
    rules: Path | None = None,
    answer: Answer | None = None,
    console: Approver | None = None,
    **terms: Any,
) -> AsyncIterator[Client]:
    """A client before an MCP server in this program."""
    wanted = {"profile": ":workspace", "tools": tuple(ALL_TOOLS), "workspace": str(workspace)} | terms
    async with workplace(url, rules) as shared:
        session = Session(shared, Terms(**wanted), console)
        try:
            async with connected(
                Service(offered(session.tools), lambda _: session).server, era, answer
            ) as client:
                yield client
        finally:
            await session.aclose()


@asynccontextmanager
async def connected(
    target: StdioServerParameters | Server[Any] | str, era: str = ERAS[0], answer: Answer | None = None
) -> AsyncIterator[Client]:
    """A client that answers questions, if it gets an answer."""
    async with client_of(target, era, answer) as client:
        yield client


@asynccontextmanager
async def client_of(target: Any, era: str, answer: Answer | None = None) -> AsyncIterator[Client]:
    """The same for whatever the SDK takes, such as a transport."""

    async def elicited(context: Any, params: ElicitRequestParams) -> ElicitResult:
        assert answer is not None
        return await answer(params)

    async with Client(target, mode=era, elicitation_callback=None if answer is None else elicited) as client:
        yield client


class RawStdio:
    """`paddock mcp` on its standard streams, before a stateless client that writes what a test wants."""

    def __init__(self, *arguments: str | Path, hears: bool = False) -> None:
        self._command = parameters(*arguments)
        self._process: asyncio.subprocess.Process
        self._hears = hears

    async def __aenter__(self) -> RawStdio:
        self._process = await asyncio.create_subprocess_exec(
            self._command.command,
            *self._command.args,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE if self._hears else None,
            limit=LINE_LIMIT_BYTES,
        )
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()

    @property
    def status(self) -> int | None:
        """The exit status, after the block."""
        return self._process.returncode

    async def heard_after(self, number: signal.Signals) -> str:
        """Send a signal, and return the next line on its stderr."""
        self._process.send_signal(number)
        return await self.heard()

    async def heard(self) -> str:
        """Return the next line on its stderr."""
        assert self._process.stderr is not None
        return (await self._process.stderr.readline()).decode()

    async def send(self, **message: Any) -> None:
        await self.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def write(self, data: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(data)
        await self._process.stdin.drain()

    async def request(self, request_id: int, method: str, **params: Any) -> None:
        """Send a request of a client that can be asked."""
        meta = {
            f"{META}/protocolVersion": ERAS[1],
            f"{META}/clientInfo": {"name": "test", "version": "0"},
            f"{META}/clientCapabilities": {"elicitation": {}},
        }
        await self.send(id=request_id, method=method, params={**params, "_meta": meta})

    async def ask(self, request_id: int, method: str, **params: Any) -> dict[str, Any]:
        """The answer to a request; those to others are passed over."""
        await self.request(request_id, method, **params)
        while (message := await self.receive()).get("id") != request_id:
            pass
        return message

    async def receive(self) -> dict[str, Any]:
        """The next message."""
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        assert line, "the server has gone"
        message: dict[str, Any] = json.loads(line)
        return message


class Answers:
    """Gives one answer after the other, and keeps the questions."""

    def __init__(self, *answers: ElicitResult) -> None:
        self._answers = list(answers)
        self.questions: list[ElicitRequestParams] = []

    async def __call__(self, params: ElicitRequestParams) -> ElicitResult:
        self.questions.append(params)
        return self._answers.pop(0)


def accept(decision: str | None = None, reason: str | None = None) -> ElicitResult:
    content = {name: value for name, value in (("decision", decision), ("reason", reason)) if value}
    return ElicitResult(action="accept", content=dict(content))


def fields(result: CallToolResult) -> dict[str, Any]:
    """The structured result of a call that did what it should."""
    assert not result.is_error, text(result)
    assert isinstance(result.structured_content, dict)
    return result.structured_content


def text(result: CallToolResult) -> str:
    [content] = result.content
    assert isinstance(content, TextContent)
    return content.text
