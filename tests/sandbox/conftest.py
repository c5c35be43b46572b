"""What tests with the real kernel share."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from paddock.sandbox.enforce.janitor import Janitor
from tests.sandbox.identity import ORDINARY, directory_of
from tests.sandbox.launcher import Launcher
from tests.sandbox.ways import LAUNCHER_WAYS, WAYS, go

OUTSIDE_TMP = Path("/var/tmp")
"""/tmp itself can be written under the usual profiles, so it is no place for what must be protected."""

USERS = [0, ORDINARY] if os.geteuid() == 0 else [os.geteuid()]


@pytest.fixture(name="place")
def directory_for_anybody() -> Iterator[Path]:
    """A directory that every user can reach and write to, unlike those below pytest's own."""
    with tempfile.TemporaryDirectory(prefix="pd-", dir="/tmp") as directory:
        path = Path(directory).resolve()
        path.chmod(0o777)
        yield path


@pytest.fixture(scope="session")
def ground() -> Iterator[Path]:
    """A directory that every user can reach and write."""
    directory = Path(tempfile.mkdtemp(prefix="paddock-sandbox-tests-", dir=OUTSIDE_TMP)).resolve()
    # The sticky bit, as in /tmp, so that a runtime directory in it can be trusted.
    directory.chmod(0o1777)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def new_directory(ground: Path) -> Iterator[Path]:
    """A directory for one test, outside /tmp, which several profiles let everybody write."""
    directory = Path(tempfile.mkdtemp(prefix="t-", dir=ground))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(
    name="user", scope="module", params=USERS, ids=lambda user: "root" if user == 0 else "ordinary"
)
def each_user_in_turn(request: pytest.FixtureRequest) -> int:
    """Who runs a server; tests that take `each_user` have their own."""
    return int(request.param)


@pytest.fixture(scope="session")
def launcher_of(ground: Path) -> Iterator[Callable[[int], Launcher]]:
    """The launcher of each user, started when it is first needed.

    A fixture with parameters would start a new one at every change of users, twice in each file.
    """
    launchers: dict[int, Launcher] = {}
    with ExitStack() as opened:

        def get(user: int) -> Launcher:
            if user not in launchers:
                launchers[user] = opened.enter_context(Launcher(user, ground))
            return launchers[user]

        yield get


@pytest.fixture(scope="session", params=USERS, ids=lambda user: "root" if user == 0 else "ordinary")
def launcher(request: pytest.FixtureRequest, launcher_of: Callable[[int], Launcher]) -> Launcher:
    """The command line, as each user in turn."""
    return launcher_of(request.param)


@pytest.fixture(params=LAUNCHER_WAYS)
def launcher_way(request: pytest.FixtureRequest, launcher: Launcher) -> Iterator[str]:
    """How command lines get the sandboxes of commands: each way in turn."""
    launcher.way = request.param
    yield launcher.way
    launcher.way = "cold"


@pytest.fixture
def workspace(ground: Path, launcher: Launcher) -> Iterator[Path]:
    """An empty directory of the user who runs the command, removed afterwards."""
    with directory_of(launcher.user, ground) as directory:
        yield directory


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How servers of this process get the sandboxes of commands: both ways in turn."""
    go(request.param, monkeypatch)
    return str(request.param)


@pytest.fixture
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory for the journals of janitors."""
    return tmp_path_factory.mktemp("runtime")


@pytest.fixture
def janitor(runtime: Path) -> Iterator[Janitor]:
    """A janitor of this process."""
    janitor = Janitor(runtime)
    yield janitor
    janitor.close()
