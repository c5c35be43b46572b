"""The programs in `examples/` do what they say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"
PATIENCE_S = 50.0


def run_program(name: str, *arguments: str | Path) -> str:
    done = subprocess.run(
        [sys.executable, EXAMPLES / name, *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture
def project(tmp_path: Path) -> Path:
    directory = tmp_path / "project"
    directory.mkdir()
    return directory


def test_agent_loop_streams_what_the_session_answers() -> None:
    printed = run_program("agent_loop.py")
    assert "[1, 2, 3]" in printed
    assert "ZeroDivisionError" in printed
    assert "bye" in printed.splitlines()[1]


@pytest.mark.parametrize(
    ("script", "verdict"),
    [
        ("echo fine > result", "passed\n"),
        ("exit 3", "failed with status 3\n"),
        ("touch /etc/nope", "failed: write /etc/nope is denied (root = read)\n"),
        ("python3 -c 'bytearray(3_000_000_000)'", "stopped by the limit of memory\n"),
    ],
)
def test_runner_says_why_tests_failed(project: Path, script: str, verdict: str) -> None:
    assert run_program("sandboxed_tests.py", project, "sh", "-c", script).startswith(verdict)


def test_remote_edit_changes_the_copy_and_waits_until_it_is_seen(project: Path, tmp_path: Path) -> None:
    (project / "a.py").write_text("area = 1\n")
    (project / "b.py").write_text("nothing\n")
    (tmp_path / "there").mkdir()
    printed = run_program("remote_edit.py", project, tmp_path / "there", "area", "surface")
    assert printed.splitlines()[-2:] == ["-area = 1", "+surface = 1"]
    assert (tmp_path / "there/project/a.py").read_text() == "surface = 1\n"
    assert (project / "a.py").read_text() == "area = 1\n"
