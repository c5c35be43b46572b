"""An operator at work: real servers in a runtime directory of their own, and `paddock` beside them."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from paddock.client.operator import operate
from paddock.transport.runtime_directory import VARIABLE, socket_paths
from tests.serving import ServerProcess, serving

PADDOCK = (sys.executable, "-P", "-m", "paddock")
PATIENCE_S = 50.0


class Operator:
    """One operator. What is started here sees its runtime directory and no other."""

    def __init__(self, runtime: Path) -> None:
        self.runtime = runtime
        self.env = {VARIABLE: str(runtime)}

    def paddock(self, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [*PADDOCK, *arguments],
            input=stdin,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
            env=os.environ | self.env,
        )

    def output(self, *arguments: str) -> str:
        """What a command prints that must work and say nothing else."""
        done = self.paddock(*arguments)
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout.decode()

    def serving(self, *flags: str) -> AbstractContextManager[ServerProcess]:
        return serving(*flags, env=self.env)

    def detach(self, *arguments: str) -> str:
        """Leave a command running on the only server; its id."""
        return self.output("run", "--detach", *arguments).strip()

    def status(self) -> list[dict[str, Any]]:
        """Every process, with its session and its server in `session` and `server`. Not in an event loop."""
        return asyncio.run(_status(self.runtime))

    def process(self, process_id: str) -> dict[str, Any]:
        (found,) = (process for process in self.status() if process["processId"] == process_id)
        return found

    def await_process(self, process_id: str, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Ask until the process is as wanted; the time limit of the test is the limit."""
        while not condition(process := self.process(process_id)):
            pass
        return process

    def terminal(self, *arguments: str, rows: int = 33, cols: int = 101) -> AbstractContextManager[Terminal]:
        return terminal([*PADDOCK, *arguments], rows, cols, self.env)


async def _status(runtime: Path) -> list[dict[str, Any]]:
    told = []
    for path in socket_paths(runtime):
        async with await operate(path, "test") as control:
            told.append(to_builtins(await control.status()))
    return [
        {**process, "session": session, "server": status["server"]}
        for status in told
        for session in status["sessions"]
        for process in session["processes"]
    ]


@contextmanager
def new_operator() -> Iterator[Operator]:
    # Short: a socket's path has 107 bytes at most.
    with tempfile.TemporaryDirectory(prefix="pd-", dir="/tmp") as directory:
        yield Operator(Path(directory))


class Terminal:
    """The keyboard and the screen of a terminal that a command has as its own."""

    def __init__(
        self, command: Sequence[str], rows: int, cols: int, env: Mapping[str, str], cwd: Path | None = None
    ) -> None:
        self._screen, self._line = pty.openpty()
        self.resize(rows, cols)
        self.attributes_before = self.attributes
        self._seen = b""
        self.child = subprocess.Popen(
            command,
            stdin=self._line,
            stdout=self._line,
            stderr=self._line,
            # A variable would be believed before the terminal, and the runner of the tests sets it.
            env={name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
            | {"TERM": "vt220", **env},
            cwd=cwd,
            start_new_session=True,
            # The terminal must be the controlling one, or no signal comes when it is resized.
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )

    def resize(self, rows: int, cols: int) -> None:
        fcntl.ioctl(self._screen, termios.TIOCSWINSZ, struct.pack("4H", rows, cols, 0, 0))

    @property
    def attributes(self) -> list[object]:
        return termios.tcgetattr(self._line)

    def type(self, keys: bytes) -> None:
        os.write(self._screen, keys)

    def read_until(self, wanted: bytes) -> bytes:
        """What has appeared up to and with `wanted`."""
        while wanted not in self._seen:
            self._seen += os.read(self._screen, 65536)
        before, _, self._seen = self._seen.partition(wanted)
        return before + wanted

    def wait(self) -> int:
        """The exit status of the command, once it has ended."""
        return self.child.wait(PATIENCE_S)

    def hang_up(self) -> None:
        """Take the terminal away, as when its window is closed."""
        os.close(self._screen)
        self._screen = -1

    def close(self) -> None:
        self.child.kill()
        self.child.wait()
        if self._screen >= 0:
            os.close(self._screen)
        os.close(self._line)


@contextmanager
def terminal(
    command: Sequence[str],
    rows: int = 33,
    cols: int = 101,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Iterator[Terminal]:
    screen = Terminal(command, rows, cols, env or {}, cwd)
    try:
        yield screen
    finally:
        screen.close()
