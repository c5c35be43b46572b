"""Whoever takes a mask away from a running command ends it: another command, or its own user on the host."""

from __future__ import annotations

import json
import os
import resource
import shlex
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.identity import PYTHON
from tests.sandbox.launcher import Launcher, Outcome

pytestmark = pytest.mark.usefixtures("launcher_way")

DEADLINE_S = 20.0

STATUS_NOT_CONFINED = 125

TRAP = "mkdir -p .git/hooks && echo x > .git/hooks/post-commit"
WAIT = "until [ -e go ]; do sleep 0.02; done"


def _special(kind: str, access: str, **more: str) -> dict[str, Any]:
    return {"path": {"type": "special", "value": {"kind": kind, **more}}, "access": access}


def _profile(*entries: dict[str, Any], **limits: int) -> str:
    """Everything can be read, the project written, and the entries."""
    restricted = [_special("root", "read"), _special("project_roots", "write"), *entries]
    file_system = {"type": "restricted", "entries": restricted}
    return json.dumps({"type": "managed", "file_system": file_system, "limits": limits})


def _below(subpath: str, access: str) -> dict[str, Any]:
    return _special("project_roots", access, subpath=subpath)


OPENING = _profile(_below(".git", "write"))
"""Grants what others mask."""

GIT_DENIED = _profile(_below(".git", "deny"))
AWS_DENIED = _profile(_below(".aws", "deny"))
DOTTED_DENIED = _profile({"path": {"type": "glob_pattern", "pattern": "**/.*"}, "access": "deny"})

SECRETIVE = _profile(_below("secrets/.env", "deny"), _below(".env", "deny"), _below("later", "deny"))


class Workplace:
    """A project, and several commands at a time in it, as one user."""

    def __init__(self, project: Path, launchers: tuple[Launcher, Launcher], pool: ThreadPoolExecutor) -> None:
        self.project = project
        self._launchers = list(launchers)
        self._pool = pool

    def start(
        self, script: str, profile: str = ":workspace", *options: str, env: Mapping[str, str] | None = None
    ) -> Future[Outcome]:
        """Run a script; this returns when it has made the file `ready`, which is removed."""
        words = ["sandbox", "--profile", profile, *options, "--", "/bin/sh", "-c", f"touch ready; {script}"]
        command = self._pool.submit(self._launchers.pop().run, words, cwd=self.project, env=env)
        ready = self.project / "ready"
        self.wait_until(lambda: ready.exists() or command.done())
        assert ready.exists(), command.result()
        ready.unlink()
        return command

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        """What janitors of several launchers have needed may stay a moment longer than the commands."""
        deadline = time.monotonic() + DEADLINE_S
        while not is_so():
            assert time.monotonic() < deadline, os.listdir(self.project)
            time.sleep(0.01)

    def signal_all(self) -> None:
        """Let all that wait go on."""
        (self.project / "go").touch()


@pytest.fixture(scope="module")
def second_launcher(launcher: Launcher, ground: Path) -> Iterator[Launcher]:
    with Launcher(launcher.user, ground) as second:
        yield second


@pytest.fixture
def place(workspace: Path, launcher: Launcher, second_launcher: Launcher) -> Iterator[Workplace]:
    with ThreadPoolExecutor() as pool:
        place = Workplace(workspace, (launcher, second_launcher), pool)
        try:
            yield place
        finally:
            place.signal_all()


def _assert_ended(command: Future[Outcome], path: Path) -> None:
    outcome = command.result(DEADLINE_S)
    assert outcome.status == STATUS_NOT_CONFINED
    assert f"killed, because {path} was moved, removed or replaced by somebody else" in outcome.stderr


def test_command_is_ended_when_another_moves_the_place_of_its_mask(place: Workplace) -> None:
    mover = place.start("until [ -e move ]; do sleep 0.02; done; mv .git moved && echo moved", OPENING)
    masked = place.start(f"{WAIT}; {TRAP}")
    (place.project / "move").touch()
    assert mover.result(DEADLINE_S).stdout == "moved\n"
    _assert_ended(masked, place.project / ".git")
    place.signal_all()
    assert not (place.project / ".git").exists()
    # Nothing of ours is in what was moved: it is an ordinary directory now.
    assert list((place.project / "moved").iterdir()) == []
    place.wait_until(lambda: sorted(os.listdir(place.project)) == ["go", "move", "moved"])


