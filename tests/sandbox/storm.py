"""Launchers in one tree of which some end in order and others are killed, with or without their janitors.

A process that has imported everything forks each launcher, so that hundreds take seconds. It
writes nothing itself: what the commands write is its output, which ends when the last of
everything that was started is gone.

    python -m tests.sandbox.storm STORM
"""

from __future__ import annotations

import os
import random
import select
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from paddock.cli.main import main
from tests.sandbox.launcher import become_launcher


class Storm(msgspec.Struct, frozen=True, kw_only=True):
    """What is to happen. It is the same for the same seed, as far as the kernel's scheduler allows."""

    user: int
    directory: str
    """For the launchers' own files."""
    project: str
    scripts: list[tuple[str, str]]
    """Profiles, as JSON, each with a script for bash; the scripts find a number from 1 to 9 in $0."""
    seed: int
    launchers: int
    at_once: int
    span_s: float
    """A launcher is killed after a part of this, unless it has ended."""
    kills_janitors: bool = False


def rage(storm: Storm) -> None:
    """Start all launchers, and see the last of them."""
    runtime = become_launcher(storm.user, Path(storm.directory))
    os.chdir(storm.project)
    chance = random.Random(storm.seed)
    silence, _ = os.pipe()
    os.dup2(silence, 0)
    doomed: dict[int, float] = {}
    for _ in range(storm.launchers):
        profile, script = chance.choice(storm.scripts)
        pid = os.fork()
        if pid == 0:
            _launch(["sandbox", "--profile", profile, "--", "bash", "-c", script, str(chance.randint(1, 9))])
        doomed[pid] = time.monotonic() + chance.uniform(0, storm.span_s)
        if len(doomed) == storm.at_once:
            _kill_next(doomed)
            if storm.kills_janitors:
                _kill_some_of(janitors(runtime), chance)
    while doomed:
        _kill_next(doomed)


def janitors(runtime: Path) -> list[int]:
    """The janitors that have their journals in this directory."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                command = (process / "cmdline").read_bytes()
            except OSError:
                continue
            if b"paddock-janitor" in command and os.fsencode(runtime) in command:
                found.append(int(process.name))
    return sorted(found)


def _launch(arguments: list[str]) -> None:
    try:
        os._exit(main(arguments))
    finally:
        os._exit(1)


def _kill_next(doomed: dict[int, float]) -> None:
    pid = min(doomed, key=doomed.__getitem__)
    handle = os.pidfd_open(pid)
    select.select([handle], [], [], max(0.0, doomed.pop(pid) - time.monotonic()))
    os.close(handle)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def _kill_some_of(processes: list[int], chance: random.Random) -> None:
    for pid in processes:
        with suppress(ProcessLookupError):
            if chance.random() < 0.5:
                os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    rage(msgspec.json.decode(sys.argv[1], type=Storm))
