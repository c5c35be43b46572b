"""What an agent's tools add to the client: `exec_command` of `true`, and `Box.run` of the same words.

Both are confined and wait for the end. A command that ends within its first 150 ms waits for nothing else,
so the first figure should be at most 1.3 times the second.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar

import paddock
from bench.errors import BenchError
from bench.row import Figure, Row, Unit
from bench.servers import Contender
from paddock.agent.reply import ExecReply

CALLS = 15


class AgentCommand(Row):
    """The median of calls one after the other, both kinds in turn."""

    name: ClassVar[str] = "agent"
    figures: ClassVar[tuple[Figure, ...]] = (
        Figure("agent's exec_command of `true`, confined", Unit.SECONDS),
        Figure("Box.run of the same words, confined", Unit.SECONDS),
    )

    def measure(self, contender: Contender) -> Sequence[float | None]:
        """Measure both on one connection."""
        with tempfile.TemporaryDirectory() as directory:
            return asyncio.run(_medians(contender.server.url, directory))


async def _medians(url: str, directory: str) -> Sequence[float]:
    async with paddock.connect(url) as box, paddock.Agent(box, cwd=directory) as tools:
        words = (box.environment.shell.path, "-c", "true")

        async def agent() -> None:
            reply = await tools.call("exec_command", {"cmd": "true"})
            if not isinstance(reply, ExecReply) or reply.exit_code != 0:
                raise BenchError(f"exec_command: {reply.text}")

        async def bare() -> None:
            done = await box.run(words, cwd=directory, sandbox=":workspace")
            if done.returncode != 0:
                raise BenchError(f"Box.run: status {done.returncode}")

        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(CALLS):
            for kind, taken in zip((agent, bare), times, strict=True):
                taken.append(await _time(kind))
    return [sorted(taken)[len(taken) // 2] for taken in times]


async def _time(call: Callable[[], Awaitable[None]]) -> float:
    begun = time.perf_counter()
    await call()
    return time.perf_counter() - begun
