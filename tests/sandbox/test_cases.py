"""Commands under profiles, and what must come of them: tests/data/sandbox/cases.json.

A case is a profile, a command and what is wanted of it. `command` is an argument list, `python` a
script for the host's Python with two functions that tell what an attempt came to. `@W` is the
workspace, `@OUT` a directory outside it, `@FIX` what the fixtures below make; `created` and
`removed` are what changed in the workspace.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.identity import PYTHON, drop_to
from tests.sandbox.launcher import Launcher, Outcome

pytestmark = pytest.mark.usefixtures("launcher_way")

Case = dict[str, Any]

DATA = json.loads((Path(__file__).parent.parent / "data" / "sandbox" / "cases.json").read_text())
CASES: list[Case] = DATA["cases"]

PRELUDE = """
import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, action):
    try:
        print(name, "OK", action())
    except OSError as error:
        print(name, "ERR", error.errno)
def syscall(name, *arguments):
    failed = libc.syscall(*arguments) < 0
    print(name, "ERR" if failed else "OK", *([ctypes.get_errno()] if failed else []))
"""

OLD_BUBBLEWRAP = """#!/bin/sh
[ "$1" = --help ] && echo "usage: bwrap --as-pid-1 --argv0" || echo OLD-BWRAP-RAN
"""


@dataclass
class Host:
    """What is outside the sandbox."""

    outside: Path
    fixtures: Path
    port: int
    datagrams: socket.socket
    abstract_name: str


@pytest.fixture(scope="module")
def host(ground: Path) -> Iterator[Host]:
    outside = Path(tempfile.mkdtemp(prefix="out-", dir=ground))
    fixtures = Path(tempfile.mkdtemp(prefix="fix-", dir=ground))
    for directory in (outside, fixtures):
        directory.chmod(0o777)
    (outside / "any").write_text("outside\n")
    (fixtures / "secret").write_text("host-secret\n")
    for name in ("empty", "tmpdir", "bwrap-only", "old-bwrap"):
        (fixtures / name).mkdir()
        # As /tmp is, or nobody would take it for a temporary directory.
        (fixtures / name).chmod(0o1777 if name == "tmpdir" else 0o777)
    if bubblewrap := shutil.which("bwrap"):
        (fixtures / "bwrap-only" / "bwrap").symlink_to(bubblewrap)
    (fixtures / "old-bwrap" / "bwrap").write_text(OLD_BUBBLEWRAP)
    (fixtures / "old-bwrap" / "bwrap").chmod(0o755)
    abstract_name = f"paddock-tests-{os.getpid()}"
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as abstract,
    ):
        datagrams.bind(str(outside / "host.sock"))
        datagrams.setblocking(False)
        (outside / "host.sock").chmod(0o777)
        abstract.bind("\0" + abstract_name)
        thread = threading.Thread(target=_answer_requests, args=(server,))
        thread.start()
        yield Host(outside, fixtures, server.getsockname()[1], datagrams, abstract_name)
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def _answer_requests(server: socket.socket) -> None:
    while True:
        try:
            client, _ = server.accept()
        except OSError:
            return
        with client:
            client.recv(4096)
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nok\n")


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_command_gets_exactly_what_its_profile_grants(
    case: Case, launcher: Launcher, workspace: Path, host: Host
) -> None:
    for need in case.get("needs", []):
        if not _is_met(need, launcher.user):
            pytest.skip(f"needs {need}")
    names = _placeholders(host, workspace)
    case = _filled({**case, "profile": DATA["profiles"].get(str(case["profile"]), case["profile"])}, names)
    _prepare(case, workspace, launcher.user)
    before = _tree(workspace)
    outcome = _launch(case, _command(case), launcher, workspace, host)
    after = _tree(workspace)
    _check(case["want"], outcome, sorted(after - before), sorted(before - after))
    if "next_command" in case:
        _check(case["want"]["next_command"], _launch(case, case["next_command"], launcher, workspace, host))
    if case.get("host_socket"):
        with pytest.raises(BlockingIOError):
            host.datagrams.recv(100)


def _is_met(need: str, user: int) -> bool:
    if need == "root":
        return user == 0
    return platform.machine() == need or shutil.which(need) is not None


def _placeholders(host: Host, workspace: Path) -> dict[str, str]:
    status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {
        "@HOSTPID": str(os.getpid()),
        "@HOSTNET": os.readlink("/proc/self/ns/net"),
        "@HOSTNNP": status["NoNewPrivs"],
        "@HOSTSECCOMP": status["Seccomp"],
        "@ABSTRACT": host.abstract_name,
        "@PORT": str(host.port),
        "@OUT": str(host.outside),
        "@FIX": str(host.fixtures),
        "@W": str(workspace),
    }


def _filled(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, str):
        for name, text in names.items():
            value = value.replace(name, text)
        return value
    if isinstance(value, list):
        return [_filled(item, names) for item in value]
    if isinstance(value, dict):
        return {key: _filled(item, names) for key, item in value.items()}
    return value


def _prepare(case: Case, workspace: Path, user: int) -> None:
    script = case.get("setup", ":")
    if case.get("git"):
        script += "\ngit init -q . && git config user.email a@b && git config user.name n"
    if case.get("git") or "setup" in case:
        subprocess.run(
            ["/bin/bash", "-c", script],
            cwd=workspace,
            check=True,
            capture_output=True,
            env={"PATH": os.environ["PATH"], "HOME": str(workspace)},
            **drop_to(user),
        )


def _command(case: Case) -> list[str]:
    if "python" in case:
        return [PYTHON, "-c", PRELUDE + case["python"]]
    command: list[str] = case["command"]
    return command


def _launch(case: Case, command: list[str], launcher: Launcher, workspace: Path, host: Host) -> Outcome:
    options = ["--policy-cwd", str(workspace), "--profile", json.dumps(case["profile"])]
    return launcher.run(
        ["sandbox", *options, *case.get("extra", []), "--", *command],
        cwd=workspace,
        # Not that of the tests: it may lead to where an ordinary user can't look.
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", **case.get("env", {})},
        stdin=case.get("stdin", ""),
        leak=host.fixtures / "secret" if case.get("leak_descriptor") else None,
    )


def _tree(root: Path) -> set[str]:
    """Everything in a directory, except what is inside its `.git`."""
    paths = (str(path.relative_to(root)) for path in root.rglob("*"))
    return {path for path in paths if not path.startswith(".git/")}


def _check(
    want: dict[str, Any], outcome: Outcome, created: list[str] | None = None, removed: list[str] | None = None
) -> None:
    if "any_of" in want:
        problems = [_problem(option, outcome, created, removed) for option in want["any_of"]]
        assert "" in problems, problems
    else:
        problem = _problem(want, outcome, created, removed)
        assert not problem, f"{problem}: {outcome}"


def _problem(
    want: dict[str, Any], outcome: Outcome, created: list[str] | None, removed: list[str] | None
) -> str:
    """The first thing that is not as it should be."""
    stdout, stderr = outcome.stdout.strip(), outcome.stderr
    checks: dict[str, Callable[[Any], object]] = {
        "exit": lambda value: outcome.status == value,
        "exit_not": lambda value: outcome.status not in value,
        "stdout": lambda value: stdout == value.strip(),
        "stdout_regex": lambda value: re.fullmatch(value, stdout, re.DOTALL),
        "stdout_contains": lambda value: all(part in stdout for part in value),
        "stderr_contains": lambda value: all(part in stderr for part in value),
        "stderr_regex": lambda value: re.search(value, stderr),
        "must_not_contain": lambda value: not any(part in stdout + stderr for part in value),
        "created": lambda value: created is None or created == value,
        "removed": lambda value: removed is None or removed == value,
        "next_command": lambda _: True,
        "host_socket_received": lambda _: True,
    }
    return next((name for name, value in want.items() if not checks[name](value)), "")
