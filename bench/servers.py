"""The servers that are compared: how they are found, started, looked at and stopped.

A `Contender` is a command; a `RunningServer` is one life of it. Both servers get
the same bare environment and print their URL when they are ready.
"""

from __future__ import annotations

import os
import platform
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from bench.client import BUFFER_BYTES, Client
from bench.errors import BenchError

REPOSITORY = Path(__file__).resolve().parent.parent
CACHE = Path.home() / ".cache"

PEER_INSTALL = "make peer"
PEER_VARIABLE = "PADDOCK_PEER"
PEER_OPTIONS = ("exec-server", "--concurrent-requests", "32", "--listen", "ws://127.0.0.1:0")

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Memory:
    """What a set of processes occupies: resident, and with shared pages counted by their share."""

    rss_bytes: int
    pss_bytes: int


class RunningServer:
    """A server that has printed its URL. `stop` ends it and waits."""

    def __init__(self, process: subprocess.Popen[bytes], url: str, ready_after_s: float) -> None:
        self.url = url
        self.ready_after_s = ready_after_s
        self._process = process
        self._own_pids = _tree_of(process.pid)

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended by itself."""
        return self._process.poll() is None

    def connect(self, *, has_quick_ack: bool = False, buffer_bytes: int = BUFFER_BYTES) -> Client:
        """A new connection, past its handshake."""
        return Client(self.url, has_quick_ack=has_quick_ack, buffer_bytes=buffer_bytes)

    def memory(self) -> Memory:
        """The server and the helpers it started with, without the processes that it runs for clients."""
        return memory_of(self._own_pids)

    def stop(self) -> None:
        """SIGTERM, and SIGKILL to one that does not heed it."""
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


@dataclass
class Contender:
    """A server to be measured. `server` is started when it is first needed; `close` stops it."""

    name: str
    serve_command: tuple[str, ...]
    version_command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    _server: RunningServer | None = None

    @property
    def server(self) -> RunningServer:
        """The one life that most rows share; a new one if the last ended by itself."""
        if self._server is None or not self._server.is_alive:
            self._server = self._start()
        return self._server

    @contextmanager
    def fresh_server(self) -> Iterator[RunningServer]:
        """A life of its own, for rows that look at the server from outside."""
        server = self._start()
        try:
            yield server
        finally:
            server.stop()

    def close(self) -> None:
        """Stop the shared server, if it runs."""
        if self._server is not None:
            self._server.stop()
            self._server = None

    def version(self) -> str:
        """What it says when it is asked for its version. Raises BenchError."""
        done = subprocess.run(self.version_command, env=self._variables(), capture_output=True, check=False)
        if done.returncode:
            raise BenchError(f"`{' '.join(self.version_command)}` failed: {_last_line(done.stderr)}")
        return done.stdout.decode().strip()

    def _variables(self) -> dict[str, str]:
        return {"PATH": os.defpath, "HOME": str(Path.home()), **self.environment}

    def _start(self) -> RunningServer:
        with tempfile.TemporaryFile() as log:
            begun = time.perf_counter()
            process = subprocess.Popen(
                self.serve_command,
                env=self._variables(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
            )
            assert process.stdout is not None
            is_there, _, _ = select.select([process.stdout], [], [], START_TIMEOUT_S)
            url = process.stdout.readline().decode().strip() if is_there else ""
            ready_after_s = time.perf_counter() - begun
            if not url.startswith("ws://"):
                process.kill()
                process.wait()
                process.stdout.close()
                raise BenchError(f"{self.name} did not start: {_log_end(log)}")
        return RunningServer(process, url, ready_after_s)


def _tree_of(pid: int) -> list[int]:
    """A process and its descendants."""
    pids = [pid]
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            pids += _tree_of(int(child))
    return pids


def memory_of(pids: list[int]) -> Memory:
    """The sum over these processes, as the kernel counts it (/proc/PID/smaps_rollup, proc(5))."""
    sums = {"Rss": 0, "Pss": 0}
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError as error:
            raise BenchError(f"the memory of process {pid} can't be read: {error.strerror}") from error
        for line in lines:
            name, _, rest = line.partition(":")
            if name in sums:
                sums[name] += int(rest.split()[0]) * 1024
    return Memory(sums["Rss"], sums["Pss"])


def paddock(command: tuple[str, ...] | None = None) -> Contender:
    """This project's server: the one installed beside the interpreter, unless another command is given."""
    program = str(Path(sys.executable).parent / "paddock")
    return Contender("paddock", command or (program, "serve"), (program, "--version"))


@contextmanager
def peer(command: tuple[str, ...] | None = None) -> Iterator[Contender | None]:
    """The server to compare with, or None if it is not installed. Its home lasts as long as the block."""
    program = _find_peer()
    if command is None and program is None:
        yield None
        return
    CACHE.mkdir(exist_ok=True)
    # Not below /tmp: it refuses to keep its helpers in a directory for temporary files.
    with tempfile.TemporaryDirectory(prefix="paddock-bench-", dir=CACHE) as home:
        name = str(program)
        environment = {"CODEX_HOME": home}
        if command is not None:
            yield Contender("peer", command, (command[0], "--version"), environment)
        else:
            yield Contender("peer", (name, *PEER_OPTIONS), (name, "--version"), environment)


def _find_peer() -> Path | None:
    named = os.environ.get(PEER_VARIABLE)
    if named and not Path(named).exists():
        raise SystemExit(f"bench: {PEER_VARIABLE} names {named}, which does not exist")
    script = Path("node_modules", ".bin", "codex")
    places = (
        named,
        shutil.which("codex"),
        REPOSITORY / ".peer" / script,
    )
    for place in places:
        if place and Path(place).exists():
            return _executable_behind(Path(place).resolve())
    return None


def _executable_behind(program: Path) -> Path:
    """The compiled program that npm's script would start; the script would count against the peer."""
    package = program.parent.parent
    for folder in (package, *package.parent.glob("codex-linux-*"), *package.glob("node_modules/@openai/*")):
        for executable in folder.glob(f"vendor/{platform.machine()}-*/bin/codex"):
            return executable
    return program


def _log_end(log: IO[bytes]) -> str:
    log.seek(0)
    return _last_line(log.read())


def _last_line(text: bytes) -> str:
    lines = text.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"
