"""A limit of the memory that all processes of a command use together, by a control group of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from pathlib import Path

import pytest

import paddock
from paddock.sandbox.host import cgroup_controller
from paddock.sandbox.host.kernel import Kernel
from tests.operators import PADDOCK, PATIENCE_S
from tests.serving import serving

MOST = 120_000_000
PYTHON = "python3", "-I", "-S", "-c"
HOARD = "x = b'a' * 80_000_000; print(flush=True); input()"
"""What one process uses is less than the limit."""

HOARDERS = f"""\
import subprocess, sys
PIPE = subprocess.PIPE
hoarders = [subprocess.Popen([*{PYTHON}, "{HOARD}"], stdin=PIPE, stdout=PIPE) for _ in range(2)]
for hoarder in hoarders:
    hoarder.stdout.readline()
for hoarder in hoarders:
    hoarder.communicate(b'x')
sys.exit(any(hoarder.returncode for hoarder in hoarders))
"""
"""Neither ends before both have taken their memory, or one was killed."""
COMMAND = [*PYTHON, HOARDERS]


@pytest.fixture(name="groups")
def directory_of_groups() -> Path:
    directory = cgroup_controller.directory(Kernel(), "memory")
    if directory is None:
        pytest.skip("control groups with `memory` can't be made here")
    return Path(directory)


def ours(groups: Path) -> set[str]:
    return {path.name for path in groups.glob("paddock-*")}


async def until_gone(groups: Path, names: set[str]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        # The kernel tells nobody that a directory of this kind is gone.
        while ours(groups) & names:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_processes_that_use_too_much_together_are_ended_by_memory(groups: Path) -> None:
    before = ours(groups)
    async with paddock.connect() as box:
        free = await box.run(COMMAND, sandbox=":workspace")
        done = await box.run(COMMAND, sandbox=":workspace", limits=paddock.Limits(total_memory_bytes=MOST))
        assert (free.returncode, free.ending.cause) == (0, paddock.Cause.EXIT)
        assert (done.returncode, done.ending.cause) == (1, paddock.Cause.MEMORY)
    await until_gone(groups, ours(groups) - before)


async def test_no_group_is_left_when_the_server_is_killed(groups: Path) -> None:
    before = ours(groups)
    limits = paddock.Limits(total_memory_bytes=MOST, processes=20)
    with serving() as server:
        box = await paddock.connect(server.url, reconnect=None)
        process = await box.start(["cat"], stdin=True, sandbox=":read-only", limits=limits)
        await process.write(b"ready")
        await process.read_until("ready")
        made = ours(groups) - before
        assert made
        os.kill(server.pid, signal.SIGKILL)
        await until_gone(groups, made)
        await box.aclose()


def test_sandbox_without_a_server_says_what_ended_the_command(groups: Path, new_directory: Path) -> None:
    profile = new_directory / "little.toml"
    profile.write_text(
        'default_permissions = "little"\n[permissions.little]\nextends = ":workspace"\n'
        f"limits = {{ totalMemoryBytes = {MOST} }}\n"
    )
    done = subprocess.run(
        [*PADDOCK, "sandbox", "--profile", str(profile), "--", *COMMAND],
        cwd=new_directory,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        env=os.environ,
    )
    assert done.returncode == 1
    assert "paddock sandbox: the limit totalMemoryBytes of its profile ended it" in done.stderr
