"""What a command leaves for the next one, or finds on the host, leads neither it nor Paddock astray."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.identity import drop_to
from tests.sandbox.launcher import Launcher, Outcome

pytestmark = pytest.mark.usefixtures("launcher_way")

MINIMAL = {"path": {"type": "special", "value": {"kind": "minimal"}}, "access": "read"}
PROJECT = {"path": {"type": "special", "value": {"kind": "project_roots"}}, "access": "write"}


def _exact(path: str | Path, access: str) -> dict[str, Any]:
    return {"path": {"type": "path", "path": str(path)}, "access": access}


def _pattern(pattern: str) -> dict[str, Any]:
    return {"path": {"type": "glob_pattern", "pattern": pattern}, "access": "deny"}


def _profile(*entries: dict[str, Any]) -> str:
    """Nothing but what programs need, the project, and the entries."""
    restricted = {"type": "restricted", "entries": [MINIMAL, PROJECT, *entries]}
    return json.dumps({"type": "managed", "file_system": restricted})


def _run(launcher: Launcher, project: Path, profile: str, script: str, **more: Any) -> Outcome:
    words = ["sandbox", "--policy-cwd", str(project), "--profile", profile, "--", "/bin/bash", "-c", script]
    return launcher.run(words, cwd=more.pop("cwd", project), **more)


@pytest.fixture
def project(workspace: Path, launcher: Launcher) -> Path:
    return _owned(workspace / "project", launcher)


@pytest.fixture
def elsewhere(workspace: Path, launcher: Launcher) -> Path:
    """A second directory that can be written; the project is another."""
    return _owned(workspace / "elsewhere", launcher)


@pytest.fixture
def secret(workspace: Path, launcher: Launcher) -> Iterator[Path]:
    """A file that the user can read, and no profile here grants."""
    directory = _owned(workspace / "secret", launcher)
    file = directory / "key"
    file.write_text("top secret\n")
    os.chown(file, launcher.user, launcher.user)
    yield file
    assert [entry.name for entry in directory.iterdir()] == ["key"], "a command has reached the outside"


def test_project_root_behind_a_link_that_an_earlier_command_made_is_refused(
    launcher: Launcher, project: Path, elsewhere: Path, secret: Path
) -> None:
    profile = _profile(_exact(elsewhere, "write"))
    assert _run(launcher, project, profile, f"ln -s {secret.parent} {elsewhere}/link").status == 0
    outcome = _run(launcher, elsewhere / "link", profile, f"cat {secret}", cwd=project)
    assert outcome.status != 0
    assert outcome.stdout == ""
    assert f"crosses the symlink {elsewhere}/link, which the command could replace" in outcome.stderr


def test_what_a_command_writes_to_the_users_home_does_not_loosen_the_next_sandbox(
    launcher: Launcher, project: Path, elsewhere: Path
) -> None:
    home = {"HOME": str(elsewhere)}
    limit = "cat /proc/sys/user/max_user_namespaces"
    before = _run(launcher, project, _profile(), limit, env=home)
    deny_capabilities = 'find "$HOME" -size +0 -type f -exec sed -i s/true/false/ {} +; touch "$HOME/changed"'
    changed = _run(launcher, project, _profile(_exact(elsewhere, "write")), deny_capabilities, env=home)
    assert (changed.status, changed.stderr) == (0, "")
    assert (elsewhere / "changed").exists()
    after = _run(launcher, project, _profile(), limit, env=home)
    assert before.status == 0
    assert after == before


def _owned(directory: Path, launcher: Launcher) -> Path:
    directory.mkdir()
    os.chown(directory, launcher.user, launcher.user)
    return directory


def test_git_file_that_points_to_a_secret_does_not_open_it(
    launcher: Launcher, project: Path, elsewhere: Path, secret: Path
) -> None:
    profile = _profile(_exact(elsewhere, "write"))
    (elsewhere / ".git").write_text(f"gitdir: {secret.parent}\n")
    assert "top secret" not in _run(launcher, project, profile, f"cat {secret}").stdout


@pytest.mark.parametrize("trap", ["mkfifo .git", "mkdir -m 1700 .git; touch .git/x"])
def test_metadata_of_another_kind_keeps_no_command_from_running(
    launcher: Launcher, project: Path, elsewhere: Path, trap: str
) -> None:
    # By a command whose project is further up: only metadata directly under that is protected.
    assert _run(launcher, project.parent, _profile(), f"cd {elsewhere}; {trap}").status == 0
    assert _run(launcher, project, _profile(_exact(elsewhere, "write")), "echo ran").stdout == "ran\n"


def test_metadata_that_is_a_link_is_refused_in_every_directory_that_is_named(
    launcher: Launcher, project: Path, elsewhere: Path
) -> None:
    (elsewhere / ".git").symlink_to("/etc")
    done = _run(launcher, project, _profile(_exact(elsewhere, "write")), "echo ran")
    assert (done.status, done.stdout) == (125, "")
    assert "a symlink, which the command could replace" in done.stderr


CONFIGURED = (".hg/hgrc", ".jj/repo/config.toml")
"""What other programs than git obey in a project."""


@pytest.mark.parametrize("name", CONFIGURED)
def test_configuration_of_another_repository_stays_as_it_is(
    launcher: Launcher, project: Path, name: str
) -> None:
    top = name.partition("/")[0]
    attack = f"echo hook > {name}; mv {top} old; mkdir -p $(dirname {name}) && echo hook > {name}"
    make = f"mkdir -p $(dirname {name}); echo genuine > {name}"
    subprocess.run(["/bin/bash", "-c", make], cwd=project, check=True, **drop_to(launcher.user))
    _run(launcher, project, _profile(), attack)
    assert (project / name).read_text() == "genuine\n"
    subprocess.run(["/bin/bash", "-c", attack], cwd=project, check=True, **drop_to(launcher.user))
    assert (project / name).read_text() == "hook\n"


@pytest.mark.parametrize("name", [".hg", ".jj"])
@pytest.mark.parametrize("target", ["real", "missing"])
def test_another_repository_behind_a_link_is_refused_wherever_it_leads(
    launcher: Launcher, project: Path, name: str, target: str
) -> None:
    _owned(project / "real", launcher)
    link = project / name
    link.symlink_to(target)
    attack = f"mkdir other; ln -sfn other {name}; echo ran"
    done = _run(launcher, project, _profile(), attack)
    assert (done.status, done.stdout, link.readlink()) == (125, "", Path(target))
    assert f"{link} is protected but a symlink, which the command could replace" in done.stderr
    subprocess.run(["/bin/bash", "-c", attack], cwd=project, check=True)
    assert link.readlink() == Path("other")


@pytest.mark.parametrize(
    "trap",
    [
        "mkdir -m 1700 .git-paddock; echo '[core]' > .git-paddock/config",
        "mkdir -m 1700 .git-paddock",
        "mkdir .git-paddock",
        "ln -s /etc .git-paddock",
        "mkfifo .git-paddock",
    ],
)
def test_what_a_command_puts_beside_a_missing_repository_does_not_become_one(
    launcher: Launcher, project: Path, trap: str
) -> None:
    assert _run(launcher, project, ":workspace", trap).status == 0
    done = _run(launcher, project, ":workspace", "echo ran; mkdir .git || mv .git-paddock .git")
    assert (done.stdout, done.status) == ("ran\n", 1)
    assert not (project / ".git").exists()


def test_bubblewrap_in_the_project_is_never_run(launcher: Launcher, project: Path) -> None:
    make = "mkdir below bin; printf '#!/bin/sh\\ntouch %s\\n' $PWD/ran > bin/bwrap; chmod 755 bin/bwrap"
    assert _run(launcher, project, _profile(), make).status == 0
    path = {"PATH": f"{project}/bin:{os.environ['PATH']}"}
    done = _run(launcher, project, _profile(), "echo ran", cwd=project / "below", env=path)
    assert (done.stdout, (project / "ran").exists()) == ("ran\n", False)


def test_command_that_may_only_read_devices_changes_none(launcher: Launcher, project: Path) -> None:
    name = f"/dev/shm/paddock-test-{os.getpid()}"
    for place in ("/dev", "/dev/shm"):
        _run(launcher, project, _profile(_exact(place, "read")), f"touch {name}")
        assert not os.path.exists(name)
    assert (
        "x" in _run(launcher, project, _profile(_exact("/dev", "read")), "echo x > /dev/null; echo x").stdout
    )


def test_nobody_can_change_the_kernel_through_proc(launcher: Launcher, project: Path) -> None:
    # Of pressure everybody may ask to be told, by writing.
    others = r"\( -path '/proc/[0-9]*' -o -name self -o -name thread-self -o -path /proc/pressure \)"
    find = f"find /proc -maxdepth 3 {others} -prune -o -type f -writable -print 2>/dev/null"
    assert _run(launcher, project, ":workspace", find).stdout == ""


def test_project_in_which_the_user_can_make_nothing_needs_no_places(launcher: Launcher) -> None:
    if launcher.user == 0:
        pytest.skip("root can make something everywhere")
    done = _run(launcher, Path("/usr/share"), ":workspace", "pwd; mkdir .git")
    assert (done.stdout, done.status) == ("/usr/share\n", 1)


def test_own_project_that_is_read_only_for_now_is_not_left_unprotected(
    launcher: Launcher, project: Path
) -> None:
    project.chmod(0o555)
    done = _run(launcher, project, ":workspace", "chmod u+w .; mkdir .git; touch .git/HEAD")
    assert done.status != 0
    assert not (project / ".git").exists()


@pytest.mark.parametrize("mode", ["000", "444", "111", "333"])
def test_mode_of_a_directory_keeps_no_secret_from_being_denied(
    launcher: Launcher, project: Path, mode: str
) -> None:
    (project / "own.env").write_text("top secret\n")
    for name in ("of-patterns", "of-names"):
        _owned(project / name, launcher)
    (project / "of-patterns" / "x.env").write_text("top secret\n")
    (project / "of-names" / "other").hardlink_to(project / "own.env")
    profile = _profile(_pattern(f"{project}/**/*.env"))
    assert _run(launcher, project, profile, f"chmod {mode} of-patterns of-names").status == 0
    done = _run(
        launcher, project, profile, "chmod 700 of-*; cat of-patterns/x.env of-names/other; echo $? > status"
    )
    assert done.stdout == ""
    assert (project / "status").read_text() == "1\n"
    # Without the profile it works.
    for name in ("of-patterns", "of-names"):
        (project / name).chmod(0o755)
    assert (project / "of-names" / "other").read_text() == "top secret\n"


@pytest.mark.parametrize("more", [{}, {"missing_path_behavior": "skip"}], ids=["plain", "skipped"])
@pytest.mark.parametrize("access", ["read", "deny"])
def test_mode_of_a_directory_opens_no_path_in_it(
    launcher: Launcher, project: Path, access: str, more: dict[str, str]
) -> None:
    file = _owned(project / "closed", launcher) / "file"
    file.write_text("top secret\n")
    os.chown(file, launcher.user, launcher.user)
    profile = _profile({**_exact(file, access), **more})
    assert _run(launcher, project, profile, "chmod 000 closed").status == 0
    done = _run(launcher, project, profile, "chmod 700 closed; echo x > closed/file && cat closed/file")
    assert (done.status != 0, done.stdout) == (True, "")
    if launcher.user != 0:
        assert f"may be in {file.parent}, which can't be searched" in done.stderr
    file.parent.chmod(0o700)
    assert file.read_text() == "top secret\n"


# --- links that an earlier command left -----------------------------------------


@pytest.fixture
def shared(launcher: Launcher) -> Iterator[Path]:
    """A directory of the user's in /tmp, which the usual profile lets every command write."""
    with tempfile.TemporaryDirectory(prefix="paddock-trap-", dir="/tmp") as name:
        os.chown(name, launcher.user, launcher.user)
        yield _owned(Path(name).resolve() / "own", launcher)


