"""Rows about the server as a program: how soon it is there, and how much memory it takes."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from typing import ClassVar

from bench.client import start_request
from bench.row import Figure, Row, Unit
from bench.servers import Contender, memory_of

BARE_LIBRARIES = "import asyncio, sys, msgspec, uvloop; print('ready', flush=True); sys.stdin.read()"


class IdleMemory(Row):
    """A server that has just started, and after it has run its first command for a client."""

    name = "memory"
    figures = (
        Figure("memory when started, RSS", Unit.BYTES, goal=1 / 0.9),
        Figure("memory when started, PSS", Unit.BYTES),
        Figure("memory after a command, RSS", Unit.BYTES),
    )
    bare = "a Python interpreter that has imported the libraries"
    rounds = 3

    def measure(self, contender: Contender) -> Sequence[float]:
        # Pages of a second server would be shared with it and count for half.
        contender.close()
        # Once it has answered a client, it has loaded what it loads after it has said that it is there.
        with contender.fresh_server() as server, server.connect() as client:
            fresh = server.memory()
            client.send(start_request(1, "p", ["/bin/true"]))
            client.wait_for("process/closed", "p")
            used = server.memory()
        return fresh.rss_bytes, fresh.pss_bytes, used.rss_bytes

    def limit(self) -> Sequence[float | None]:
        with subprocess.Popen(
            (sys.executable, "-c", BARE_LIBRARIES), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            memory = memory_of([process.pid])
            process.communicate()
        return memory.rss_bytes, memory.pss_bytes, memory.rss_bytes


class ProcessMemory(Row):
    """What one live process adds to the server, not counting the process itself."""

    name = "memory-process"
    figures = (Figure("memory per live process", Unit.BYTES),)
    rounds = 3
    processes: ClassVar[int] = 200

    def measure(self, contender: Contender) -> Sequence[float]:
        contender.close()
        with contender.fresh_server() as server, server.connect() as client:
            client.send(start_request(1, "warm", ["/bin/true"]))
            client.wait_for("process/closed", "warm")
            before = server.memory()
            for number in range(2, self.processes + 2):
                client.send(start_request(number, f"p{number}", ["/bin/sleep", "1000"]))
                client.result(number)
            return ((server.memory().rss_bytes - before.rss_bytes) / self.processes,)


class Startup(Row):
    """From spawning the server to its URL, and how long it takes to say its version."""

    name = "startup"
    figures = (Figure("server start to ready", Unit.SECONDS), Figure("--version", Unit.SECONDS))
    bare = "python -c pass"

    def measure(self, contender: Contender) -> Sequence[float]:
        with contender.fresh_server() as server:
            ready_after_s = server.ready_after_s
        begun = time.perf_counter()
        contender.version()
        return ready_after_s, time.perf_counter() - begun

    def limit(self) -> Sequence[float | None]:
        begun = time.perf_counter()
        subprocess.run((sys.executable, "-c", "pass"), check=True)
        elapsed_s = time.perf_counter() - begun
        return elapsed_s, elapsed_s
