"""A sandbox is made without a plan only where a plan would be the same."""

from __future__ import annotations

import marshal
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Thread
from unittest.mock import Mock

import pytest

from paddock.sandbox import remembered
from paddock.sandbox.enforce import unreadable
from paddock.transport.runtime_directory import VARIABLE
from tests.operators import PATIENCE_S
from tests.sandbox.launcher import Launcher, Outcome
from tests.sandbox.ways import PLANNED, REMEMBERED

MODULES = {"msgspec", "re", "signal", "socket", "subprocess", "typing"}
"""Modules that take longer to load than the work takes."""

TRIES = 5

Change = Callable[[Path], object]


@pytest.fixture(autouse=True)
def told(launcher: Launcher) -> Iterator[None]:
    launcher.way = "told"
    yield
    launcher.way = "cold"


@pytest.fixture(name="project")
def make_project(workspace: Path, launcher: Launcher) -> Path:
    project = workspace / "above" / "project"
    project.mkdir(parents=True)
    for path in (workspace / "above", project):
        os.chown(path, launcher.user, launcher.user)
    return project


@pytest.fixture(name="starts")
def make_runtime(workspace: Path, launcher: Launcher) -> Path:
    """The private directory of these launches alone."""
    runtime = workspace / "runtime"
    runtime.mkdir(mode=0o700)
    os.chown(runtime, launcher.user, launcher.user)
    return runtime / remembered.DIRECTORY


def run(
    launcher: Launcher, project: Path, script: str = "true", *options: str, **env: str
) -> tuple[str, Outcome]:
    """Run a script; return which way that went, and what came of it."""
    variables = {VARIABLE: str(project.parent.parent / "runtime"), **env}
    done = launcher.run(["sandbox", *options, "--", "sh", "-c", script], cwd=project, env=variables)
    way = PLANNED if PLANNED in done.stderr else REMEMBERED
    assert way in done.stderr
    return way, done


def again(
    launcher: Launcher, project: Path, script: str = "true", *options: str, **env: str
) -> tuple[str, Outcome]:
    """Do the same, and once more where that took a plan: tests beside this one may change the host meanwhile,
    such as the names that the interpreter's files have."""
    outcome = run(launcher, project, script, *options, **env)
    for _ in range(TRIES):
        if outcome[0] == REMEMBERED:
            break
        outcome = run(launcher, project, script, *options, **env)
    return outcome


def own(launcher: Launcher, path: Path) -> None:
    os.chown(path, launcher.user, launcher.user, follow_symlinks=False)


@pytest.mark.usefixtures("starts")
def test_second_start_needs_no_plan_and_confines_as_the_first(launcher: Launcher, project: Path) -> None:
    outside = project.parent / "outside"
    script = f"echo x > inside; echo x > {outside}; mkdir .git; echo $0 $PWD; id -u; exit 7"
    (first, planned), (second, repeated) = (start(launcher, project, script) for start in (run, again))
    assert (first, second) == (PLANNED, REMEMBERED)
    assert (planned.status, planned.stdout) == (repeated.status, repeated.stdout) == (7, repeated.stdout)
    assert (project / "inside").read_text() == "x\n"
    assert not outside.exists()
    assert sorted(path.name for path in project.iterdir()) == ["inside"]


def make_repository(project: Path) -> None:
    (project / ".git").mkdir()


def point_elsewhere(project: Path) -> None:
    (project / ".git").write_text("gitdir: ../elsewhere\n")


def make_metadata_file(project: Path) -> None:
    (project / ".codex").write_text("")


def make_metadata_link(project: Path) -> None:
    (project / ".aws").symlink_to("/etc")


def replace_project(project: Path) -> None:
    project.rename(project.parent / "old")
    project.mkdir()


def replace_parent_by_link(project: Path) -> None:
    above = project.parent
    moved = above.parent / "moved"
    above.rename(moved)
    above.symlink_to(moved)


