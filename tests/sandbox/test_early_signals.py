"""A signal for a confined command reaches it, however early it comes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from paddock.transport.runtime_directory import VARIABLE
from tests.operators import PATIENCE_S

AS_USUAL = "from paddock.cli.main import run_and_end; run_and_end()"

WITH_A_SIGNAL = f"""
import os, signal
from paddock.cli import confined
load = confined._load_what_clears_up
def load_late():
    # bubblewrap has just been started.
    os.kill(os.getpid(), signal.SIGTERM)
    load()
confined._load_what_clears_up = load_late
{AS_USUAL}
"""

AT_ONCE = f"""
import os, signal
spawn = os.posix_spawn
def spawn_and_be_signalled(program, argv, *more, **others):
    pid = spawn(program, argv, *more, **others)
    if argv[0] == "sleep":
        os.kill(os.getpid(), signal.SIGTERM)
    return pid
os.posix_spawn = spawn_and_be_signalled
{AS_USUAL}
"""

TRAPS = """
trap "one=1" USR1
trap "two=2" USR2
echo ready
while [ "$one$two" != 12 ]; do read _; done
exit 3
"""


@contextmanager
def started(
    directory: Path, code: str, *command: str, options: Sequence[str] = ()
) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", code, "sandbox", *options, "--", *command],
        cwd=directory,
        env={**os.environ, VARIABLE: str(directory / "runtime")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture(name="directory", params=["planned", "remembered"])
def make_directory(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    if request.param == "remembered":
        with started(tmp_path, AS_USUAL, "true") as earlier:
            _, said = earlier.communicate(timeout=PATIENCE_S)
            assert (earlier.returncode, said) == (0, "")
    return tmp_path


def test_signal_that_comes_before_there_is_a_sandbox_is_not_lost(directory: Path) -> None:
    with started(directory, WITH_A_SIGNAL, "sleep", "1000") as process:
        _, said = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, said) == (128 + signal.SIGTERM, "")


def test_two_signals_at_once_both_reach_the_command(directory: Path) -> None:
    with started(directory, AS_USUAL, "sh", "-c", TRAPS) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGUSR1)
        process.send_signal(signal.SIGUSR2)
        output, said = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, output, said) == (3, "", "")


def test_command_that_nothing_confines_does_not_outlive_a_signal(tmp_path: Path) -> None:
    # Its streams stay open for as long as it lives. With this option it does not take the place of paddock.
    options = ("--profile", ":danger-full-access", "--trace")
    with started(tmp_path, AT_ONCE, "sleep", "1000", options=options) as process:
        process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 128 + signal.SIGTERM
