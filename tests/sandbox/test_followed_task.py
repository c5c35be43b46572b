"""A task that is followed through an execution becomes the program that was decided on, or is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from paddock.sandbox.denial.followed_task import FollowedTasks

CALLER = """
import os, sys, threading
def execute():
    print(os.getpid(), threading.get_native_id(), flush=True)
    sys.stdin.readline()
    try:
        os.execv(sys.argv[2], ['touch', sys.argv[3]])
    except OSError:
        open(sys.argv[3], 'w').close()
        os._exit(0)
if sys.argv[1] == 'thread':
    threading.Thread(target=execute).start()
    threading.Event().wait()
execute()
"""


@pytest.fixture(params=["process", "thread"])
def who(request: pytest.FixtureRequest) -> str:
    """Who executes: the first thread of a process, or another."""
    return str(request.param)


def killed(who: str, program: str, expected: str, made: Path) -> int:
    """Follow a caller that executes a program, to its end, and give how many were killed."""
    argv = [sys.executable, "-c", CALLER, who, program, str(made)]
    followed = FollowedTasks()
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as caller:
        assert caller.stdin is not None
        assert caller.stdout is not None
        process, task = map(int, caller.stdout.readline().split())
        followed.begin(task, process, os.stat(expected))
        caller.stdin.write(b"\n")
        caller.stdin.flush()
        while followed.follow():
            pass
        return followed.exchanged


def test_the_program_that_was_decided_on_runs(who: str, tmp_path: Path) -> None:
    assert killed(who, "/usr/bin/touch", "/usr/bin/touch", tmp_path / "made") == 0
    assert (tmp_path / "made").exists()


def test_another_program_is_killed_before_it_does_anything(who: str, tmp_path: Path) -> None:
    assert killed(who, "/usr/bin/touch", "/usr/bin/true", tmp_path / "made") == 1
    assert not (tmp_path / "made").exists()


def test_a_caller_whose_execution_fails_goes_on(who: str, tmp_path: Path) -> None:
    assert killed(who, str(tmp_path / "nothing"), "/usr/bin/true", tmp_path / "made") == 0
    assert (tmp_path / "made").exists()


def test_a_caller_that_asks_again_is_left_alone(who: str, tmp_path: Path) -> None:
    """What it executes next is another decision's."""
    argv = [sys.executable, "-c", CALLER, who, "/usr/bin/touch", str(tmp_path / "made")]
    followed = FollowedTasks()
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as caller:
        assert caller.stdout is not None
        process, task = map(int, caller.stdout.readline().split())
        followed.begin(task, process, os.stat("/usr/bin/true"))
        assert followed.release(task)
        assert (bool(followed), followed.release(task)) == (False, False)
        caller.communicate(b"\n", timeout=30)
    assert (caller.returncode, followed.exchanged) == (0, 0)
    assert (tmp_path / "made").exists()


def test_a_caller_whose_end_somebody_else_has_seen_is_forgotten(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", CALLER, "process", "/usr/bin/touch", str(tmp_path / "made")]
    followed = FollowedTasks()
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as caller:
        assert caller.stdout is not None
        process, task = map(int, caller.stdout.readline().split())
        followed.begin(task, process, os.stat("/usr/bin/touch"))
        caller.kill()
        caller.wait(timeout=30)
        assert not followed.follow()
    assert not (tmp_path / "made").exists()


def test_a_thread_that_executes_between_two_looks_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes the number of its process at that moment, and stops until it is looked at."""
    argv = [sys.executable, "-c", CALLER, "thread", "/usr/bin/touch", str(tmp_path / "made")]
    # A child of our own can be waited for in any case.
    not_ours = ["bash", "-c", '"$@" <&0 & wait $!', "bash", *argv]
    followed = FollowedTasks()
    with subprocess.Popen(not_ours, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as caller:
        assert caller.stdin is not None
        assert caller.stdout is not None
        process, task = map(int, caller.stdout.readline().split())
        followed.begin(task, process, os.stat("/usr/bin/touch"))
        wait, stdin = os.waitpid, caller.stdin

        def wait_and_let_it_execute(number: int, options: int) -> tuple[int, int]:
            monkeypatch.undo()
            try:
                return wait(number, options)
            finally:
                stdin.write(b"\n")
                stdin.flush()
                while os.path.exists(f"/proc/{process}/task/{task}"):
                    os.sched_yield()

        monkeypatch.setattr(os, "waitpid", wait_and_let_it_execute)
        try:
            while followed.follow():
                pass
            assert caller.wait(timeout=30) == 0
        finally:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
    assert (tmp_path / "made").exists()