def open_memory(project: Path) -> None:
    for file in (project.parent.parent / "runtime" / remembered.DIRECTORY).iterdir():
        file.chmod(0o644)


def spoil_memory(project: Path) -> None:
    for file in (project.parent.parent / "runtime" / remembered.DIRECTORY).iterdir():
        file.write_bytes(b"[" + file.read_bytes()[:1000])


def link_memory(project: Path) -> None:
    for file in (project.parent.parent / "runtime" / remembered.DIRECTORY).iterdir():
        file.rename(file.with_name("moved"))
        file.symlink_to("moved")


def reshape_memory(project: Path) -> None:
    for file in (project.parent.parent / "runtime" / remembered.DIRECTORY).iterdir():
        file.write_bytes(marshal.dumps([1]))


def fill_unreadable_file(project: Path) -> None:
    """Root may do so whatever its mode is; the mode stays."""
    file = project.parent.parent / "runtime" / unreadable.NAME
    file.chmod(0o600)
    file.write_text("x")
    file.chmod(0)


def make_empty_file_of_memory(project: Path) -> None:
    for file in (project.parent.parent / "runtime" / remembered.DIRECTORY).iterdir():
        file.write_bytes(b"")


@pytest.mark.usefixtures("starts")
@pytest.mark.parametrize(
    "change",
    [
        make_repository,
        point_elsewhere,
        make_metadata_file,
        make_metadata_link,
        replace_project,
        replace_parent_by_link,
        open_memory,
        spoil_memory,
        link_memory,
        reshape_memory,
        fill_unreadable_file,
        make_empty_file_of_memory,
    ],
)
def test_another_host_takes_another_plan(launcher: Launcher, project: Path, change: Change) -> None:
    assert run(launcher, project)[0] == PLANNED
    assert again(launcher, project)[0] == REMEMBERED
    change(project)
    for path in (project, *project.iterdir()):
        own(launcher, path)
    assert run(launcher, project)[0] == PLANNED


@pytest.mark.usefixtures("starts")
@pytest.mark.parametrize("name", ["PATH", "HOME", "TMPDIR", "XDG_CONFIG_HOME", "PYTHONPATH", "PADDOCK_ANY"])
def test_other_variables_that_decide_take_another_plan(launcher: Launcher, project: Path, name: str) -> None:
    assert run(launcher, project)[0] == PLANNED
    value = os.environ["PATH"] + ":/nowhere" if name == "PATH" else str(project.parent)
    assert run(launcher, project, **{name: value})[0] == PLANNED
    assert again(launcher, project)[0] == REMEMBERED


@pytest.mark.usefixtures("starts")
def test_variables_of_a_command_are_its_own(launcher: Launcher, project: Path) -> None:
    script = "echo $MINE $GIVEN $SOME_TOKEN"
    for start, way, mine in ((run, PLANNED, "one"), (again, REMEMBERED, "two")):
        went, done = start(
            launcher, project, script, "--env", f"GIVEN={mine}", MINE=mine, SOME_TOKEN="secret"
        )
        assert (went, done.stdout) == (way, f"{mine} {mine}\n")


@pytest.mark.usefixtures("starts")
def test_profile_in_a_file_is_read_again(launcher: Launcher, project: Path) -> None:
    profile = project.parent / "profile.toml"
    table = '[permissions.here.filesystem]\n":root" = "read"\n":workspace_roots" = "%s"\n'
    profile.write_text(table % "write")
    own(launcher, profile)
    for start, way in ((run, PLANNED), (again, REMEMBERED)):
        went, done = start(launcher, project, "touch x", "--profile", f"{profile}#here")
        assert (went, done.status) == (way, 0)
    profile.write_text(table % "read")
    went, done = run(launcher, project, "touch x", "--profile", f"{profile}#here")
    assert (went, done.status != 0) == (PLANNED, True)


