"""What a command plants where Paddock itself looks: its private directories, and programs that it runs."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

import paddock
from paddock.errors import PaddockError
from tests.attack.attempt import USERS, Attempt, each_attempt, is_changed, is_leaked
from tests.attack.conftest import Arena, NewGround
from tests.attack.server import server_apart

PATH = "/usr/local/bin:/usr/bin:/bin"
DEFAULT = "/tmp/paddock-$(id -u)"
"""Where a user without a login has his sockets and places."""

DIRECTORIES = [
    Attempt(
        "the directory that Paddock would make, made before",
        f"mkdir -m 700 {DEFAULT}; touch {DEFAULT}/planted",
        is_changed,
        profile="temporary",
        host_script=f"rm -rf {DEFAULT}",
        afterwards=f"[ ! -e {DEFAULT}/planted ] || mv {DEFAULT} $OUT/victim/",
        is_alone=True,
    ),
    Attempt(
        "a link in the place of the directory that Paddock would make",
        f"mkdir d; ln -s $PWD/d {DEFAULT}",
        is_changed,
        profile="temporary",
        host_script=f"rm -rf {DEFAULT}",
        afterwards=f"[ ! -L {DEFAULT} ] || mv {DEFAULT} $OUT/victim/",
        is_alone=True,
    ),
    Attempt(
        "the private directory of another launcher",
        "cat /tmp/paddock-*/*",
        is_leaked,
        profile="everything",
        host_script=f"rm -rf {DEFAULT}; mkdir -m 700 {DEFAULT}; echo $SECRET > {DEFAULT}/key",
        is_alone=True,
    ),
    Attempt(
        "the private directory of its own launcher",
        "cat $PRIVATE$(id -u)/key",
        is_leaked,
        profile="everything",
        prepare=lambda cell: {"PRIVATE": f"{cell.inside.parents[4]}/runtime-"},
        host_script="echo $SECRET > $PRIVATE$(id -u)/key",
        afterwards="rm -f $PRIVATE$(id -u)/key",
        is_alone=True,
    ),
]


@each_attempt(DIRECTORIES)
def test_private_directory_is_out_of_reach(attempt: Attempt, user: int, arena: Arena) -> None:
    arena.judge(attempt, DIRECTORIES, user)


PROGRAMS = ("bwrap", "rg", "git", "python3", "sh", "paddock-init", "paddock-janitor", "paddock-spawner")


def _plant(directory: Path, canary: Path, user: int) -> None:
    directory.mkdir(exist_ok=True)
    os.chown(directory, user, user)
    for name in PROGRAMS:
        path = directory / name
        path.write_text(f"#!/bin/sh\n: > {canary}\n")
        path.chmod(0o755)
        os.chown(path, user, user)


@pytest.mark.parametrize("user", USERS, ids=lambda user: "root" if user == 0 else "ordinary")
async def test_program_planted_in_the_path_of_a_server_is_never_run(
    user: int, new_ground: NewGround, territory: Path
) -> None:
    ground = new_ground(user)
    directory, canary = ground.project / "bin", ground.outside / "canary"
    directory.mkdir()
    for number in range(200):
        (ground.project / f"file-{number}").write_text("needle\n")
    ground.give()
    with server_apart(user, territory, env={"PATH": f"{directory}:{PATH}"}) as url:
        _plant(directory, canary, user)
        async with paddock.connect(url) as box:
            sandbox = paddock.Sandbox(":workspace", roots=[ground.project])
            for files in (box.fs, box.fs.confined(sandbox)):
                # It may be refused, for what was found could be written by commands.
                with contextlib.suppress(PaddockError):
                    await files.search(ground.project, "needle")
            with contextlib.suppress(PaddockError):
                await box.run(["/bin/true"], cwd=ground.project, sandbox=sandbox)
            assert not canary.exists()
            await box.run(["rg"], env={"PATH": f"{directory}:{PATH}"}, cwd=ground.project)
            assert canary.exists()


@pytest.mark.parametrize("user", USERS, ids=lambda user: "root" if user == 0 else "ordinary")
async def test_program_planted_before_a_server_starts_runs_for_no_project_that_holds_it(
    user: int, new_ground: NewGround, territory: Path
) -> None:
    ground = new_ground(user)
    directory, canary = ground.project / "bin", ground.outside / "canary"
    ground.give()
    _plant(directory, canary, user)
    with server_apart(user, territory, env={"PATH": f"{directory}:{PATH}"}) as url:
        async with paddock.connect(url) as box:
            sandbox = paddock.Sandbox(":workspace", roots=[ground.project])
            with contextlib.suppress(PaddockError):
                await box.run(["/bin/true"], cwd=ground.project, sandbox=sandbox)
            assert not canary.exists()
            await box.run(["bwrap"], env={"PATH": f"{directory}:{PATH}"}, cwd=ground.project)
            assert canary.exists()
