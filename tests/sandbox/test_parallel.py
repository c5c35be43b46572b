"""Several commands in one workspace, and launchers that are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from paddock.transport import runtime_directory
from tests.sandbox.storm import janitors

TRY = "mkdir .git 2>/dev/null; touch .git/x 2>/dev/null && echo OPEN; exit 0"
DEADLINE_S = 20.0


@pytest.fixture
def project(ground: Path) -> Path:
    directory = ground / f"project-{time.monotonic_ns()}"
    directory.mkdir()
    return directory


@pytest.fixture
def runtime(project: Path) -> Path:
    directory = project.with_name(f"{project.name}-runtime")
    directory.mkdir(mode=0o700)
    return directory


def _start(project: Path, script: str, runtime: Path | None = None) -> subprocess.Popen[str]:
    own = {runtime_directory.VARIABLE: str(runtime)} if runtime is not None else {}
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "paddock", "sandbox", "--", "/bin/bash", "-c", script],
        cwd=project,
        env=os.environ | own,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _wait_until_empty(directory: Path) -> None:
    _wait_until_none(lambda: list(directory.iterdir()))


def _wait_until_none(left: Callable[[], Sequence[object]]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while left():
        assert time.monotonic() < deadline, left()
        time.sleep(0.01)


def test_command_that_ends_does_not_open_the_mask_of_another(project: Path) -> None:
    with _start(project, f"echo ready; read; {TRY}") as long:
        assert long.stdout is not None
        assert long.stdout.readline() == "ready\n"
        with _start(project, TRY) as short:
            assert short.communicate()[0] == ""
        assert long.communicate("go\n")[0] == ""
    assert list(project.iterdir()) == []


def test_mask_stays_though_its_janitor_is_killed_and_another_clears_away(
    project: Path, runtime: Path
) -> None:
    with _start(project, f"echo ready; read; {TRY}", runtime) as long:
        assert long.stdout is not None
        assert long.stdout.readline() == "ready\n"
        for janitor in janitors(runtime):
            os.kill(janitor, signal.SIGKILL)
        with _start(project, TRY, runtime) as short:
            assert short.communicate()[0] == ""
            # It tries for a while to clear away what the killed one has left.
            _wait_until_none(lambda: janitors(runtime))
        assert long.communicate("go\n")[0] == ""
    _wait_until_empty(project)


def test_killed_launcher_takes_its_command_along_and_leaves_nothing(project: Path) -> None:
    with _start(project, "echo ready; read; sleep 60") as command:
        assert command.stdout is not None
        assert command.stdout.readline() == "ready\n"
        assert (project / ".git").is_dir()
        command.send_signal(signal.SIGKILL)
        # The command had its end of the pipe, too: this is the end of both.
        assert command.stdout.read() == ""
    _wait_until_empty(project)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_reaches_the_command_which_ends_as_it_likes(project: Path, number: signal.Signals) -> None:
    script = f"trap 'echo caught; exit 7' {number.name}; echo ready; while :; do sleep 0.05; done"
    with _start(project, script) as command:
        assert command.stdout is not None
        assert command.stdout.readline() == "ready\n"
        os.kill(command.pid, number)
        assert command.communicate()[0] == "caught\n"
    assert command.returncode == 7
    assert list(project.iterdir()) == []


def test_run_confines_its_command_by_a_profile(project: Path) -> None:
    argv = [sys.executable, "-P", "-m", "paddock", "run", "--profile", ":read-only", "--", "/bin/sh", "-c"]
    script = "cat; touch made || exit 3"
    done = subprocess.run(
        [*argv, script], cwd=project, input="told\n", capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (3, "told\n")
    assert "Read-only file system" in done.stderr
    assert list(project.iterdir()) == []