TABLE = """
default_permissions = "here"
[permissions.here.filesystem]
":root" = "read"
":workspace_roots" = "%s"
"""
OWN = "from paddock.cli.main import run_and_end; run_and_end()"
CHANGING_PROFILE = f"""
from pathlib import Path
from paddock.cli import sandbox
make_command = sandbox._command
def make_late(*given):
    # The profile has been read.
    Path("../profile.toml").write_text({TABLE % "read"!r})
    return make_command(*given)
sandbox._command = make_late
{OWN}
"""


NEW_CODE = f"""
from pathlib import Path
from paddock.cli import sandbox
from paddock.sandbox import remembered
make_command, code = sandbox._command, remembered._code
def make_late(*given):
    # An installer is at work.
    Path("../module.py").write_text("")
    return make_command(*given)
sandbox._command = make_late
remembered._code = lambda: (*code(), "../module.py")
{OWN}
"""


def run_alone(project: Path, code: str, *words: str, files: Sequence[int] = ()) -> int:
    """Run `paddock sandbox` in an interpreter of its own; return the exit status."""
    return subprocess.run(
        [sys.executable, "-P", "-c", code, "sandbox", *words],
        cwd=project,
        env={**os.environ, VARIABLE: str(project.parent / "runtime")},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=files,
        timeout=PATIENCE_S,
        check=False,
    ).returncode


def test_profile_that_changes_while_a_command_starts_is_never_mixed_up(tmp_path: Path) -> None:
    project, profile = tmp_path / "project", tmp_path / "profile.toml"
    project.mkdir()
    profile.write_text(TABLE % "write")
    words = ("--profile", str(profile), "--", "touch", "x")
    assert run_alone(project, CHANGING_PROFILE, *words) == 0
    assert (project / "x").exists()
    for _ in range(2):
        assert run_alone(project, OWN, *words) != 0


def test_nothing_is_remembered_that_code_may_have_planned_which_is_gone(tmp_path: Path) -> None:
    project, memory = tmp_path / "project", tmp_path / "runtime" / remembered.DIRECTORY
    project.mkdir()
    assert run_alone(project, NEW_CODE, "--", "true") == 0
    assert not memory.exists()
    assert run_alone(project, OWN, "--", "true") == 0
    assert len(list(memory.iterdir())) == 1


def test_profile_may_come_through_a_pipe(tmp_path: Path) -> None:
    statuses = []
    for access in ("write", "write", "read"):
        reader, writer = os.pipe()
        os.write(writer, (TABLE % access).encode())
        os.close(writer)
        words = ("--profile", f"/dev/fd/{reader}", "--", "touch", f"{tmp_path}/project/x")
        (tmp_path / "project").mkdir(exist_ok=True)
        statuses.append(run_alone(tmp_path / "project", OWN, *words, files=[reader]))
        os.close(reader)
    assert statuses == [0, 0, 1]


@pytest.mark.usefixtures("starts")
def test_project_root_behind_a_link_and_above_it_is_looked_up_again(
    launcher: Launcher, project: Path
) -> None:
    elsewhere = project.parent / "elsewhere"
    for directory in (project / "below", elsewhere, elsewhere / "below"):
        directory.mkdir()
        own(launcher, directory)
    link = project / "link"
    link.symlink_to("below")
    for start, way in ((run, PLANNED), (again, REMEMBERED)):
        assert start(launcher, project, "true", "--policy-cwd", "link/..")[0] == way
    link.unlink()
    link.symlink_to(elsewhere / "below")
    assert run(launcher, project, "true", "--policy-cwd", "link/..")[0] == PLANNED


