"""Nothing that a command brings acts on what confines it: no variable, directory or descriptor.

The dynamic loader obeys variables before the first instruction of a program, and it loads bubblewrap.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import paddock
from paddock.own_program import own_environment
from paddock.sandbox.host import probe
from paddock.sandbox.host.question import is_placeholder
from paddock.sandbox.plan import landlock
from tests.processes import children_of, command_of, descendants_of, parent_of
from tests.sandbox.identity import directory_of
from tests.sandbox.launcher import Launcher
from tests.sandbox.profiles import READ_ONLY
from tests.sandbox.user_server import user_server
from tests.wire import session

PAYLOAD = """\
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
unsigned la_version(unsigned version) { return version; }
__attribute__((constructor)) static void escape(void) {
    int fd = open(getenv("OUTSIDE"), O_CREAT | O_WRONLY | O_APPEND, 0666);
    write(fd, "loaded\\n", 7);
}
"""

VARIABLES = ("LD_PRELOAD", "LD_AUDIT", "LD_DEBUG_OUTPUT")
WAITING = ("sh", "-c", "echo ready > began; read _ < ended")

each_variable = pytest.mark.parametrize("variable", VARIABLES)


@pytest.fixture(name="library", scope="module")
def library_that_writes_outside(ground: Path) -> Path:
    """A shared object that tells by a file that it was loaded where it can write one."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    library = ground / "payload.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-w", "-x", "c", "-o", library, "-"],
        input=PAYLOAD.encode(),
        check=True,
    )
    library.chmod(0o755)
    return library


@pytest.fixture(scope="module")
def url(user: int, ground: Path) -> Iterator[str]:
    with user_server(user, ground) as url:
        yield url


@pytest.fixture(name="outside")
def directory_of_the_user(ground: Path, user: int) -> Iterator[Path]:
    yield from _directory(ground, user)


@pytest.fixture(name="project")
def project_of_the_user(ground: Path, user: int) -> Iterator[Path]:
    yield from _directory(ground, user)


def _directory(ground: Path, user: int) -> Iterator[Path]:
    with directory_of(user, ground) as directory:
        yield directory


def hostile(variable: str, library: Path, outside: Path) -> dict[str, str]:
    """Variables that make a dynamic loader write a file in a directory."""
    ours = {"PATH": "/usr/bin:/bin", "OUTSIDE": str(outside / "loaded")}
    if variable == "LD_DEBUG_OUTPUT":
        return ours | {"LD_DEBUG": "libs", variable: str(outside / "debug")}
    return ours | {variable: str(library)}


def around(command: str, top: int) -> list[int]:
    """The processes between a command and what started its sandbox."""
    [pid] = [each for each in descendants_of(top) if command_of(each) == command]
    found: list[int] = []
    while (parent := parent_of(pid)) is not None and not _is_launcher(parent):
        found.append(parent)
        pid = parent
    return found


def _is_launcher(pid: int) -> bool:
    program = os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    return program == "paddock-spawner" or "python" in program


def variables_of(pid: int) -> dict[str, str]:
    """The environment that a process was started with."""
    try:
        content = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    except PermissionError:
        assert os.geteuid() != 0
        pytest.skip("only root can look into a process that is closed to its own user")
    return {name: value for name, _, value in (each.partition("=") for each in content if each)}


def assert_own(pid: int) -> None:
    """A process has our environment, is at the root and has no descriptor of a file of others."""
    variables = variables_of(pid)
    # Bubblewrap sets it for what it starts.
    variables.pop("PWD", None)
    assert variables == own_environment()
    is_first = command_of(pid) == "paddock-init"
    assert is_first or os.readlink(f"/proc/{pid}/cwd") == "/"
    leads = {os.readlink(entry.path) for entry in os.scandir(f"/proc/{pid}/fd") if int(entry.name) > 2}
    known = ("pipe:", "/memfd:paddock-", "anon_inode:")
    ours = {
        lead for lead in leads if lead.startswith(known) or "/paddock-init" in lead or lead.endswith("bwrap")
    }
    assert {lead for lead in leads - ours if not _is_of_init(lead)} == set()


def _is_of_init(lead: str) -> bool:
    """Whether it is a place that is held for the sandbox, or a directory that the init watches."""
    is_place = os.path.isfile(lead) and is_placeholder(lead, os.stat(lead))
    return is_place or os.path.isdir(lead) or lead.startswith("/proc/")


@each_variable
async def test_no_variable_of_a_command_acts_on_what_confines_it(
    url: str, variable: str, library: Path, project: Path, outside: Path
) -> None:
    variables = hostile(variable, library, outside)
    argv = ["sh", "-c", f"echo ${variable}; echo in > written"]
    async with paddock.connect(url) as box:
        done = await box.run(argv, cwd=project, env=variables, sandbox=":workspace")
        assert done.stdout.endswith(f"{variables[variable]}\n".encode())
        assert (project / "written").read_text() == "in\n"
        assert os.listdir(outside) == []
        traced = paddock.Sandbox(":workspace", trace=True)
        await box.run(argv, cwd=project, env=variables, sandbox=traced)
        assert os.listdir(outside) == []
        await box.run(argv, cwd=project, env=variables)
    assert os.listdir(outside) != []


