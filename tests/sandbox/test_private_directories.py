"""Directories that a user's launchers have in common are hidden from every command, and taken before it can.

And the temporary directory that a profile grants is that of the launcher, never one that somebody names.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from paddock.transport import runtime_directory
from tests.attack.attempt import USERS
from tests.attack.stage import Stage
from tests.sandbox.identity import drop_to
from tests.sandbox.launcher import Launcher, Outcome
from tests.sandbox.profiles import PROJECT_ROOTS, ROOT, SLASH_TMP, entry, sandbox
from tests.wire import session

SETTINGS = {"PATH": "/usr/local/bin:/usr/bin:/bin"}

TMPDIR = {"type": "special", "value": {"kind": "tmpdir"}}


def _run(launcher: Launcher, root: Path, script: str, **env: str) -> Outcome:
    command = ["sandbox", "--profile", ":workspace", "--policy-cwd", str(root), "--", "/bin/sh", "-c", script]
    return launcher.run(command, cwd=root, env={**SETTINGS, **env})


# --- what launchers share -----------------------------------------------------


@pytest.fixture(scope="module", params=USERS, ids=lambda user: "root" if user == 0 else "ordinary")
def stage(request: pytest.FixtureRequest, ground: Path) -> Iterator[Stage]:
    """A launcher with a /tmp of its own: what gets through to it must not hit the user's."""
    with Stage(request.param, ground) as stage:
        yield stage


@pytest.fixture
def project(stage: Stage, new_directory: Path) -> Path:
    """A project of the stage's user."""
    os.chown(new_directory, stage.user, stage.user)
    return new_directory


def test_the_usual_directory_is_out_of_reach_though_the_launcher_has_another(
    stage: Stage, project: Path
) -> None:
    """/tmp can be written under this profile, and this launcher was told of a directory of its own."""
    usual = f"/tmp/paddock-{stage.user}"
    script = f"""
        ls {usual} && echo LISTED
        echo x > {usual}/planted-by-test && echo WRITTEN
        chmod 700 {usual} && echo CHANGED
        mv {usual} {usual}-moved && echo MOVED
        mkdir {usual} && echo MADE
        ln -s {project} {usual} && echo LINKED
        mkdir /tmp/beside && rmdir /tmp/beside && echo beside
    """
    command = ["sandbox", "--profile", ":workspace", "--", "/bin/sh", "-c", script]
    outcome = stage.run(command, cwd=project)
    assert outcome.stdout == b"beside\n", outcome.stderr
    look = f"stat -c '%F %u %a' {usual} && ls -A {usual}; : > {usual}/made && rm {usual}/made && echo made"
    outside = stage.run(["/bin/sh", "-c", look], cwd=project, is_plain=True)
    assert outside.stdout.decode() == f"directory {stage.user} 700\nmade\n"


@pytest.mark.parametrize("is_there", [True, False], ids=["its parent is there", "its parent is missing"])
def test_a_directory_that_the_next_launcher_would_use_can_not_be_planted(
    launcher: Launcher, workspace: Path, is_there: bool
) -> None:
    runtime = workspace / "xdg"
    script = f"""
        mkdir -m 700 {runtime}; mkdir -m 700 {runtime}/paddock
        ln -s /tmp {runtime}/paddock/places && echo PLANTED
        echo done
    """
    if is_there:
        runtime.mkdir()
        os.chown(runtime, launcher.user, launcher.user)
    outcome = _run(launcher, workspace, script, XDG_RUNTIME_DIR=str(runtime))
    assert outcome.stdout == "done\n", outcome.stderr
    if is_there:
        assert os.listdir(runtime / "paddock") == []
    else:
        assert not runtime.exists()
    # Of a launcher that knows nothing of it, the same command makes it.
    elsewhere = script.replace(str(runtime), f"{workspace}/other")
    assert "PLANTED" in _run(launcher, workspace, elsewhere).stdout


@pytest.mark.parametrize("way", ["link", "left/../link"])
def test_a_way_to_the_directory_of_the_next_launcher_can_not_be_chosen(
    launcher: Launcher, workspace: Path, way: str
) -> None:
    """The next launcher would use what the command has made there."""
    real = workspace.parent / f"{workspace.name}-real"
    for directory in (workspace / "left", real):
        directory.mkdir(mode=0o700)
        os.chown(directory, launcher.user, launcher.user)
    link, planted = workspace / "link", workspace / "planted"
    link.symlink_to(real)
    script = f"rm {link}; mkdir -m 700 {planted} {planted}/paddock; ln -s {planted} {link} && echo LED ASTRAY"
    try:
        refused = _run(launcher, workspace, script, XDG_RUNTIME_DIR=str(workspace / way))
        assert (refused.status != 0, refused.stdout) == (True, "")
        assert f"write access to {workspace} would let the command lead Paddock" in refused.stderr
        assert link.readlink() == real
        # Without the link on its way there it is hidden. A launcher that knows nothing of it does not care.
        assert _run(launcher, workspace, f"ls {real}/paddock", XDG_RUNTIME_DIR=str(real)).status != 0
        assert "LED ASTRAY" in _run(launcher, workspace, script).stdout
    finally:
        shutil.rmtree(real)