@pytest.mark.usefixtures("starts")
def test_temporary_directory_that_is_not_granted_any_more_is_told(launcher: Launcher, project: Path) -> None:
    link, elsewhere = project.parent / "link", project.parent / "elsewhere" / "below"
    for directory in (project / "below", project / "x", elsewhere.parent, elsewhere, elsewhere.parent / "x"):
        directory.mkdir()
        own(launcher, directory)
    link.symlink_to(project / "below")
    profile = project.parent / "profile.toml"
    profile.write_text(TABLE % "write" + '":tmpdir" = "write"\n')
    options = "--profile", str(profile)
    told = [start(launcher, project, "true", *options, TMPDIR=f"{link}/../x") for start in (run, again)]
    link.unlink()
    link.symlink_to(elsewhere)
    told.append(run(launcher, project, "true", *options, TMPDIR=f"{link}/../x"))
    assert [way for way, _ in told] == [PLANNED, REMEMBERED, PLANNED]
    assert ["is not granted" in done.stderr for _, done in told] == [False, False, True]


@pytest.mark.usefixtures("starts")
@pytest.mark.parametrize("options", [["--policy-cwd", "."], ["--no-proc"], ["--profile", ":read-only"]])
def test_what_is_asked_for_differently_is_another_sandbox(
    launcher: Launcher, project: Path, options: list[str]
) -> None:
    assert run(launcher, project)[0] == PLANNED
    assert run(launcher, project, "true", *options)[0] == PLANNED
    assert again(launcher, project, "true", *options)[0] == REMEMBERED
    assert again(launcher, project)[0] == REMEMBERED


@pytest.mark.usefixtures("starts")
def test_command_beside_another_is_remembered_too(launcher: Launcher, project: Path, ground: Path) -> None:
    """The other one holds the places in which nothing was."""
    assert run(launcher, project)[0] == PLANNED
    ready, go_on = project / "ready", project / "go-on"
    for pipe in (ready, go_on):
        os.mkfifo(pipe)
        own(launcher, pipe)
    with Launcher(launcher.user, ground) as other, ThreadPoolExecutor(1) as pool:
        other.way = "told"
        beside = pool.submit(run, other, project, "echo > ready; read _ < go-on")
        assert ready.read_text() == "\n"
        try:
            assert (project / ".codex").exists()
            assert again(launcher, project)[0] == REMEMBERED
        finally:
            go_on.write_text("\n")
        assert beside.result()[1].status == 0
    assert sorted(path.name for path in project.iterdir()) == ["go-on", "ready"]


def test_starts_in_many_directories_are_forgotten_again(
    launcher: Launcher, project: Path, starts: Path
) -> None:
    starts.mkdir(mode=0o700)
    own(launcher, starts)
    for number in range(remembered.FILES_LIMIT + 3):
        file = starts / f"0-{number:x}"
        file.write_bytes(b"")
        os.utime(file, (number, number))
        own(launcher, file)
    assert run(launcher, project)[0] == PLANNED
    assert again(launcher, project)[0] == REMEMBERED
    assert len(list(starts.iterdir())) == remembered.FILES_LIMIT
    assert not (starts / "0-0").exists()


