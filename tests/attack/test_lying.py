"""Commands that want to be believed: about what they were denied, and about what ended them.

Each runs under a profile and attempts nothing; it only says so, or ends as if. What a client is told must not
be certain of anything that did not happen. What an honest command is really denied, is told.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import paddock
from tests.attack.ground import Ground

Json = dict[str, Any]
PROJECT: Json = {"path": {"type": "special", "value": {"kind": "project_roots"}}, "access": "write"}
EVERYTHING: Json = {"path": {"type": "special", "value": {"kind": "root"}}, "access": "read"}


@dataclass(frozen=True)
class Lie:
    """A script that lies, and the exit status with which it wants to be believed.

    `@O` is a directory outside that can be read and not written, `@P` the project.
    """

    name: str
    script: str
    status: int = 1
    arguments: tuple[str, ...] = ()
    is_traced: bool = False
    limits: bool = False


LIES = [
    Lie("a file that it never touched", "echo 'cat: @O/file: Permission denied' >&2"),
    Lie(
        "a file that it may write",
        'echo "sh: 1: cannot create $1: Permission denied" >&2',
        arguments=("@P/granted",),
    ),
    Lie("a file-system that is read-only", "echo 'touch: cannot touch @O/new: Read-only file system' >&2"),
    Lie("a denial on standard output", "echo 'mkdir: cannot create directory @O/new: Permission denied'"),
    Lie("a denial that is the name of a file", "echo x > 'rm: @O: Operation not permitted'; ls >&2"),
    Lie(
        "a denial behind a sequence for terminals",
        "printf '\\033[2K\\rcat: @O/file: Permission denied\\n' >&2",
    ),
    Lie(
        "a denial in one of many lines",
        'i=0; while [ $i -lt 200 ]; do echo "cat: @O/$i: Permission denied" >&2; i=$((i+1)); done',
    ),
    Lie(
        "a host that it never called",
        "echo 'curl: (7) Failed to connect to 10.0.0.1 port 80: Operation not permitted' >&2",
        7,
    ),
    Lie("a program that it never ran", "echo 'sh: 1: @O/program: Permission denied' >&2", 126),
    Lie("a program that is not there", "echo 'sh: 1: paddock: not found' >&2", 127),
    Lie("a system call that it never made", "echo 'unshare: unshare failed: Operation not permitted' >&2"),
    Lie("the signal of the filter", "kill -SYS $$", 159),
    Lie("the status of that signal", "exit 159", 159),
    Lie(
        "a denial of what its tracer would have seen",
        "echo 'cat: @O/file: Permission denied' >&2",
        is_traced=True,
    ),
    Lie(
        "a path that leads through a link of its own",
        "ln -sf @O l; echo 'touch: cannot touch @P/l/new: Read-only file system' >&2",
    ),
]

ENDINGS = [
    Lie(
        "that its time was over",
        "echo 'paddock-init: the command was killed, because it took longer than 1 s' >&2",
        124,
        limits=True,
    ),
    Lie(
        "that it was never confined",
        "echo 'paddock-init: landlock: Function not implemented' >&2",
        125,
        limits=True,
    ),
    Lie(
        "that bubblewrap failed", "echo 'bwrap: setting up uid map: Permission denied' >&2", 125, limits=True
    ),
    Lie(
        "that a mask was lost",
        "echo 'paddock-init: somebody has moved what keeps the command from @O' >&2",
        125,
        limits=True,
    ),
    Lie("that its processor time was used up", "exit 152", 152, limits=True),
    Lie("that its memory was used up", "exit 137", 137, limits=True),
    Lie(
        "in reports on every descriptor",
        "bash -c 'for i in {3..255}; do printf \"\\003\\000\\000\\000%064d\" 0 >&$i; done' 2>&-",
        7,
        limits=True,
    ),
    Lie(
        "in reports on the descriptors of the first process",
        "for f in /proc/1/fd/*; do printf '\\001\\000\\000\\000%064d' 0 > $f; done 2>&-; exit 7",
        7,
        limits=True,
    ),
]


@pytest.fixture(name="ground")
def ground_of_the_user(territory: Path, user: int) -> Iterator[Ground]:
    ground = Ground(Path(tempfile.mkdtemp(prefix="y-", dir=territory)), user)
    (ground.outside / "file").write_text("can be read")
    (ground.project / "granted").touch()
    ground.give()
    yield ground
    ground.remove()


class Court:
    """Hears commands in one project. Their scripts are files, so that their words are not their callers'."""

    def __init__(self, box: paddock.Box, ground: Ground) -> None:
        self._box = box
        self._ground = ground

    async def hear(self, lie: Lie) -> paddock.CompletedProcess[bytes]:
        """Run it."""
        script = self._ground.project / "said"
        script.write_text(self._filled(f"{lie.script}\nexit {lie.status}\n"))
        profile: Json = {
            "type": "managed",
            "file_system": {"type": "restricted", "entries": [EVERYTHING, PROJECT]},
        }
        if lie.limits:
            profile["limits"] = {
                "wallSeconds": 1000,
                "cpuSeconds": 1000,
                "memoryBytes": 1 << 40,
                "processes": 500,
            }
        sandbox = paddock.Sandbox(profile, roots=[self._ground.project], trace=lie.is_traced)
        words = ["/bin/sh", str(script), *map(self._filled, lie.arguments)]
        env = {"PATH": "/usr/bin:/bin"}
        return await self._box.run(words, cwd=self._ground.project, sandbox=sandbox, env=env)

    def _filled(self, text: str) -> str:
        return text.replace("@O", str(self._ground.outside)).replace("@P", str(self._ground.project))


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.name)
async def test_nothing_is_certain_because_a_command_says_so(lie: Lie, url: str, ground: Ground) -> None:
    async with paddock.connect(url) as box:
        done = await Court(box, ground).hear(lie)
    assert done.returncode == lie.status
    assert [denial for denial in done.ending.denials if denial.is_certain] == []


@pytest.mark.parametrize("lie", ENDINGS, ids=lambda lie: lie.name)
async def test_end_of_a_command_is_what_the_kernel_says(lie: Lie, url: str, ground: Ground) -> None:
    async with paddock.connect(url) as box:
        done = await Court(box, ground).hear(lie)
    assert (done.returncode, done.ending.cause) == (lie.status, paddock.Cause.EXIT)


async def test_what_really_happens_is_told(url: str, ground: Ground) -> None:
    async with paddock.connect(url) as box:
        court = Court(box, ground)
        written = await court.hear(Lie("writes", "echo x > $1", 2, arguments=("@O/file",)))
        traced = await court.hear(Lie("writes", "echo x > @O/file", 2, is_traced=True))
    for done in (written, traced):
        assert [(denial.target, denial.is_certain) for denial in done.ending.denials] == [
            (str(ground.outside / "file"), True)
        ]
