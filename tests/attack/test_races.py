"""Races with what Paddock does on the host: places that it makes, operations on files, denied paths.

Somebody who may write further up exchanges a directory for a link, without a pause, while Paddock works. The
link leads outside, to a place that looks the same. A program that goes by paths is led there, which shows
that the race can be won.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import paddock
from paddock.errors import RequestError
from tests.attack.attempt import profile_of
from tests.attack.conftest import NewGround
from tests.attack.ground import Cell, Ground, processes
from tests.attack.stage import Stage

Files = paddock.Files

STARTS = 40
"""Sandboxes that are started during each race."""
ASKED = 30
"""File operations during each race."""
NAIVE_TRIES = 20_000
"""Of a program that goes by paths, until it is led astray."""


@contextmanager
def _exchanging(stage: Stage, ground: Ground, probe: Path, one: Path, other: Path) -> Iterator[None]:
    """Exchange two paths, again and again, for the time of the block."""
    name = f"{ground.token}-race"
    script = f"export NAME={name}; exec {probe} swap {one} {other}"
    assert stage.run(["/bin/sh", "-c", script], cwd=ground.directory, is_plain=True).status == 0
    try:
        yield
    finally:
        while racing := processes(name):
            for process in racing:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)


def _texts(directory: Path) -> dict[str, str]:
    """The files below a directory. Empty directories are what bubblewrap may leave, see SECURITY.md."""
    return {
        str(path.relative_to(directory)): path.read_text()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


# ---- the start of a sandbox ----

COMPONENTS = {"the project itself": 0, "the directory above the project": 1, "a directory further up": 2}


@pytest.fixture(name="ground")
def ground_of_the_user(new_ground: NewGround, user: int) -> Ground:
    return new_ground(user)


def _decoy(ground: Ground, component: Path) -> tuple[Path, Path]:
    """A place outside that looks like what is below a component, and a link to it beside the component."""
    victim = ground.outside / "victim"
    project = victim / ground.project.relative_to(component)
    project.mkdir(parents=True)
    (project / "denied").write_text("the owner's")
    (project / "kept").write_text("the owner's")
    link = component.with_name("link")
    link.symlink_to(victim)
    return victim, link


@pytest.mark.parametrize("above", COMPONENTS.values(), ids=COMPONENTS)
def test_start_touches_nothing_outside_while_a_directory_is_exchanged_for_a_link(
    above: int, user: int, ground: Ground, stage_of: Callable[[int], Stage], probe: Path
) -> None:
    stage = stage_of(user)
    component = [ground.project, *ground.project.parents][above]
    victim, link = _decoy(ground, component)
    below = ground.project.relative_to(component)
    ground.give()
    before = _texts(victim)
    entry = {"path": {"type": "path", "path": str(ground.project / "denied")}, "access": "deny"}
    profile = profile_of("strict", ground).replace('"entries": [', f'"entries": [{json.dumps(entry)}, ')
    words = ["sandbox", "--policy-cwd", str(ground.project), "--profile", profile, "--", "/bin/true"]
    with _exchanging(stage, ground, probe, component, link):
        running = [stage.start(words, cwd=ground.directory) for _ in range(STARTS)]
        for one in running:
            one.wait()
        # bubblewrap may leave an empty file there, of which SECURITY.md tells.
        assert {name: text for name, text in _texts(victim).items() if text or name in before} == before
        # Whoever goes by the same path, as the owner of it, is led there.
        naive = (
            f"i=0; while [ $i -lt {NAIVE_TRIES} ]; do rm -f {ground.project}/denied;"
            f" [ -e {victim / below}/denied ] || exit 7; i=$((i + 1)); done"
        )
        done = stage.run(["/bin/sh", "-c", naive], cwd=ground.directory, is_plain=True)
    assert done.status == 7


# ---- file operations ----


@dataclass(frozen=True)
class Asked:
    """An operation on a file in a directory that is exchanged for a link."""

    name: str
    ask: Callable[[Files, Path], Awaitable[object]]


async def _in_pieces(files: Files, directory: Path) -> None:
    async with files.writer(directory / "file", atomic=True) as writer:
        await writer.write(b"x")


async def _copy(files: Files, directory: Path) -> object:
    await files.copy(directory / "secret", directory.parent / "copy")
    return await files.read_file(directory.parent / "copy")


async def _tree(files: Files, directory: Path) -> None:
    async with files.tree_writer(directory / f"new-{os.urandom(4).hex()}") as writer:
        await writer.write(bytes(10240))


ASKED_FOR = [
    Asked("read", lambda files, directory: files.read_file(directory / "secret")),
    Asked("written", lambda files, directory: files.write_file(directory / "file", b"x")),
    Asked("replaced", lambda files, directory: files.write_file(directory / "file", b"x", atomic=True)),
    Asked("written in pieces", _in_pieces),
    Asked("removed", lambda files, directory: files.remove(directory / "below", recursive=True)),
    Asked("made", lambda files, directory: files.create_directory(directory / f"new-{os.urandom(4).hex()}")),
    Asked("copied", _copy),
    Asked("edited", lambda files, directory: files.edit(directory / "file", ("untouched", "x"))),
    Asked("searched", lambda files, directory: files.search(directory, "secret-")),
    Asked("unpacked", _tree),
]


@pytest.fixture(name="cell")
def cell_with_a_link(ground: Ground) -> Cell:
    cell = ground.cell(0)
    victim = cell.outside
    (victim / "below").mkdir()
    (victim / "below" / "deep").write_text("untouched")
    (victim / "file").write_text("untouched")
    (cell.inside / "d" / "below").mkdir(parents=True)
    (cell.inside / "d" / "file").write_text("untouched")
    (cell.inside / "d" / "secret").write_text("not so secret")
    (cell.inside / "link").symlink_to(victim)
    ground.give()
    return cell


class Contest:
    """An operation against somebody who exchanges the directory that it is in for a link."""

    def __init__(self, asked: Asked, cell: Cell, race: Callable[[], AbstractContextManager[None]]) -> None:
        self._asked = asked
        self._cell = cell
        self._race = race
        self.last_error: RequestError | None = None

    async def is_won(self, files: Files, tries: int) -> bool:
        """Whether the operation has changed something outside, or given the secret away."""
        before = self._outside()
        is_told = False
        with self._race():
            for _ in range(tries):
                answer: object = None
                try:
                    answer = await self._asked.ask(files, self._cell.inside / "d")
                except RequestError as error:
                    self.last_error = error
                is_told = self._cell.secret in str(answer)
                # Only here, for in the project whoever looks could be led outside as well.
                if is_told or before != self._outside():
                    break
        return is_told or before != self._outside() or bool(self._cell.holders())

    def _outside(self) -> tuple[list[Path], dict[str, str]]:
        return sorted(self._cell.outside.rglob("*")), _texts(self._cell.outside)


@pytest.mark.parametrize("asked", ASKED_FOR, ids=lambda asked: asked.name)
async def test_operation_stays_inside_while_a_directory_is_exchanged_for_a_link(
    asked: Asked,
    user: int,
    url: str,
    ground: Ground,
    cell: Cell,
    stage_of: Callable[[int], Stage],
    probe: Path,
) -> None:
    def race() -> AbstractContextManager[None]:
        return _exchanging(stage_of(user), ground, probe, cell.inside / "d", cell.inside / "link")

    contest = Contest(asked, cell, race)
    sandbox = paddock.Sandbox(_project_alone(), roots=[ground.project])
    async with paddock.connect(url) as box:
        confined = box.fs.confined(sandbox)
        # What is never carried out at all stays inside, too.
        await confined.write_file(cell.inside / "before", b"x")
        assert not await contest.is_won(confined, ASKED)
        await confined.write_file(cell.inside / "after", b"x")
        assert await contest.is_won(box.fs, NAIVE_TRIES), contest.last_error


def _project_alone() -> dict[str, object]:
    minimal = {"path": {"type": "special", "value": {"kind": "minimal"}}, "access": "read"}
    project = {"path": {"type": "special", "value": {"kind": "project_roots"}}, "access": "write"}
    return {"type": "managed", "file_system": {"type": "restricted", "entries": [minimal, project]}}
