"""The `paddock` command line as another user would run it, without starting Python each time.

A process that imports everything while it may, gives up root for good, and then forks for
each command line it is sent. So it works even where an ordinary user can't reach the
interpreter, and costs milliseconds. It has one thread, hence forking is safe.

    python -m tests.sandbox.launcher USER DIRECTORY

The directory holds copies of the native programs and the user's runtime directory.
Requests and answers are lines of JSON.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import pkgutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import paddock
from paddock import installation
from paddock.cli.main import main
from paddock.fs import namespace_entry
from paddock.process import spawner
from paddock.sandbox.enforce import init, janitor
from paddock.transport import runtime_directory
from tests.processes import children_of
from tests.sandbox.job_shell import become_job
from tests.sandbox.ways import go_in_launchers, remember_in_launchers, tell_in_launchers

LEAKED_DESCRIPTOR = 9
INSTALLATION = "installation"
"""With the user's number: a directory in the launcher's. Paddock is told that it runs what is in it."""

FOREGROUND, BACKGROUND = "foreground", "background"

READY = "ready"
MCP_SERVER = "paddock.mcp_server"
ADAPTERS = "paddock.adapters"

Stream = tuple[str | int | None, int]
"""A path and the flags to open it with, another stream to copy, or None for a closed one."""


@dataclass(frozen=True)
class Outcome:
    """What came of a command line."""

    status: int
    stdout: str
    stderr: str


class Launcher:
    """Runs command lines as one user. A context manager, so that the process ends with the tests."""

    def __init__(self, user: int, directory: Path) -> None:
        self.user = user
        self.way = "cold"
        """How commands get their sandboxes (`ways`)."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.sandbox.launcher", str(user), str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(
        self,
        arguments: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str] | None = None,
        stdin: str = "",
        leak: Path | None = None,
        streams: Mapping[int, Stream] | None = None,
        job: str | None = None,
    ) -> Outcome:
        """Run `paddock ARGUMENTS`; `leak` is a file that it inherits open as LEAKED_DESCRIPTOR.

        `streams` are what it has in place of the standard ones, which are files that nobody else has. It is a
        `job` of a shell on its terminal: FOREGROUND, BACKGROUND or none.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {
            "arguments": list(arguments),
            "way": self.way,
            "cwd": str(cwd),
            "env": dict(env or {}),
            "stdin": stdin,
            "leak": str(leak) if leak else None,
            "streams": [[number, *stream] for number, stream in (streams or {}).items()],
            "job": job,
        }
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return Outcome(**json.loads(self._process.stdout.readline()))

    def running(self) -> int:
        """The process of the command line that is being run, by another thread."""
        (pid,) = children_of(self._process.pid)
        return pid

    def __enter__(self) -> Launcher:
        # Seconds on a busy machine, which are not to count against the deadlines of a test.
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == f"{READY}\n", "the launcher could not be started"
        return self

    def __exit__(self, *_: object) -> None:
        # Also when it has ended early and its standard input can't be flushed: what stayed open would be
        # a fault of whichever test runs when it is collected.
        with self._process, suppress(BrokenPipeError):
            assert self._process.stdin is not None
            self._process.stdin.close()


def serve(user: int, directory: Path) -> None:
    """Answer requests until there are no more."""
    become_launcher(user, directory)
    print(READY, flush=True)
    for line in sys.stdin:
        print(json.dumps(_answer(json.loads(line))), flush=True)


def become_launcher(user: int, directory: Path) -> Path:
    """Make this process one of the user's that runs command lines in forks. Returns his runtime directory."""
    use_copies(directory)
    import_everything()
    rehearse()
    runtime = become_user(user, directory)
    _have_installation(directory / f"{INSTALLATION}-{user}")
    return runtime


def _have_installation(directory: Path) -> None:
    """A place of the user that counts as one of Paddock's: the real one may be out of his reach."""
    (directory / "lib").mkdir(parents=True, exist_ok=True)
    (directory / "program").write_text("genuine")
    everything = (*installation.own_paths(), str(directory))
    installation.own_paths = lambda: everything


def become_user(user: int, directory: Path) -> Path:
    """Give up root for good, and live in the directory. Returns the user's runtime directory."""
    if os.geteuid() != user:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    runtime = directory / f"runtime-{user}"
    runtime.mkdir(mode=0o700, exist_ok=True)
    os.environ |= {"HOME": str(directory), runtime_directory.VARIABLE: str(runtime), "LC_ALL": "C"}
    for name in ("TMPDIR", "XDG_RUNTIME_DIR"):
        os.environ.pop(name, None)
    return runtime


def import_everything() -> None:
    """Import the package: interpreter and clone may be out of reach at a later import.

    All but the MCP server, which nobody runs here and whose SDK takes longer than all the rest, and the
    adapters, whose frameworks are not here.
    """
    for module in pkgutil.walk_packages(paddock.__path__, "paddock."):
        if not module.name.endswith(".__main__") and not module.name.startswith((MCP_SERVER, ADAPTERS)):
            importlib.import_module(module.name)


def rehearse() -> None:
    """Run a command line while modules that are not ours can still be imported."""
    with redirect_stdout(io.StringIO()), tempfile.TemporaryDirectory() as home:
        os.environ |= {"HOME": home, runtime_directory.VARIABLE: os.path.join(home, "runtime")}
        assert main(["sandbox", "--explain"]) == 0, "the sandbox does not work here"


def use_copies(directory: Path) -> None:
    """Native programs that everybody can reach; an ordinary user may not reach those of the package."""
    programs = ((init, "PATH"), (janitor, "PROGRAM"), (spawner, "HELPER_PATH"), (namespace_entry, "LIBRARY"))
    for module, name in programs:
        named: str | Path = getattr(module, name)
        original = Path(named)
        copy = directory / original.name
        if not copy.exists():
            copy.write_bytes(original.read_bytes())
            copy.chmod(0o755)
        setattr(module, name, type(named)(copy))


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        stdin.write(request["stdin"].encode())
        stdin.seek(0)
        pid = os.fork()
        if pid == 0:
            _become(request, [stdin.fileno(), out.fileno(), err.fileno()])
        _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        answer: dict[str, Any] = {"status": code if code >= 0 else 128 - code}
        for name, file in (("stdout", out), ("stderr", err)):
            file.seek(0)
            answer[name] = file.read().decode(errors="replace")
        return answer


def _become(request: dict[str, Any], streams: list[int]) -> None:
    """Run the command line in this process, a child, and end it."""
    status = 1
    try:
        os.chdir(request["cwd"])
        os.environ.update(request["env"])
        for number, file in enumerate(streams):
            os.dup2(file, number)
        if request["leak"] is not None:
            os.dup2(os.open(request["leak"], os.O_RDONLY), LEAKED_DESCRIPTOR)
        for number, path, flags in request["streams"]:
            if isinstance(path, int):
                os.dup2(path, number)
            elif path is None:
                os.close(number)
            else:
                os.dup2(os.open(path, flags), number)
        if request["job"] is not None:
            become_job(in_background=request["job"] == BACKGROUND)
        if request["way"] == "warm":
            go_in_launchers(pytest.MonkeyPatch())
        elif request["way"] == "remembered":
            remember_in_launchers(pytest.MonkeyPatch())
        elif request["way"] == "told":
            tell_in_launchers(pytest.MonkeyPatch())
        status = main(request["arguments"])
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    serve(int(sys.argv[1]), Path(sys.argv[2]))