def test_killed_writer_keeps_no_later_one_from_remembering(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As in a container, where every start has the same one.
    monkeypatch.setattr(os, "getpid", lambda: 7)
    scene = remembered.Scene((), str(tmp_path), ())
    kept = [(scene.facts, {"program": "bwrap"})]
    with monkeypatch.context() as killed:
        # What comes here ends the writer as a kill would: it tidies nothing.
        killed.setattr(os, "rename", Mock(side_effect=SystemExit))
        with pytest.raises(SystemExit):
            scene.write(kept)
    starts = tmp_path / remembered.DIRECTORY
    (unfinished,) = starts.iterdir()
    scene.write(kept)
    assert scene.read() == kept
    os.utime(unfinished, (0, 0))
    for number in range(remembered.FILES_LIMIT):
        (starts / f"0-{number:x}").touch()
    scene.write(kept)
    assert not unfinished.exists()
    assert scene.read() == kept


@pytest.mark.usefixtures("starts")
def test_no_more_is_remembered_of_one_directory_than_a_few_sandboxes(
    launcher: Launcher, project: Path, starts: Path
) -> None:
    for number in range(remembered.ENTRIES_LIMIT + 1):
        assert run(launcher, project, PADDOCK_ANY=str(number))[0] == PLANNED
    assert again(launcher, project, PADDOCK_ANY="1")[0] == REMEMBERED
    assert run(launcher, project, PADDOCK_ANY="0")[0] == PLANNED
    assert len(list(starts.iterdir())) == 1


@pytest.mark.usefixtures("starts")
def test_directory_that_changes_all_the_time_is_never_misjudged(launcher: Launcher, project: Path) -> None:
    """Metadata comes and goes while commands start; none may ever write it."""
    until_s = time.monotonic() + 2
    git = project / ".git"

    def change() -> None:
        while time.monotonic() < until_s:
            # It may be a place that is held for a command.
            with suppress(OSError):
                git.mkdir()
                own(launcher, git)
                (git / "config").write_text("")
                own(launcher, git / "config")
                (git / "config").unlink()
                git.rmdir()

    changing = Thread(target=change)
    changing.start()
    written = []
    while time.monotonic() < until_s:
        _, done = run(launcher, project, "echo x > .git/config && echo written; touch .git/x && echo written")
        written.append(done.stdout)
    changing.join()
    assert set(written) == {""}


def test_loads_little_and_reads_no_other_variables(tmp_path: Path) -> None:
    """The way that planned tells what decides; the way that remembers tells what it has loaded."""
    code = """
import os, sys
before = set(sys.modules)
class Noted(type(os.environ)):
    asked = set()
    def __getitem__(self, name):
        self.asked.add(name)
        return super().__getitem__(name)
environ = os.environ
coding = environ.encodekey, environ.decodekey, environ.encodevalue, environ.decodevalue
os.environ = Noted(environ._data, *coding)
sys.argv = ["paddock", "sandbox", "--", "true"]
from paddock.cli.main import main
without = [item for item in environ.items()]
Noted.asked.clear()
type(os.environ).items = lambda self: without
status = main()
print(status, "paddock.sandbox.planner" in sys.modules, *sorted(set(sys.modules) - before), file=sys.stderr)
print(*sorted(Noted.asked))
"""
    env = {**os.environ, VARIABLE: str(tmp_path / "runtime")}
    command = [sys.executable, "-P", "-c", code]
    done: list[subprocess.CompletedProcess[str]] = []
    # Tests beside this one may change the host, so that the second plans too.
    while len(done) < 2 or (done[-1].stderr.split()[1] == "True" and len(done) < TRIES):
        done.append(
            subprocess.run(
                command,
                cwd=tmp_path,
                env=env,
                capture_output=True,
                stdin=subprocess.DEVNULL,
                text=True,
                check=True,
                timeout=PATIENCE_S,
            )
        )
    outcomes = [each.stderr.split()[:2] for each in (done[0], done[-1])]
    assert outcomes == [["0", "True"], ["0", "False"]]
    names = done[0].stdout.split()
    harmless = {"LC_ALL", "LANG", "PADDOCK_URL"}
    deciding = dict(remembered._deciding_variables(dict.fromkeys(names, "")))
    assert set(names) - set(deciding) - harmless == set()
    assert MODULES.isdisjoint(done[-1].stderr.split())


@pytest.mark.parametrize(("refused", "is_kept"), [("landlock", False), ("ptrace", True)])
def test_sandbox_without_what_a_filter_refused_is_not_made_again(
    tmp_path: Path, refused: str, is_kept: bool
) -> None:
    """Another filter looks the same, and may not refuse it."""
    runtime, project = tmp_path / "runtime", tmp_path / "project"
    project.mkdir()
    command = [sys.executable, "-m", "tests.sandbox.refusing", refused]
    command += [sys.executable, "-P", "-m", "paddock", "sandbox", "--policy-cwd", str(project), "--", "true"]
    env = {**os.environ, VARIABLE: str(runtime)}
    subprocess.run(command, env=env, stdin=subprocess.DEVNULL, check=True, timeout=PATIENCE_S)
    starts = runtime / remembered.DIRECTORY
    assert starts.exists() == is_kept