RACING = """\
import contextlib, os
open("racing", "w").close()
while True:
    with contextlib.suppress(OSError):
        os.mkdir(".git")
        os.mkdir(".git/hooks")
        open(".git/hooks/post-checkout", "w").close()
        os._exit(0)
"""


def test_what_a_command_makes_before_it_is_dead_is_put_aside(place: Workplace) -> None:
    command = place.start(f"exec {PYTHON} -c {shlex.quote(RACING)}")
    # Should it be slower than its end, there is nothing to put aside.
    place.wait_until((place.project / "racing").exists)
    _move(place.project / ".git")
    outcome = command.result(DEADLINE_S)
    assert outcome.status == STATUS_NOT_CONFINED
    left = sorted(os.listdir(place.project))
    assert ".git" not in left
    for name in set(left) - {"elsewhere", "racing"}:
        assert name.startswith(".git-put-aside-")
        assert f"may have made what was at {place.project}/.git then; it is now in {name}" in outcome.stderr


@pytest.mark.parametrize("end", ["exit", "sleep 60"], ids=["ended", "out of time"])
def test_what_a_command_makes_is_put_aside_though_it_closes_the_directory(place: Workplace, end: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can move something in a directory that is closed")
    signals = place.project.with_name(f"{place.project.name}-signals")
    signals.mkdir()
    wait = f"until [ -e {signals}/go ]; do sleep 0.02; done"
    command = place.start(
        f"chmod 000 .; {wait}; chmod 700 $PWD; {TRAP}; chmod 000 .; {end}", _profile(wallSeconds=2)
    )
    _move(place.project / ".git")
    (signals / "go").touch()
    _assert_ended(command, place.project / ".git")
    assert ".git" not in os.listdir(place.project)
    place.project.chmod(0o700)


def test_no_place_is_left_in_a_directory_that_the_command_has_closed(place: Workplace) -> None:
    closing = place.start("while [ -e ready ]; do sleep 0.02; done; chmod 000 .")
    assert closing.result(DEADLINE_S).status == 0
    place.project.chmod(0o700)
    place.wait_until(lambda: not os.listdir(place.project))


def test_what_its_user_puts_in_the_place_of_a_denied_directory_stays(place: Workplace) -> None:
    (place.project / "secrets").mkdir()
    (place.project / "secrets" / ".env").write_text("secret")
    (place.project / "new").mkdir()
    command = place.start(WAIT, SECRETIVE)
    _move(place.project / "secrets")
    (place.project / "new").rename(place.project / "secrets")
    _assert_ended(command, place.project / "secrets")
    assert sorted(os.listdir(place.project)) == ["elsewhere", "secrets"]


def test_link_in_the_place_of_a_file_that_git_obeys_is_put_aside(place: Workplace) -> None:
    (place.project / ".git").write_text("gitdir: /nowhere")
    (place.project / "trap").symlink_to("elsewhere")
    command = place.start(WAIT)
    (place.project / "trap").rename(place.project / ".git")
    _assert_ended(command, place.project / ".git")
    (aside,) = os.listdir(place.project)
    assert aside.startswith(".git-put-aside-")


def test_file_that_git_obeys_stays_when_it_is_replaced_but_is_told_of(place: Workplace) -> None:
    (place.project / ".git").write_text("gitdir: /nowhere")
    command = place.start(WAIT)
    _replace(place.project / ".git")
    _assert_ended(command, place.project / ".git")
    assert os.listdir(place.project) == [".git"]
    assert f"may have made what is at {place.project}/.git" in command.result().stderr


def test_command_is_ended_when_the_directory_of_paddock_is_moved(
    place: Workplace, launcher: Launcher, ground: Path
) -> None:
    runtime = ground / f"{place.project.name}-runtime"
    runtime.mkdir(mode=0o700)
    os.chown(runtime, launcher.user, launcher.user)
    command = place.start(WAIT, ":workspace", env={"PADDOCK_RUNTIME_DIR": str(runtime)})
    runtime.rename(runtime.with_name(f"{runtime.name}-moved"))
    runtime.mkdir()
    _assert_ended(command, runtime)
    # It may be that of a new server.
    assert runtime.is_dir()


def test_command_that_may_write_where_another_is_masked_leaves_the_mask_in_its_place(
    place: Workplace,
) -> None:
    masked = place.start(f"{WAIT}; {TRAP}")
    use = "mv .git moved; rm -r .git; echo ref: refs/heads/main > .git/HEAD && echo made"
    opening = place.start(use, OPENING).result(DEADLINE_S)
    assert (opening.stdout, opening.stderr.count("busy")) == ("made\n", 2)
    place.signal_all()
    outcome = masked.result(DEADLINE_S)
    assert (outcome.status, "killed" in outcome.stderr) == (1, False)
    # What was made there stays, and nothing of ours with it.
    assert os.listdir(place.project / ".git") == ["HEAD"]
    assert (place.project / ".git").stat().st_mode & 0o7777 == 0o755


def test_place_that_two_commands_share_goes_with_the_last_of_them(place: Workplace) -> None:
    masked = place.start(WAIT)
    assert place.start("true", OPENING).result(DEADLINE_S).status == 0
    assert (place.project / ".git").is_dir()
    place.signal_all()
    assert masked.result(DEADLINE_S).status == 0
    place.wait_until(lambda: os.listdir(place.project) == ["go"])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (":workspace", AWS_DENIED),
        (AWS_DENIED, ":workspace"),
        (":workspace", DOTTED_DENIED),
        (DOTTED_DENIED, DOTTED_DENIED),
    ],
)
def test_commands_that_need_a_place_for_different_reasons_share_it(
    place: Workplace, first: str, second: str
) -> None:
    attempt = f"{WAIT}; rmdir .aws || mv .aws moved || mkdir .aws || touch .aws/x"
    commands = [place.start(attempt, profile) for profile in (first, second)]
    place.signal_all()
    for command in commands:
        outcome = command.result(DEADLINE_S)
        assert (outcome.status, "killed" in outcome.stderr) == (1, False)
    place.wait_until(lambda: os.listdir(place.project) == ["go"])
    (place.project / ".aws").mkdir()


