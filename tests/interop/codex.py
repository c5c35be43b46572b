"""The stock Codex CLI, working on a server of ours, with a test as its model.

The CLI runs where the workspace and the directory beside it are empty, so whatever it
knows of them, and whatever it changes there, has gone through the server.
"""

from __future__ import annotations

import asyncio
import os
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest

from tests.interop.model import LAST_ANSWER, Call, Model, Reply, scripted_model

PROGRAM = Path(__file__).resolve().parents[2] / ".peer" / "node_modules" / ".bin" / "codex"

SCRATCH = "/var/tmp"
"""The CLI refuses a home below /tmp, and its usual profiles let commands write there."""

WITH_TOOLS = "gpt-5.5"
WITH_CODE = "gpt-6-astra"
"""Models that the CLI knows: it lets the first call tools, the second write programs that do."""

SHORTEST_WAIT_MS = 250
"""The least that the CLI waits for output before it tells the model that a command goes on."""

PATIENCE_MS = 40_000
"""More than a server gives to what it ends."""


class Mode(StrEnum):
    """What the CLI asks the server to confine commands to."""

    READ_ONLY = "read-only"
    WORKSPACE_WRITE = "workspace-write"
    DANGER_FULL_ACCESS = "danger-full-access"


class Gate:
    """A pipe by which a command waits for the test: it reads `path`, and goes on when the gate opens."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = -1

    async def reached(self) -> None:
        """Wait until a command has come to it. `open` or `close` must follow."""
        # Opening a pipe to write waits for a reader, fifo(7).
        self._fd = await asyncio.to_thread(os.open, self.path, os.O_WRONLY)

    def open(self, text: str) -> None:
        """Let the command read this, and its end."""
        os.write(self._fd, text.encode())
        self.close()

    async def deserted(self) -> None:
        """Wait until every command that has come to it is gone."""
        poll = select.poll()
        # Without an event asked for there is still POLLERR, which says that nobody reads any more.
        poll.register(self._fd, 0)
        assert await asyncio.to_thread(poll.poll, PATIENCE_MS)

    def close(self) -> None:
        os.close(self._fd)


@dataclass(frozen=True, slots=True)
class Ground:
    """The directories of one CLI."""

    root: Path

    @property
    def workspace(self) -> Path:
        return self.root / "workspace"

    @property
    def outside(self) -> Path:
        """Beside the workspace, with the same rights."""
        return self.root / "outside"

    @property
    def home(self) -> Path:
        """The home of the user, and of the CLI's own settings."""
        return self.root / "home"

    def furnish(self) -> None:
        """Put into the workspace what a project has: files, a repository, instructions, a skill."""
        (self.workspace / "sub").mkdir()
        (self.workspace / "sub" / "inner.txt").write_text("inner\n")
        (self.workspace / "AGENTS.md").write_text("speak of marmalade\n")
        skill = self.workspace / ".agents" / "skills" / "jam-making"
        skill.mkdir(parents=True)
        (skill / "SKILL.md").write_text("---\nname: jam-making\ndescription: boil fruit\n---\nwith sugar\n")
        (self.workspace / "pixel.png").write_bytes(_png())
        subprocess.run(["git", "init", "--quiet", str(self.workspace)], check=True)

    def new_folder(self) -> Path:
        """A new directory in the workspace."""
        return Path(tempfile.mkdtemp(prefix="folder-", dir=self.workspace))

    def gate(self) -> Gate:
        """A new gate in the workspace."""
        path = self.new_folder() / "gate"
        os.mkfifo(path)
        return Gate(path)


@contextmanager
def new_ground() -> Iterator[Ground]:
    """Empty directories for the time of the block."""
    with tempfile.TemporaryDirectory(prefix="paddock-interop-", dir=SCRATCH) as root:
        ground = Ground(Path(root))
        for directory in (ground.workspace, ground.outside, ground.home):
            directory.mkdir()
        yield ground


class Session:
    """A command that goes on, as the model follows it. `output` is everything that it has printed."""

    def __init__(self, codex: Codex, begin: Reply) -> None:
        assert begin.session is not None, begin.text
        self.number = begin.session
        self.output = begin.output
        self.exit_code: int | None = None
        self._codex = codex

    async def type(self, text: str) -> None:
        """Write to it; the empty text waits, until the command ends or some seconds have passed."""
        reply = await self._codex.type(self.number, text)
        assert reply.session or reply.exit_code is not None, reply.text
        self.output += reply.output
        self.exit_code = reply.exit_code

    async def until(self, text: str) -> None:
        """Wait for something that it prints."""
        while text not in self.output:
            assert self.exit_code is None, self.output
            await self.type("")

    async def end(self) -> int:
        """Wait for its end, and give the exit code."""
        while self.exit_code is None:
            await self.type("")
        return self.exit_code


