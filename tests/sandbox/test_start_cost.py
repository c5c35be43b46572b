"""What a sandboxed start costs, told by counts, because times differ from run to run.

Whoever makes a count rise has to say here what for.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from paddock.model.host import BwrapCapabilities
from paddock.sandbox.enforce import bwrap
from paddock.sandbox.enforce.command import Command
from paddock.sandbox.host import probe
from paddock.sandbox.launch import Sandbox
from paddock.sandbox.plan.mount import UnreadableFile
from paddock.sandbox.profile.enforced import is_enforced
from paddock.sandbox.profile.table import parse_table

CALLS = ("close", "dup", "fstat", "listdir", "lstat", "open", "readlink", "scandir", "stat", "statvfs")
CALLS_LIMIT = 100
"""System calls of the above for one start, where the workspace is three directories deep."""

TABLE_READS = dict.fromkeys(("--bind", "--ro-bind", "--dev-bind", "--remount-ro"), 1) | {
    "--dev": 6,
    # It covers what can be written.
    "--proc": 4 if os.geteuid() == 0 else 0,
}
"""How often bubblewrap reads the table of all mounts for an option, a tenth of a millisecond each."""
TABLE_READS_LIMIT = 15 if os.geteuid() == 0 else 16
"""For the root, the workspace, what is missing in it, the private directory and /proc. bubblewrap makes the
/dev of an ordinary user; for root there is one already, but more covers /proc."""

PROFILE = parse_table(
    {"permissions": {"w": {"filesystem": {":root": "read", ":workspace_roots": "write"}}}}, "w.toml", "/", "w"
).profile
"""Like `:workspace` without /tmp: other programs make there what costs a look, or a mount."""


@pytest.fixture(name="directory")
def make_directory() -> Iterator[Path]:
    """A directory of the same depth everywhere."""
    with tempfile.TemporaryDirectory(prefix="paddock-", dir="/var/tmp") as name:
        yield Path(name).resolve()


@pytest.fixture(name="sandbox")
def make_sandbox(directory: Path) -> Iterator[Sandbox]:
    private = directory / "private"
    private.mkdir(mode=0o700)
    sandbox = Sandbox(probe.host(), private)
    yield sandbox
    sandbox.close()


@pytest.fixture(name="command")
def make_command(directory: Path) -> Command:
    workspace = directory / "workspace"
    workspace.mkdir()
    return Command(["/bin/true"], str(workspace), (str(workspace),), {})


def _prepare(sandbox: Sandbox, command: Command) -> None:
    confined = sandbox.prepare(PROFILE, command)
    confined.started()
    confined.ended(was_killed=False)


def test_start_asks_little_of_the_system(
    sandbox: Sandbox, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    _prepare(sandbox, command)
    asked: Counter[str] = Counter()
    for name in CALLS:
        original = getattr(os, name)

        def count(
            *words: object,
            name: str = name,
            original: Callable[..., object] = original,
            **options: object,
        ) -> object:
            asked[name] += 1
            return original(*words, **options)

        monkeypatch.setattr(os, name, count)
    _prepare(sandbox, command)
    monkeypatch.undo()
    assert asked.total() <= CALLS_LIMIT, asked


def test_bubblewrap_has_few_mounts_to_make(sandbox: Sandbox, command: Command) -> None:
    assert is_enforced(PROFILE)
    plan = sandbox.planner.plan(PROFILE, command)
    words = bwrap.options(plan, BwrapCapabilities(), bwrap.HostFiles("/init", "/void"))
    # How many of the kernel's files are closed depends on the kernel.
    closed = sum(isinstance(mount, UnreadableFile) for mount in plan.mounts)
    reads = sum(TABLE_READS.get(word, 0) for word in words) - closed
    assert reads <= TABLE_READS_LIMIT, words
