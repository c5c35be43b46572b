"""Many submodules, grants and project roots: all of them are protected, and a command starts.

If there are many, most of the mounts are made before bubblewrap starts. Where nothing can be mounted then,
bubblewrap makes all of them.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from paddock.sandbox.enforce import init
from tests.sandbox.identity import ORDINARY, PYTHON, drop_to
from tests.sandbox.launcher import Launcher, Outcome

SUBMODULES = 150
"""More than placeholders ever had descriptors, and more than are left to bubblewrap."""

ATTACK = """
import contextlib, os, shutil, sys

def attempt(action, *arguments):
    with contextlib.suppress(OSError):
        action(*arguments)

for place in (f"libs/sub{number}" for number in range(1, int(sys.argv[1]) + 1)):
    git = f"{place}/.git"
    attempt(os.remove, git)
    attempt(shutil.rmtree, git)
    attempt(os.makedirs, git)
    attempt(os.mkdir, f"{git}/made")
    attempt(os.symlink, "x", git)
    attempt(os.rename, git, f"{place}/away")
    attempt(os.rename, place, "away")
attempt(os.rename, "libs", "gone")
os.mkdir("ran")
"""

SHELL = ("/bin/sh", "-c")

PREPARATIONS = {
    "checked out": "mkdir -p $place; echo x > $place/file; echo gitdir: ../../.git/modules/x > $place/.git",
    "old": "mkdir -p $place/.git; echo x > $place/.git/HEAD",
    "empty": "mkdir -p $place",
    "copied": "mkdir -p $place; echo x > $place/file",
    "missing": ":",
}


def _confined(launcher: Launcher, project: Path, script: tuple[str, ...], *more: str) -> Outcome:
    words = ["sandbox", "--policy-cwd", str(project), *more, "--", *script]
    env = {"PATH": os.environ["PATH"], "HOME": str(project)}
    return launcher.run(words, cwd=project, env=env)


def _profile(entries: list[tuple[str, str]]) -> str:
    root = {"path": {"type": "special", "value": {"kind": "root"}}, "access": "read"}
    named = [{"path": {"type": "path", "path": path}, "access": access} for path, access in entries]
    return json.dumps({"type": "managed", "file_system": {"type": "restricted", "entries": [root, *named]}})


def _tree(directory: Path) -> dict[str, str | None]:
    return {
        str(path.relative_to(directory)): path.read_text(errors="replace") if path.is_file() else None
        for path in directory.rglob("*")
    }


@pytest.mark.parametrize("kind", PREPARATIONS)
def test_every_one_of_many_submodules_is_protected(launcher: Launcher, workspace: Path, kind: str) -> None:
    script = (
        "git init -q .; head=$(printf %040d 1); mkdir libs;"
        f"for number in $(seq {SUBMODULES}); do place=libs/sub$number; {PREPARATIONS[kind]};"
        'echo "160000 $head 0\tlibs/sub$number" >&3; done 3> list;'
        "git update-index --index-info < list; rm list"
    )
    subprocess.run(["/bin/sh", "-c", script], cwd=workspace, check=True, **drop_to(launcher.user))
    before = _tree(workspace)
    attack = (PYTHON, "-c", ATTACK, str(SUBMODULES))
    done = _confined(launcher, workspace, attack)
    assert done.status == 0, done
    assert _tree(workspace) == {**before, "ran": None}
    if kind in ("checked out", "copied"):
        used = "for each in libs/*; do echo y > $each/n && mv $each/n $each/file; done; cat libs/*/file"
        assert _confined(launcher, workspace, (*SHELL, used)).stdout == "y\n" * SUBMODULES
    (workspace / "ran").rmdir()
    subprocess.run(attack, cwd=workspace, check=True, **drop_to(launcher.user))
    assert (workspace / "gone").exists()


def test_a_hundred_directories_can_be_granted(launcher: Launcher, workspace: Path) -> None:
    project = workspace / "project"
    granted = [workspace / f"granted{number}" for number in range(100)]
    for directory in (project, *granted):
        directory.mkdir()
        os.chown(directory, launcher.user, launcher.user)
    profile = _profile([(str(path), "write") for path in granted])
    attempt = f"for each in {workspace}/granted*; do echo x > $each/file; mkdir $each/.git; done"
    done = _confined(launcher, project, (*SHELL, attempt), "--profile", profile)
    assert done.stderr.count("File exists") == len(granted), done
    assert _tree(workspace) == {
        "project": None,
        **{path.name: None for path in granted},
        **{f"{path.name}/file": "x\n" for path in granted},
    }


@pytest.mark.parametrize("count", [1, 60])
def test_what_is_writable_in_read_only_directories_is_so_among_many(
    launcher: Launcher, workspace: Path, count: int
) -> None:
    entries = [(str(workspace), "write")]
    for number in range(count):
        places = [workspace / f"kept{number}"]
        places += [places[0] / "open", places[0] / "open" / "kept", places[0] / "open" / "kept" / "open"]
        places[-1].mkdir(parents=True)
        for place, access in zip(places, ("read", "write", "read", "write"), strict=True):
            os.chown(place, launcher.user, launcher.user)
            entries.append((str(place), access))
    attempt = "for each in $(find . -type d); do echo x > $each/file; done 2> /dev/null"
    _confined(launcher, workspace, (*SHELL, attempt), "--profile", _profile(entries))
    made = {str(path.parent.relative_to(workspace)) for path in workspace.rglob("file")}
    inside = {f"kept{number}/{place}" for number in range(count) for place in ("open", "open/kept/open")}
    assert made == {".", *inside}


def test_denied_paths_that_are_missing_have_a_limit(launcher: Launcher, workspace: Path) -> None:
    paths = [f"{workspace}/denied{number}" for number in range(101)]
    profiles = [
        _profile([(str(workspace), "write"), *((path, "none") for path in paths[:count])])
        for count in (100, 101)
    ]
    allowed, refused = (
        _confined(launcher, workspace, (*SHELL, "true"), "--profile", profile) for profile in profiles
    )
    assert (allowed.status, refused.status) == (0, 125), (allowed, refused)
    assert "101 denied paths that are missing" in refused.stderr


def _memory(content: bytes) -> int:
    file = os.memfd_create("test", 0)
    os.write(file, content)
    os.lseek(file, 0, os.SEEK_SET)
    return file


def test_bubblewrap_makes_all_mounts_where_none_can_be_made_before(new_directory: Path) -> None:
    """A user who may have no further process can't try to mount."""
    # Where that user can reach it, wherever the clone is.
    program = shutil.copy(init.PATH, new_directory / "init")
    files = [_memory(b"r/usr\0"), _memory(b"left"), _memory(b"all")]

    def few_processes() -> None:
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))

    def options(user: int, **more: Any) -> str:
        for file in files:
            os.lseek(file, 0, os.SEEK_SET)
        words = [
            *init.bubblewrap_words(early_fds=(files[0], files[1], files[2])),
            "--",
            "/bin/cat",
            f"/proc/self/fd/{files[1]}",
        ]
        done: subprocess.CompletedProcess[str] = subprocess.run(
            [program, *words],
            pass_fds=files,
            capture_output=True,
            text=True,
            check=True,
            **more,
            **drop_to(user),
        )
        return done.stdout

    user = ORDINARY if os.geteuid() == 0 else os.geteuid()
    try:
        assert options(user) == "left"
        assert options(user, preexec_fn=few_processes) == "all"
    finally:
        for file in files:
            os.close(file)