def test_nothing_is_left_of_a_denied_git_directory_in_a_part_of_a_repository(place: Workplace) -> None:
    around = place.project.parent / ".git"
    around.mkdir()
    try:
        commands = [place.start(f"{WAIT}; ls -d refs", profile) for profile in (GIT_DENIED, ":workspace")]
        place.signal_all()
        for command in commands:
            assert command.result(DEADLINE_S).stdout == "refs\n"
        place.wait_until(lambda: os.listdir(place.project) == ["go"])
    finally:
        around.rmdir()


def test_nothing_is_made_where_a_denied_path_leads_through_a_file(place: Workplace) -> None:
    file = place.project / "file"
    file.touch()
    os.chown(file, place.project.stat().st_uid, -1)
    script = "echo more >> file && ! rm -f file && ! mv file moved && ! mkdir -p file/x"
    outcome = place.start(script, _profile(_below("file/x/secret", "deny"))).result(DEADLINE_S)
    assert (outcome.status, file.read_text()) == (0, "more\n")
    file.unlink()
    (file / "x").mkdir(parents=True)


def _move(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))


def _move_to_another_directory(path: Path) -> None:
    (path.parent.parent / "beside").mkdir(exist_ok=True)
    path.rename(path.parent.parent / "beside" / "x")


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def _replace(path: Path) -> None:
    """As editors save."""
    new = path.with_name("new")
    new.write_text("top secret")
    new.replace(path)


def _replace_from_another_directory(path: Path) -> None:
    new = path.parent.parent / "new"
    new.write_text("top secret")
    new.replace(path)


@pytest.mark.parametrize("options", [(), ("--no-proc",), ("--trace",)], ids=["plain", "no-proc", "trace"])
@pytest.mark.parametrize("change", [_move, _move_to_another_directory, _remove])
def test_command_is_ended_when_its_user_takes_the_place_of_its_mask(
    place: Workplace, change: Callable[[Path], None], options: tuple[str, ...]
) -> None:
    masked = place.start(f"{WAIT}; {TRAP}", ":workspace", *options)
    change(place.project / ".git")
    _assert_ended(masked, place.project / ".git")
    assert not (place.project / ".git").exists()