@pytest.fixture
def roomy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory with one that stands for the user's, one for /tmp, and the server's own."""
    with tempfile.TemporaryDirectory(prefix="paddock-", dir="/tmp") as name:
        place = Path(name)
        for parent in ("xdg", "shared"):
            (place / parent).mkdir(mode=0o700)
        monkeypatch.setenv(runtime_directory.VARIABLE, str(place / "own"))
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(place / "xdg"))
        everywhere = partial(runtime_directory.everywhere, shared_root=str(place / "shared"))
        monkeypatch.setattr(runtime_directory, "everywhere", everywhere)
        yield place


def usual(roomy: Path) -> Path:
    """Where a server without a login would have its directory."""
    return roomy / f"shared/paddock-{os.geteuid()}"


async def test_a_server_takes_every_directory_before_it_serves(roomy: Path) -> None:
    async with session():
        for place in (roomy / "xdg" / "paddock", usual(roomy)):
            assert stat.S_IMODE(place.stat().st_mode) == 0o700


async def test_no_command_of_a_server_sees_any_of_them(roomy: Path) -> None:
    wanted = sandbox(entry(ROOT, "read"), entry(SLASH_TMP, "write"))
    directories = [roomy / "own", roomy / "xdg" / "paddock", usual(roomy)]
    async with session() as client:
        for number, place in enumerate(directories):
            await client.start(
                f"p{number}", "/bin/sh", "-c", f"ls {place}/.; mv {place} {place}-x", sandbox=wanted
            )
            done = await client.finish(f"p{number}")
            assert done.exit_code != 0
            assert place.is_dir()


# --- the temporary directory ----------------------------------------------------


@pytest.mark.parametrize("is_empty", [True, False], ids=["empty", "full"])
def test_directory_that_another_sandbox_makes_in_a_temporary_one_may_go_again(
    launcher: Launcher, workspace: Path, new_directory: Path, is_empty: bool
) -> None:
    """Codex makes empty ones while its command runs. One that somebody may obey is protected."""
    temporary = new_directory / "temporary"
    theirs = temporary / ".aws"
    theirs.mkdir(parents=True)
    if not is_empty:
        (theirs / "config").touch()
    for path in (temporary, theirs):
        os.chown(path, launcher.user, launcher.user)
    temporary.chmod(0o700)
    told, awaited = workspace / "told", workspace / "awaited"
    for pipe in (told, awaited):
        os.mkfifo(pipe)
        os.chown(pipe, launcher.user, launcher.user)
    with ThreadPoolExecutor() as pool:
        script = f"echo x > {theirs}/new; echo > {told}; read word < {awaited}"
        running = pool.submit(_run, launcher, workspace, script, TMPDIR=str(temporary))
        told.read_text()
        assert (theirs / "new").exists() is is_empty
        shutil.rmtree(theirs)
        if is_empty:
            awaited.write_text("go\n")
        assert running.result().status == (0 if is_empty else 125)


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o700], ids=["open", "sticky", "private"])
def test_temporary_directory_of_the_launcher_is_granted_if_it_is_one(
    launcher: Launcher, workspace: Path, new_directory: Path, mode: int
) -> None:
    directory = new_directory / "temporary"
    directory.mkdir()
    os.chown(directory, launcher.user, launcher.user)
    directory.chmod(mode)
    outcome = _run(launcher, workspace, f"echo x > {directory}/new && echo made", TMPDIR=str(directory))
    is_granted = mode != 0o777
    assert (outcome.stdout == "made\n") is is_granted, outcome.stderr
    assert (directory / "new").exists() is is_granted
    subprocess.run(["/bin/sh", "-c", f"echo x > {directory}/outside"], check=True, **drop_to(launcher.user))


async def test_temporary_directory_of_a_request_grants_nothing(
    new_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be good enough, were it the server's own."""
    project, asked, own = (new_directory / name for name in ("project", "asked", "own"))
    for directory in (project, asked, own):
        directory.mkdir(mode=0o700)
    monkeypatch.setenv("TMPDIR", str(own))
    wanted = sandbox(
        entry(ROOT, "read"),
        entry(PROJECT_ROOTS, "write"),
        entry(TMPDIR, "write"),
        cwd=project.as_uri(),
        workspaceRoots=[project.as_uri()],
    )
    async with session() as client:
        for name, directory in (("asked", asked), ("own", own)):
            script = f'echo "$TMPDIR"; echo x > {directory}/new'
            await client.start(name, "/bin/sh", "-c", script, env={"TMPDIR": str(asked)}, sandbox=wanted)
            done = await client.finish(name)
            assert (done.exit_code == 0) is (directory == own)
            assert (directory / "new").exists() is (directory == own)