class Codex:
    """A CLI at work. The test is its model: each method has a tool used."""

    def __init__(self, ground: Ground, model: Model, process: asyncio.subprocess.Process) -> None:
        self.ground = ground
        self.opening = ""
        """Everything that the CLI told the model before it asked for anything."""
        self._model = model
        self._process = process

    async def listen(self) -> None:
        """Wait for the first request to the model. Once, before anything else."""
        self.opening = str(await self._model.listen())

    async def use(self, *calls: Call) -> list[Reply]:
        """Have tools used, all at once."""
        return await self._model.use(*calls)

    async def run(self, command: str, **options: Any) -> Reply:
        """Have a shell command run; unless it ends soon the reply names a session."""
        (reply,) = await self.use(shell_command(command, **options))
        return reply

    async def begin(self, command: str, **options: Any) -> Session:
        """Have a command run that does not end by itself."""
        return Session(self, await self.run(command, yield_time_ms=SHORTEST_WAIT_MS, **options))

    async def type(self, session: int, text: str) -> Reply:
        """Write to a command that is running."""
        arguments = {"session_id": session, "chars": text, "yield_time_ms": SHORTEST_WAIT_MS}
        (reply,) = await self.use(Call("write_stdin", arguments))
        return reply

    async def patch(self, *lines: str) -> Reply:
        """Have a patch applied, of which these are the lines between its first and its last."""
        text = "\n".join(("*** Begin Patch", *lines, "*** End Patch", ""))
        (reply,) = await self.use(Call("apply_patch", text))
        return reply

    async def finish(self) -> tuple[int, str]:
        """Let the CLI end: its exit status, and what it printed."""
        self._model.say(LAST_ANSWER)
        status = await self._process.wait()
        return status, (self.ground.home / "stdout").read_text()


def shell_command(command: str, **options: Any) -> Call:
    """The call that runs a command, in a shell that reads no profile."""
    return Call("exec_command", {"cmd": command, "login": False, **options})


@asynccontextmanager
async def codex_cli(
    ground: Ground,
    mode: Mode,
    *options: str,
    url: str | None = None,
    environment: str | None = None,
    model_name: str = WITH_TOOLS,
) -> AsyncIterator[Codex]:
    """A CLI for the time of the block, ready to use tools on a server.

    The server is named by `url`, or by `environment`, the text of a file that says how
    to reach or to start one. A server that the CLI starts shares its view of the files, so
    nothing is hidden then.
    """
    if not PROGRAM.exists():
        pytest.skip("the peer is not installed (make peer)")
    hiding = [] if url is None else _hiding(ground)
    argv = [*hiding, str(PROGRAM), "exec", "--color", "never", "--skip-git-repo-check"]
    argv += ["--sandbox", mode, "--cd", str(ground.workspace), *options, "go on"]
    async with scripted_model() as model:
        (ground.home / "config.toml").write_text(_CONFIG.format(model=model_name, url=model.url))
        if environment is not None:
            (ground.home / "environments.toml").write_text(environment)
        with (ground.home / "stdout").open("wb") as out, (ground.home / "stderr").open("wb") as err:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=_variables(ground, url),
                start_new_session=True,
            )
        watch = asyncio.create_task(_tell_end(process, model))
        try:
            codex = Codex(ground, model, process)
            await codex.listen()
            yield codex
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await watch


async def _tell_end(process: asyncio.subprocess.Process, model: Model) -> None:
    await process.wait()
    model.leave()


def _hiding(ground: Ground) -> list[str]:
    """The beginning of a command that sees the directories of the test empty."""
    program = shutil.which("bwrap")
    if program is None:
        pytest.skip("bubblewrap is not installed")
    hidden = ["--tmpfs", str(ground.workspace), "--tmpfs", str(ground.outside)]
    return [program, "--die-with-parent", "--unshare-pid", "--dev-bind", "/", "/", "--proc", "/proc", *hidden]


def _variables(ground: Ground, url: str | None) -> dict[str, str]:
    home = str(ground.home)
    # A proxy that is not there: what the CLI wants from the internet fails at once, without a name server.
    nowhere = "http://127.0.0.1:9"
    variables = {"HTTP_PROXY": nowhere, "HTTPS_PROXY": nowhere, "NO_PROXY": "127.0.0.1"}
    variables |= {"PATH": os.environ["PATH"], "HOME": home, "CODEX_HOME": home, "LANG": "C.UTF-8"}
    if url is not None:
        variables["CODEX_EXEC_SERVER_URL"] = url
    return variables


_CONFIG = """\
model = "{model}"
model_provider = "test"
check_for_update_on_startup = false

[model_providers.test]
name = "test"
base_url = "{url}"
wire_api = "responses"
requires_openai_auth = false
request_max_retries = 0
stream_max_retries = 0

[analytics]
enabled = false
"""


def _png() -> bytes:
    """An image of one red pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"\0\xff\0\0")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