@pytest.mark.parametrize("change", [_move, _remove])
def test_command_is_ended_when_metadata_is_taken_away(
    place: Workplace, change: Callable[[Path], None]
) -> None:
    (place.project / ".git").mkdir()
    (place.project / ".git" / "HEAD").touch()
    masked = place.start(f"{WAIT}; {TRAP}")
    change(place.project / ".git")
    _assert_ended(masked, place.project / ".git")


@pytest.mark.parametrize("options", [(), ("--no-proc",)], ids=["plain", "no-proc"])
@pytest.mark.parametrize("change", [_move, _remove, _replace, _replace_from_another_directory])
@pytest.mark.parametrize("name", [".env", "secrets/.env", "later"])
def test_command_is_ended_when_a_denied_file_is_taken_away(
    place: Workplace, name: str, change: Callable[[Path], None], options: tuple[str, ...]
) -> None:
    (place.project / "secrets").mkdir()
    for file in (".env", "secrets/.env"):
        (place.project / file).write_text("secret")
    masked = place.start(f"{WAIT}; cat {name}", SECRETIVE, *options)
    change(place.project / name)
    _assert_ended(masked, place.project / name)


def test_command_is_ended_when_a_directory_above_a_denied_file_is_moved(place: Workplace) -> None:
    (place.project / "secrets").mkdir()
    (place.project / "secrets" / ".env").write_text("secret")
    masked = place.start(WAIT, SECRETIVE)
    _move(place.project / "secrets")
    _assert_ended(masked, place.project / "secrets")


def test_mask_in_a_directory_that_can_not_be_read_is_watched_too(
    place: Workplace, launcher: Launcher
) -> None:
    directory = place.project / "secrets"
    directory.mkdir()
    (directory / ".env").write_text("secret")
    os.chown(directory, launcher.user, launcher.user)
    directory.chmod(0o311)
    try:
        masked = place.start(WAIT, SECRETIVE)
        _move(directory / ".env")
        _assert_ended(masked, directory / ".env")
    finally:
        # An ordinary user could not remove what is in it.
        directory.chmod(0o700)


@pytest.mark.parametrize("options", [(), ("--no-proc",)], ids=["plain", "no-proc"])
def test_command_is_not_ended_by_what_leaves_its_masks_alone(
    place: Workplace, launcher: Launcher, options: tuple[str, ...]
) -> None:
    (place.project / "secrets").mkdir()
    (place.project / ".env").write_text("secret")
    granted = place.project.with_name(f"{place.project.name}-granted")
    granted.touch()
    os.chown(granted, launcher.user, launcher.user)
    granting = _profile(
        _below(".env", "deny"), {"path": {"type": "path", "path": str(granted)}, "access": "write"}
    )
    masked = place.start(
        f"touch a; mv a b; rm b; {WAIT}; ls {granted} || echo gone; cat .env", granting, *options
    )
    # Written, not replaced: what it is stays where it is.
    (place.project / ".env").write_text("another secret")
    (place.project / "file").touch()
    _move(place.project / "file")
    _remove(place.project / "elsewhere")
    _move(place.project / "secrets")
    # A mount that is lost, and none that takes something away.
    granted.unlink()
    place.signal_all()
    outcome = masked.result(DEADLINE_S)
    assert (outcome.status, outcome.stdout) == (1, "gone\n")
    assert "killed" not in outcome.stderr


def test_command_may_close_a_directory_that_has_something_denied_in_it(
    place: Workplace, launcher: Launcher
) -> None:
    directory = place.project / "secrets"
    directory.mkdir()
    (directory / ".env").write_text("secret")
    os.chown(directory, launcher.user, launcher.user)
    masked = place.start(
        f"chmod 000 secrets; touch a; rm a; {WAIT}; chmod 700 secrets; touch b; rm b", SECRETIVE
    )
    (place.project / "file").touch()
    (place.project / "file").unlink()
    place.signal_all()
    assert masked.result(DEADLINE_S).status == 0


def test_command_has_as_many_descriptors_as_its_launcher(place: Workplace) -> None:
    command = place.start("ulimit -n; ls /proc/self/fd | wc -l")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Some of the higher limit are left for others (limit.h).
    most = hard - min(hard // 4, 4096) if hard >= 4096 else hard
    assert command.result(DEADLINE_S).stdout.split() == [str(min(soft, most)), "4"]