@each_variable
def test_no_variable_of_the_command_line_acts_on_what_confines_its_command(
    launcher: Launcher, variable: str, library: Path, workspace: Path, new_directory: Path
) -> None:
    os.chown(new_directory, launcher.user, launcher.user)
    variables = hostile(variable, library, new_directory)
    options = ("sandbox", "--profile", ":workspace", "--", "sh", "-c", f"echo ${variable}; echo in > written")
    done = launcher.run(options, cwd=workspace, env=variables)
    assert done.status == 0
    assert done.stdout.endswith(f"{variables[variable]}\n")
    assert (workspace / "written").read_text() == "in\n"
    assert list(new_directory.iterdir()) == []
    options = ("sandbox", "--profile", ":danger-full-access", *options[3:])
    assert launcher.run(options, cwd=workspace, env=variables).status == 0
    assert list(new_directory.iterdir()) != []


async def test_what_is_around_a_command_has_nothing_of_it(url: str, project: Path) -> None:
    variables = {"PATH": "/usr/bin:/bin", "SECRET": "hunter2", "PWD": "/nowhere"}
    argv = ["sh", "-c", "echo $PWD $SECRET; read _"]
    async with (
        paddock.connect(url) as box,
        await box.start(argv, cwd=project, env=variables, sandbox=":workspace", stdin=True) as process,
    ):
        output = await anext(aiter(process))
        assert output.data == f"{project} hunter2\n".encode()
        found = around("sh", os.getpid())
        assert command_of(found[0]) == "paddock-init"
        assert len(found) > 1
        for pid in found:
            assert_own(pid)


async def test_what_is_around_a_command_of_the_command_line_has_nothing_of_it(
    launcher: Launcher, workspace: Path, new_directory: Path
) -> None:
    leak = new_directory / "leak"
    leak.write_text("secret")
    leak.chmod(0o644)
    for name in ("began", "ended"):
        os.mkfifo(workspace / name)
        os.chown(workspace / name, launcher.user, launcher.user)
    options = ("sandbox", "--", *WAITING)
    running = asyncio.create_task(
        asyncio.to_thread(launcher.run, options, cwd=workspace, env={"SECRET": "hunter2"}, leak=leak)
    )
    assert await asyncio.to_thread((workspace / "began").read_text) == "ready\n"
    try:
        found = around("sh", os.getpid())
        assert command_of(found[0]) == "paddock-init"
        for pid in found:
            assert_own(pid)
    finally:
        await asyncio.to_thread((workspace / "ended").write_text, "\n")
    assert (await running).status == 0


async def test_what_keeps_a_sandbox_for_files_has_nothing_of_the_server(
    ground: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "hunter2")
    (ground / "file").write_text("text")
    async with session() as client:
        await client.call("fs/readFile", {"path": str(ground / "file"), "sandbox": READ_ONLY})
        [spawner] = [pid for pid in children_of(os.getpid()) if command_of(pid) == "paddock-spawner"]
        found = descendants_of(spawner)
        assert len(found) > 2
        for pid in found:
            assert "SECRET" not in variables_of(pid)
            assert os.readlink(f"/proc/{pid}/cwd") == "/"


async def test_landlock_alone_confines_a_command_in_its_directory_with_its_variables(
    user: int, ground: Path, library: Path, project: Path, outside: Path
) -> None:
    if probe.host().landlock_abi < landlock.ALONE_ABI:
        pytest.skip("the kernel has no Landlock that is enough alone")
    variables = hostile("LD_PRELOAD", library, outside)
    with user_server(user, ground, use_legacy_landlock=True) as url:
        async with paddock.connect(url) as box:
            argv = ["sh", "-c", "pwd; echo $LD_PRELOAD"]
            done = await box.run(argv, cwd=project, env=variables, sandbox=":read-only")
    assert done.stdout == f"{project}\n{library}\n".encode()
    assert os.listdir(outside) == []


async def test_a_directory_that_can_not_be_entered_is_told_as_without_a_sandbox(
    url: str, user: int, project: Path
) -> None:
    (project / "closed").mkdir(mode=0o600)
    (project / "file").touch()
    places = {"missing": "No such file", "file": "Not a directory"}
    # Only root can make one that another user can't open.
    if user != os.geteuid():
        os.chown(project / "closed", 0, 0)
        places["closed"] = "Permission"
    async with paddock.connect(url) as box:
        for name, reason in places.items():
            told = []
            for confinement in (None, ":workspace"):
                with pytest.raises(paddock.RequestError, match=reason) as refusal:
                    await box.run(["true"], cwd=project / name, sandbox=confinement)
                told.append(str(refusal.value))
            assert told[0] == told[1]
