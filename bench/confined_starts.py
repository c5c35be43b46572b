"""Rows about confined commands that a server starts: in a sandbox that is there already, and in a new one.

Beside them stands what a sandbox costs without Paddock: bubblewrap with the same mounts, and sandlock, a
package that confines by Landlock and seccomp without namespaces (`make sandlock`).
"""

from __future__ import annotations

import statistics
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from bench.client import Client, start_request
from bench.errors import BenchError
from bench.row import Figure, Row, Unit
from bench.sandboxes import ConfinedTrue
from bench.servers import REPOSITORY, Contender
from bench.starts import PROGRAM, start_once

SANDLOCK = REPOSITORY / ".sandlock" / "bin" / "python"
SANDLOCK_INSTALL = "make sandlock"

SANDLOCK_RUNS = """
import sys, time
from sandlock import Sandbox
workspace, starts, pause_s = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
sandbox = Sandbox(fs_readable=["/"], fs_writable=[workspace, "/tmp"])
for number in range(starts + 1):
    begun = time.perf_counter()
    if not sandbox.run(["true"]).success:
        sys.exit("sandlock can't run anything here")
    if number:
        print(time.perf_counter() - begun)
    time.sleep(pause_s)
"""

PAUSE_S = 0.1
"""Between two commands; the model behind an agent takes longer. A spare sandbox is made meanwhile."""

IN_FLIGHT = 8


def workspace_sandbox(workspace: Path) -> dict[str, Any]:
    """Return a sandbox in which a command reads everything and writes the workspace."""
    entries = [
        {"path": {"type": "special", "value": {"kind": kind}}, "access": access}
        for kind, access in (("root", "read"), ("project_roots", "write"))
    ]
    return {
        "permissions": {
            "type": "managed",
            "file_system": {"type": "restricted", "entries": entries},
            "network": "restricted",
        },
        "windowsSandboxLevel": "disabled",
        "cwd": workspace.as_uri(),
        "workspaceRoots": [workspace.as_uri()],
    }


class _WorkspaceRow(Row):
    """A row whose commands may write a repository."""

    starts: ClassVar[int] = 10

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="paddock-bench-", dir="/var/tmp")
        self.workspace = Path(self._directory.name, "workspace")
        subprocess.run(["git", "init", "--quiet", str(self.workspace)], check=True)

    def close(self) -> None:
        self._directory.cleanup()

    def median(self, client: Client) -> float:
        """From sending a start to seeing the exit. Pauses before the next, and leaves out the first ones."""
        samples = []
        for number in range(self.starts + 3):
            samples.append(start_once(client, number, workspace_sandbox(self.workspace)))
            time.sleep(PAUSE_S)
        return statistics.median(samples[3:])


class WarmStarts(_WorkspaceRow):
    """From sending `process/start` to seeing `process/exited`, where a spare sandbox is there."""

    name = "latency-warm"
    figures = (
        Figure("warm sandboxed start to exit seen, p50", Unit.SECONDS, goal=12),
        Figure("the same, times sandlock", Unit.TIMES, bound=1.2),
    )
    bare = 'sandlock 0.9, `Sandbox.run(["true"])` in a process that runs already'

    def measure(self, contender: Contender) -> Sequence[float | None]:
        with contender.server.connect(has_quick_ack=True) as client:
            taken_s = self.median(client)
        if contender.name != "paddock":
            return taken_s, None
        if (warm := _warm_starts(contender.server.url)) < self.starts:
            raise BenchError(f"only {warm} starts were warm")
        return taken_s, taken_s / self._sandlock()

    def limit(self) -> Sequence[float | None]:
        return self._sandlock(), None

    def _sandlock(self) -> float:
        if not SANDLOCK.exists():
            raise BenchError(f"sandlock was not found; install it with `{SANDLOCK_INSTALL}`")
        command = [str(SANDLOCK), "-c", SANDLOCK_RUNS, str(self.workspace), str(self.starts), str(PAUSE_S)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BenchError(f"sandlock failed: {done.stderr[-200:].strip()}")
        return statistics.median(map(float, done.stdout.split()))


class ColdStarts(_WorkspaceRow):
    """The same, where the server keeps no spare sandboxes."""

    name = "latency-cold"
    figures = (
        Figure("cold sandboxed start to exit seen, p50", Unit.SECONDS, goal=4),
        Figure("the same, times bubblewrap", Unit.TIMES, bound=1.6),
    )
    bare = ConfinedTrue.bare

    def __init__(self) -> None:
        super().__init__()
        self._bubblewrap = ConfinedTrue()

    def close(self) -> None:
        self._bubblewrap.close()
        super().close()

    def measure(self, contender: Contender) -> Sequence[float | None]:
        if contender.name != "paddock":
            with contender.server.connect(has_quick_ack=True) as client:
                return self.median(client), None
        cold = _without_spares(contender)
        with cold.fresh_server() as server, server.connect(has_quick_ack=True) as client:
            taken_s = self.median(client)
        return taken_s, taken_s / self._bubblewrap.bubblewrap_s()

    def limit(self) -> Sequence[float | None]:
        return self._bubblewrap.bubblewrap_s(), None


class ConfinedStartRate(_WorkspaceRow):
    """Confined starts, from the first request to the last `process/closed`, so many at a time."""

    name = "starts-sandboxed"
    figures = (
        Figure(f"sandboxed starts, {IN_FLIGHT} in flight", Unit.PER_SECOND, goal=2),
        Figure("the same, without spare sandboxes", Unit.PER_SECOND),
    )
    starts = 48

    def measure(self, contender: Contender) -> Sequence[float | None]:
        rate = self._rate(contender)
        if contender.name != "paddock":
            return rate, None
        bare = _without_spares(contender)
        try:
            return rate, self._rate(bare)
        finally:
            bare.close()

    def _rate(self, contender: Contender) -> float:
        sandbox = workspace_sandbox(self.workspace)
        with contender.server.connect() as client:
            start_once(client, self.starts, sandbox)
            begun = time.perf_counter()
            sent = closed = 0
            while closed < self.starts:
                while sent < self.starts and sent - closed < IN_FLIGHT:
                    client.send(start_request(sent + 1, f"p{sent}", [PROGRAM], sandbox=sandbox))
                    sent += 1
                closed += sum(event.method == "process/closed" for event in client.messages())
            return self.starts / (time.perf_counter() - begun)


def _without_spares(contender: Contender) -> Contender:
    config = REPOSITORY / "bench" / "cold.toml"
    return replace(contender, serve_command=(*contender.serve_command, "--config", str(config)), _server=None)


def _warm_starts(url: str) -> int:
    """How many starts of a server were warm, as it says itself."""
    page = f"http{url.removeprefix('ws').rstrip('/')}/metrics"
    with urllib.request.urlopen(page) as answer:
        lines = answer.read().decode().splitlines()
    prefix = 'paddock_sandbox_starts_total{start="warm"} '
    return next((int(float(line.removeprefix(prefix))) for line in lines if line.startswith(prefix)), 0)
