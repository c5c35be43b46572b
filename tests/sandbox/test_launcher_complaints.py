"""What `paddock sandbox` says of its surroundings when they keep it from doing all that was asked."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from paddock.transport import runtime_directory
from tests.sandbox.launcher import Launcher

COMMAND = ("sandbox", "--", "/bin/sh", "-c", 'touch "$TMPDIR/x" 2>/dev/null && echo written')


@pytest.mark.parametrize(("mode", "is_granted"), [(0o700, True), (0o777, False)])
def test_temporary_directory_that_is_not_granted_is_told_once(
    launcher: Launcher, workspace: Path, new_directory: Path, mode: int, is_granted: bool
) -> None:
    temporary = new_directory / "temporary"
    temporary.mkdir()
    os.chown(temporary, launcher.user, launcher.user)
    temporary.chmod(mode)
    told = "" if is_granted else f"TMPDIR {temporary} is not granted: others can write there (mode 0777)\n"
    env = {"TMPDIR": str(temporary)}
    done = launcher.run(COMMAND, cwd=workspace, env=env)
    assert done.stdout == ("written\n" if is_granted else "")
    assert done.stderr == (told and f"paddock: {told}")
    explained = launcher.run(["sandbox", "--explain"], cwd=workspace, env=env).stdout
    assert explained.endswith(told)
    assert ("is not granted" in explained) is not is_granted
    # Who is not granted any has nothing to miss.
    read_only = ["sandbox", "--profile", ":read-only", "--", "/bin/true"]
    assert launcher.run(read_only, cwd=workspace, env=env).stderr == ""


def test_temporary_directory_in_the_project_is_not_complained_of(launcher: Launcher, workspace: Path) -> None:
    temporary = workspace / "temporary"
    temporary.mkdir()
    os.chown(temporary, launcher.user, launcher.user)
    temporary.chmod(0o777)
    done = launcher.run(COMMAND, cwd=workspace, env={"TMPDIR": str(temporary)})
    assert (done.stdout, done.stderr) == ("written\n", "")


def test_directory_that_others_can_read_is_not_said_to_be_listened_on(
    launcher: Launcher, workspace: Path, new_directory: Path
) -> None:
    runtime = new_directory / "runtime"
    runtime.mkdir()
    os.chown(runtime, launcher.user, launcher.user)
    runtime.chmod(0o755)
    done = launcher.run(COMMAND, cwd=workspace, env={runtime_directory.VARIABLE: str(runtime)})
    assert done.status == 125
    assert f"Paddock has no private directory that it can use: {runtime}: its mode is 0755" in done.stderr
    assert "listen" not in done.stderr


@pytest.mark.parametrize("limit", [12, 16, 20, 24, 28])
def test_command_that_is_not_started_for_want_of_descriptors_says_so_by_its_status(
    new_directory: Path, limit: int
) -> None:
    def want() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))

    done = subprocess.run(
        [sys.executable, "-P", "-m", "paddock.cli.main", "sandbox", "--", "/bin/echo", "ran"],
        cwd=new_directory,
        capture_output=True,
        text=True,
        preexec_fn=want,
        check=False,
    )
    assert (done.returncode, done.stdout) in ((125, ""), (0, "ran\n")), done
    if done.returncode:
        assert "None" not in done.stderr
        assert "Traceback" not in done.stderr
        assert done.stderr.startswith("paddock")
