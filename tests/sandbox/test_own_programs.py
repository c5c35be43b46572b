"""What Paddock runs for itself can't be changed, or provided, by what it confines."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import paddock
from paddock.model.profile import Access
from paddock.sandbox.enforce.command import Command
from paddock.sandbox.host import probe, question
from paddock.sandbox.launch import Sandbox
from paddock.sandbox.profile.access import AccessTable
from paddock.sandbox.profile.enforced import is_enforced
from paddock.sandbox.profile.table import built_in
from tests.sandbox.identity import drop_to
from tests.sandbox.launcher import INSTALLATION, Launcher, Outcome
from tests.sandbox.profiles import PROJECT_ROOTS, ROOT, entry, sandbox

Json = dict[str, Any]

EVERYTHING: Json = {"type": "managed", "file_system": {"type": "unrestricted"}, "network": "restricted"}
PROJECT: Json = sandbox(entry(ROOT, "read"), entry(PROJECT_ROOTS, "write"))["permissions"]

ATTACK = """
cd {place}
echo planted > program
rm -f program
echo planted > new.pth
mv program other
chmod 777 .
cd ..
mv {place} {place}-moved
mv {place}/program .
rm -rf {place}
ln -s {place} mine && echo planted > mine/program
rm -f mine
"""


@pytest.fixture
def installation(ground: Path, launcher: Launcher) -> Path:
    """What the launcher is told to be Paddock's own, in a directory that the user may write."""
    # It is made before the first answer.
    assert launcher.run(["--version"], cwd=ground).status == 0
    return ground / f"{INSTALLATION}-{launcher.user}"


def _run(launcher: Launcher, root: Path, profile: Json, script: str, **env: str) -> Outcome:
    options = ["--policy-cwd", str(root), "--profile", json.dumps(profile)]
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", **env}
    return launcher.run(["sandbox", *options, "--", "/bin/sh", "-c", script], cwd=root, env=environment)


def _state(directory: Path) -> tuple[list[str], str, int]:
    program = directory / "program"
    return sorted(os.listdir(directory)), program.read_text(), program.stat().st_ino


@pytest.mark.parametrize("profile", [EVERYTHING, PROJECT], ids=["everything", "project"])
def test_installation_in_a_writable_tree_is_read_only(
    launcher: Launcher, ground: Path, installation: Path, profile: Json
) -> None:
    before = _state(installation)
    # The directory of the tests belongs to root and is sticky; it is the project here.
    outcome = _run(launcher, ground, profile, ATTACK.format(place=installation) + "echo done")
    assert outcome.stdout == "done\n", outcome.stderr
    assert _state(installation) == before
    beside = ground / f"beside-{launcher.user}"
    made = _run(launcher, ground, profile, f"echo x > {beside} && rm {beside} && echo made")
    assert made.stdout == "made\n"
    read = _run(launcher, ground, profile, f"cat {installation}/program")
    assert read.stdout == "genuine"


def test_outside_the_user_may_change_it(launcher: Launcher, installation: Path) -> None:
    script = f"echo x > {installation}/new && rm {installation}/new"
    subprocess.run(["/bin/sh", "-c", script], check=True, **drop_to(launcher.user))


@pytest.mark.parametrize("below", ["", "lib"])
def test_profile_that_grants_the_installation_itself_is_refused(
    launcher: Launcher, installation: Path, below: str
) -> None:
    outcome = _run(launcher, installation / below, PROJECT, "true")
    assert outcome.status == 125
    assert f"would let the command change {installation}, which Paddock runs outside" in outcome.stderr
    assert "install Paddock elsewhere" in outcome.stderr


def test_bubblewrap_that_an_earlier_command_left_on_path_is_not_run(
    launcher: Launcher, workspace: Path, ground: Path
) -> None:
    """It lies in a directory of the user, which was a project once, and is the first on PATH."""
    planted = ground / f"bin-{launcher.user}"
    planted.mkdir(exist_ok=True)
    os.chown(planted, launcher.user, launcher.user)
    script = f"printf '#!/bin/sh\\ntouch {planted}/ran\\n' > {planted}/bwrap; chmod 755 {planted}/bwrap"
    assert _run(launcher, planted, PROJECT, script).status == 0
    assert (planted / "bwrap").exists()
    outcome = _run(launcher, workspace, PROJECT, "echo real", PATH=f"{planted}:/usr/bin:/bin")
    assert (outcome.status, outcome.stdout) == (0, "real\n"), outcome.stderr
    assert not (planted / "ran").exists()


def test_what_a_mount_shows_of_the_installation_in_a_project_is_read_only(
    new_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory of Paddock's package is in sight in the workspace, too, by a bind mount."""
    project, private = new_directory / "project", new_directory / "private"
    (project / "sub").mkdir(parents=True)
    private.mkdir(mode=0o700)
    package = Path(paddock.__file__).resolve().parent
    prepared = Sandbox(probe.host(), private)

    def access() -> Access:
        command = Command(["true"], str(project), (str(project),), {})
        profile = built_in(":workspace")
        assert is_enforced(profile)
        plan = prepared.planner.plan(profile, command)
        return AccessTable(plan.rules).access_of(str(project / "sub"))

    assert access() is Access.WRITE
    table = f"1 0 8:1 / / rw - ext4 x rw\n2 1 8:1 {package}/native {project}/sub rw - ext4 x rw\n"
    monkeypatch.setattr(question, "read_table", table.encode)
    assert access() is Access.READ
    prepared.close()
