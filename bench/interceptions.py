"""Rows about interception: what it adds to each program that a shell executes."""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import paddock
from bench.errors import BenchError
from bench.original import OriginalShell
from bench.row import Figure, Row, Unit
from bench.servers import Contender
from paddock.model.decision import Action

PROGRAM = "/bin/true"
EXECUTIONS = 20
REPETITIONS = 25
"""The fastest counts: whatever else the machine does only adds to it, and often more than is measured."""
TIMEOUT_S = 60.0

LOOP = f"""
begun=${{EPOCHREALTIME/./}}
for ((i = 0; i < {EXECUTIONS}; i++)); do {PROGRAM}; done
echo $((${{EPOCHREALTIME/./}} - begun))
"""
"""Says how many microseconds it took."""


class Interceptions(Row):
    """A shell executes a program that does nothing, again and again: with nobody who decides on it, decided
    on and run in its sandbox, and let out of it. They take turns, and the fastest turn of each counts.

    The peer is the original, an MCP server with a patched Bash, without a sandbox and without rules.
    """

    name = "interception"
    figures = (
        Figure("intercepted program, to one of stock Bash", Unit.TIMES, bound=1.6),
        Figure("added to a program by interception", Unit.SECONDS, goal=2),
        Figure("escalated program, to a native one", Unit.TIMES, bound=3),
    )

    settings: ClassVar[str] = "allow_escalation = true\n"
    """Of the server."""

    def __init__(self) -> None:
        self._server: Contender | None = None
        self._original: OriginalShell | None = None
        self._directory = tempfile.TemporaryDirectory(prefix="paddock-bench-", dir="/var/tmp")

    def measure(self, contender: Contender) -> Sequence[float | None]:
        if contender.name == "paddock":
            if self._server is None:
                file = Path(self._directory.name, "settings.toml")
                file.write_text(self.settings)
                command = (*contender.serve_command, "--config", str(file))
                self._server = replace(contender, serve_command=command, _server=None)
            return asyncio.run(_measure(self._server.server.url, self._directory.name))
        self._original = self._original or OriginalShell.find()
        if self._original is None:
            return (None, None, None)
        stock, intercepted = [], []
        for _ in range(REPETITIONS):
            stock.append(_stock())
            intercepted.append(_per_execution(self._original.run(LOOP, TIMEOUT_S)))
        return (min(intercepted) / min(stock), min(intercepted) - min(stock), None)

    def close(self) -> None:
        if self._original is not None:
            self._original.close()
        if self._server is not None:
            self._server.close()
        self._directory.cleanup()


class WrapperInterceptions(Interceptions):
    """The same by the patched Bash and its wrapper, for hosts where the kernel can't be asked."""

    name = "interception-wrapper"
    figures = (
        Figure("program that a wrapper asks about, to one of stock Bash", Unit.TIMES),
        Figure("added to a program by a wrapper", Unit.SECONDS),
        Figure("program that a wrapper lets out, to a native one", Unit.TIMES),
    )
    settings = f'{Interceptions.settings}interception = "wrapper"\n'


async def _measure(url: str, directory: str) -> Sequence[float]:
    stock, intercepted, escalated = list[float](), list[float](), list[float]()
    async with paddock.connect(url) as box:
        for _ in range(REPETITIONS):
            stock.append(_stock())
            intercepted.append(await _confined(box, directory, Action.FORBIDDEN, "hostid", "run"))
            escalated.append(await _confined(box, directory, Action.ALLOW, "true", "escalate"))
    native = min(stock)
    return (min(intercepted) / native, min(intercepted) - native, min(escalated) / native)


async def _confined(box: paddock.Box, directory: str, action: Action, program: str, verdict: str) -> float:
    """Run the loop in a sandbox, under one rule, which gives each execution this verdict."""
    rule = paddock.InterceptRule(pattern=[[program]], action=action, path="/bench.rules", line=1)
    rules = paddock.InterceptParams(rules=[rule], on_prompt="deny")
    done = await box.run(
        ["bash", "-c", LOOP], cwd=directory, sandbox=":workspace", intercept=rules, timeout_s=TIMEOUT_S
    )
    execs = done.ending.execs
    if done.returncode or execs is None or execs.counts[paddock.Verdict(verdict)] != EXECUTIONS:
        raise BenchError(f"the loop ended with {done.returncode}: {done.stderr.decode()[-200:]}")
    return _per_execution(done.stdout.decode())


def _stock() -> float:
    done = subprocess.run(["bash", "-c", LOOP], capture_output=True, text=True, check=True)
    return _per_execution(done.stdout)


def _per_execution(output: str) -> float:
    return int(output) / 1e6 / EXECUTIONS