def _special(access: str, **value: str) -> dict[str, Any]:
    return {"path": {"type": "special", "value": value}, "access": access}


@pytest.mark.parametrize("form", ["tmpdir", "exact", "subpath", "denied"])
def test_rule_does_not_follow_a_link_that_an_earlier_command_left(
    launcher: Launcher, project: Path, shared: Path, workspace: Path, form: str
) -> None:
    """The earlier one has the usual profile; the later one is meant to be the stricter."""
    home = _owned(workspace / "home", launcher)
    inside = _owned(project / "build", launcher)
    place = inside if form in ("subpath", "denied") else shared
    earlier = ["sandbox", "--profile", ":workspace", "--policy-cwd", str(project), "--"]
    swap = f"mv {place} {place.parent}/old && ln -s {home} {place} && echo swapped; touch {home}/one"
    done = launcher.run([*earlier, "/bin/sh", "-c", swap], cwd=project, env={"TMPDIR": str(shared)})
    assert done.stdout == "swapped\n", done.stderr
    entries = {
        "tmpdir": _special("write", kind="tmpdir"),
        "exact": _exact(shared, "write"),
        "subpath": _special("write", kind="project_roots", subpath="build"),
        "denied": _special("deny", kind="project_roots", subpath="build"),
    }
    restricted = {"type": "restricted", "entries": [_special("read", kind="root"), entries[form]]}
    profile = json.dumps({"type": "managed", "file_system": restricted})
    script = f"touch {home}/two && echo WRITTEN; echo done"
    outcome = _run(launcher, project, profile, script, env={"TMPDIR": str(shared)})
    assert "WRITTEN" not in outcome.stdout
    assert os.listdir(home) == []
    if form == "tmpdir":
        # It grants nothing. A link is no reason for commands that need no temporary directory to fail.
        assert outcome.stdout == "done\n", outcome.stderr
    else:
        assert f"crosses the symlink {place}, which an earlier command may have made" in outcome.stderr
    subprocess.run(["/bin/sh", "-c", f"touch {place}/three"], check=True, **drop_to(launcher.user))
    assert os.listdir(home) == ["three"]


