"""The stages on which attempts are played, and what came of each."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.attack.attempt import NOT_CONFINED, USERS, Attempt, Performance, play
from tests.attack.ground import Ground
from tests.attack.server import server_apart
from tests.attack.stage import Stage

PROBE_SOURCE = Path(__file__).with_name("probe.c")


@pytest.fixture(scope="session")
def territory() -> Iterator[Path]:
    """A directory that every user can reach and write, outside of /tmp."""
    directory = Path(tempfile.mkdtemp(prefix="paddock-attack-", dir="/var/tmp")).resolve()
    # The sticky bit, as in /tmp, so that a runtime directory in it can be trusted.
    directory.chmod(0o1777)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def probe(territory: Path) -> Path:
    """The program of system calls."""
    program = territory / "probe"
    subprocess.run(["cc", "-O1", "-Wall", "-Wextra", "-Werror", "-o", program, PROBE_SOURCE], check=True)
    return program


@pytest.fixture(scope="session")
def stage_of(territory: Path) -> Iterator[Callable[[int], Stage]]:
    """The stage of each user, set when it is first needed."""
    stages: dict[int, Stage] = {}
    with ExitStack() as opened:

        def get(user: int) -> Stage:
            if user not in stages:
                stages[user] = opened.enter_context(Stage(user, territory))
            return stages[user]

        yield get


@pytest.fixture(scope="session", params=USERS, ids=lambda user: "root" if user == 0 else "ordinary")
def stage(request: pytest.FixtureRequest, stage_of: Callable[[int], Stage]) -> Stage:
    """That of each user in turn."""
    return stage_of(request.param)


@pytest.fixture(
    scope="module", name="user", params=USERS, ids=lambda user: "root" if user == 0 else "ordinary"
)
def each_user_in_turn(request: pytest.FixtureRequest) -> int:
    """Who runs the server of a test that takes `url`."""
    return int(request.param)


@pytest.fixture(scope="module")
def url(user: int, territory: Path) -> Iterator[str]:
    """A server of that user."""
    with server_apart(user, territory) as url:
        yield url


NewGround = Callable[[int], Ground]


@pytest.fixture(scope="session")
def new_ground(territory: Path) -> Iterator[NewGround]:
    """Makes grounds of a user, which are removed in the end."""
    grounds: list[Ground] = []

    def make(user: int) -> Ground:
        grounds.append(Ground(Path(tempfile.mkdtemp(prefix="g-", dir=territory)), user))
        return grounds[-1]

    yield make
    for ground in grounds:
        ground.remove()


class Arena:
    """Plays attempts once for each user, and remembers what came of them."""

    def __init__(self, stage_of: Callable[[int], Stage], territory: Path, probe: Path) -> None:
        self._stage_of = stage_of
        self._territory = territory
        self._probe = probe
        self._played: dict[tuple[str, int, bool], Performance] = {}

    def judge(self, attempt: Attempt, company: Sequence[Attempt], user: int) -> None:
        """Fail unless the attempt is won outside and lost inside. `company` are played with it."""
        outsider = 0 if attempt.needs_root and os.geteuid() == 0 else user
        outside = self._performance(attempt, company, outsider, is_confined=False)
        if not outside.won[attempt.name]:
            if attempt.needs or (attempt.needs_root and outsider != 0):
                pytest.skip(f"needs {attempt.needs or 'root'}")
            pytest.fail(f"it fails even outside: {outside.said.get(attempt.name)} {outside.outcome}")
        inside = self._performance(attempt, company, user, is_confined=True)
        if not inside.has_begun:
            assert attempt.may_be_refused, inside.outcome
        elif not attempt.may_end_it:
            assert inside.outcome.status != NOT_CONFINED, inside.outcome
        assert not inside.won[attempt.name], inside.said.get(attempt.name)

    def _performance(
        self, attempt: Attempt, company: Sequence[Attempt], user: int, *, is_confined: bool
    ) -> Performance:
        key = (attempt.name, user, is_confined)
        if key not in self._played:
            together = [other for other in company if other.profile == attempt.profile and not other.is_alone]
            cast = [attempt] if attempt.is_alone else together
            ground = Ground(Path(tempfile.mkdtemp(prefix="g-", dir=self._territory)), user)
            try:
                performance = play(self._stage_of(user), ground, cast, self._probe, is_confined=is_confined)
            finally:
                ground.remove()
            self._played |= {(other.name, user, is_confined): performance for other in cast}
        return self._played[key]


@pytest.fixture(scope="session")
def arena(stage_of: Callable[[int], Stage], territory: Path, probe: Path) -> Arena:
    """Where attempts are judged."""
    return Arena(stage_of, territory, probe)
