"""What `paddock mcp` adds to the client: `shell` of `true`, and `Box.run` of the same words.

Both are confined, have no rules and wait for the end, with a pause before the next, as a model makes one. The
figures of other MCP servers with a shell, which `make mcppeers` installs, are in the column of the peer. They
make the same pauses, and confine nothing. All work in a repository.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import paddock
from bench.confined_starts import PAUSE_S
from bench.errors import BenchError
from bench.line_client import LineClient
from bench.row import Figure, Row, Unit
from bench.servers import REPOSITORY, Contender

CALLS = 10
STARTS = 3

PEERS = REPOSITORY / ".mcp-peers"
SHELL_SERVER = PEERS / "venv/bin/mcp-shell-server"
DESKTOP_COMMANDER = PEERS / "npm/node_modules/.bin/desktop-commander"
COMMANDER_TIMEOUT_MS = 5000


class ShellCalls(Row):
    """The median of calls one after the other; those of the library take turns with those of the server."""

    name = "mcp"
    figures = (
        Figure("MCP shell call of `true`, confined", Unit.SECONDS),
        Figure("the same by the client library, confined", Unit.SECONDS),
        Figure("added by MCP", Unit.SECONDS, bound=0.003),
        Figure("MCP shell call of `true`, peer: mcp-shell-server", Unit.SECONDS, goal=1),
        Figure("MCP shell call of `true`, peer: Desktop Commander", Unit.SECONDS, goal=1),
    )

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="paddock-bench-", dir="/var/tmp")
        self._workspace = os.path.join(self._directory.name, "workspace")
        subprocess.run(["git", "init", "--quiet", self._workspace], check=True)
        self._own: LineClient | None = None
        self._others: list[Callable[[], object] | None] | None = None
        self._clients: list[LineClient] = []

    def measure(self, contender: Contender) -> Sequence[float | None]:
        if contender.name != "paddock":
            if self._others is None:
                self._others = [self._shell_server(), self._desktop_commander()]
            return (None, None, None, *(None if call is None else _median(call) for call in self._others))
        if self._own is None:
            command = (contender.version_command[0], "mcp", "--workspace", self._workspace)
            self._own = self._started("paddock mcp", command)
        served, library, added = asyncio.run(self._beside_the_library(self._own))
        return (served, library, added, served, served)

    def close(self) -> None:
        for client in self._clients:
            client.close()
        self._directory.cleanup()

    async def _beside_the_library(self, client: LineClient) -> tuple[float, float, float]:
        arguments = {"command": "true", "workdir": self._workspace, "login": False}
        served, library = list[float](), list[float]()
        async with paddock.connect() as box:
            words = (box.environment.shell.path, "-c", "true")
            for _ in range(CALLS):
                begun = time.perf_counter()
                result = client.request("tools/call", name="shell", arguments=arguments)
                served.append(time.perf_counter() - begun)
                if result["structuredContent"]["exit_code"] != 0:
                    raise BenchError(f"paddock mcp: {result}")
                await asyncio.sleep(PAUSE_S)
                begun = time.perf_counter()
                done = await box.run(words, cwd=self._workspace, sandbox=":workspace")
                library.append(time.perf_counter() - begun)
                if done.returncode != 0:
                    raise BenchError(f"Box.run: status {done.returncode}")
                await asyncio.sleep(PAUSE_S)
        added = [one - other for one, other in zip(served, library, strict=True)]
        return _middle(served), _middle(library), _middle(added)

    def _shell_server(self) -> Callable[[], object] | None:
        if not SHELL_SERVER.exists():
            return None
        client = self._started("mcp-shell-server", [SHELL_SERVER], ALLOW_COMMANDS="true")
        arguments = {"command": ["true"], "directory": self._workspace}
        return lambda: _succeeded(client.request("tools/call", name="shell_execute", arguments=arguments))

    def _desktop_commander(self) -> Callable[[], object] | None:
        if not DESKTOP_COMMANDER.exists():
            return None
        client = self._started("Desktop Commander", ["node", DESKTOP_COMMANDER])
        arguments = {"command": "true", "timeout_ms": COMMANDER_TIMEOUT_MS}
        return lambda: _succeeded(client.request("tools/call", name="start_process", arguments=arguments))

    def _started(self, name: str, command: Sequence[str | Path], **variables: str) -> LineClient:
        # A home of its own: some keep their settings there, or watch for them.
        env = {"PATH": os.environ["PATH"], "HOME": self._directory.name, **variables}
        client = LineClient(name, command, env)
        self._clients.append(client)
        return client


class ShellServerStart(Row):
    """From the start of the program to the answer of the handshake. The limit is the SDK's own import."""

    name = "mcp-start"
    figures = (Figure("paddock mcp, start to ready", Unit.SECONDS, bound=1.5),)
    bare = "a Python that imports the MCP SDK's server and nothing else"
    rounds = STARTS

    def measure(self, contender: Contender) -> Sequence[float | None]:
        if contender.name != "paddock":
            return (None,)
        client = LineClient("paddock mcp", (contender.version_command[0], "mcp"))
        client.close()
        return (client.ready_after_s,)

    def limit(self) -> Sequence[float | None]:
        begun = time.perf_counter()
        subprocess.run([sys.executable, "-P", "-c", "import mcp.server.lowlevel"], check=True)
        return (time.perf_counter() - begun,)


def _median(call: Callable[[], object]) -> float:
    times = list[float]()
    for _ in range(CALLS):
        begun = time.perf_counter()
        call()
        times.append(time.perf_counter() - begun)
        time.sleep(PAUSE_S)
    return _middle(times)


def _middle(times: Sequence[float]) -> float:
    return sorted(times)[len(times) // 2]


def _succeeded(result: dict[str, Any]) -> None:
    if result.get("isError"):
        raise BenchError(f"a call failed: {result}")