def test_rules_follow_links_that_no_command_can_have_made(
    launcher: Launcher, project: Path, workspace: Path
) -> None:
    target = _owned(workspace / "target", launcher)
    (workspace / "link").symlink_to(target)
    temporary = _owned(workspace / "temporary", launcher)
    temporary.chmod(0o700)
    (workspace / "tmp").symlink_to(temporary)
    profile = _profile(_exact(workspace / "link", "write"), _special("write", kind="tmpdir"))
    script = f"touch {workspace}/link/new {workspace}/tmp/new"
    outcome = _run(launcher, project, profile, script, env={"TMPDIR": str(workspace / "tmp")})
    assert (outcome.status, outcome.stderr) == (0, "")
    assert os.listdir(target) == os.listdir(temporary) == ["new"]


TEMPORARY_TRAPS = {
    "pointer with a NUL byte": "printf 'gitdir: a\\0b\\n' > .git",
    "pointer to the project": 'printf "gitdir: $PROJECT/src\\n" > .git',
    "pointer through a link": 'mkdir d; ln -s . l; printf "gitdir: $TMPDIR/l/d\\n" > .git',
    "pointer through a circle": 'ln -s b a; ln -s a b; printf "gitdir: $TMPDIR/a/d\\n" > .git',
    "pointer of many names": 'printf "gitdir: $(printf "/a%.0s" $(seq 3000))\\n" > .git',
    "links to themselves": "for name in .git .hg .jj .aws .codex; do ln -s $name $name; done",
    "pipe": "mkfifo .git .hg",
    "index that is none": "git init -q . || mkdir .git; printf 'DIRC\\0\\0\\0\\2\\0\\0\\xe0\\0' > .git/index",
}


@pytest.mark.parametrize("trap", TEMPORARY_TRAPS.values(), ids=TEMPORARY_TRAPS)
def test_what_is_left_in_a_temporary_directory_hinders_no_later_command(
    launcher: Launcher, project: Path, shared: Path, trap: str
) -> None:
    _owned(project / "src", launcher)
    command = ["sandbox", "--profile", ":workspace", "--policy-cwd", str(project), "--", "/bin/bash", "-c"]
    env = {"TMPDIR": str(shared), "PROJECT": str(project), "PATH": os.environ["PATH"]}
    left = launcher.run([*command, f"cd {shared}; {trap}; ls -A"], cwd=project, env=env)
    assert left.stdout != ""
    later = launcher.run([*command, "echo x > src/new && cat src/new"], cwd=project, env=env)
    assert (later.status, later.stdout, later.stderr) == (0, "x\n", "")
