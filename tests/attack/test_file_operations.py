"""File operations over the wire, under a profile, with links in every component of their paths.

Each operation is asked for the path of a link that an earlier command left. Without a profile the same
operation reaches what is outside, so the links work.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import tarfile
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import paddock
from paddock.errors import PaddockError
from tests.attack.ground import Cell, Ground, look

Files = paddock.Files


@dataclass(frozen=True)
class Asked:
    """An operation; what it gives is searched for the secret."""

    name: str
    ask: Callable[[Files, Cell], Awaitable[object]]


async def _read_by_handle(files: Files, cell: Cell) -> object:
    async with files.reader(cell.inside / "last") as reader:
        return await reader.read()


async def _write_by_handle(files: Files, cell: Cell) -> None:
    async with files.writer(cell.inside / "directory" / "victim" / "file") as writer:
        await writer.write(b"x")


async def _read_as_archive(files: Files, cell: Cell) -> object:
    async with files.tree_reader(cell.inside / "directory" / "listed") as reader:
        return await reader.read()


async def _write_as_archive(files: Files, cell: Cell) -> None:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("x"))
    async with files.tree_writer(cell.inside / "directory" / "victim" / "new") as writer:
        await writer.write(content.getvalue())


async def _watched(files: Files, cell: Cell) -> object:
    async with files.watch(cell.inside / "directory") as watch:
        (cell.outside / cell.secret).touch()
        (cell.outside / cell.secret).unlink()
        async with asyncio.timeout(0.5):
            return [change async for change in watch]


ASKED = [
    Asked("a file is read through a link", lambda f, c: f.read_file(c.inside / "last")),
    Asked(
        "a file is read through a link to its directory",
        lambda f, c: f.read_file(c.inside / "directory/secret"),
    ),
    Asked(
        "a file is read through a link further up",
        lambda f, c: f.read_file(c.inside / "upper" / c.outside.name / "secret"),
    ),
    Asked(
        "a file is read by the way up",
        lambda f, c: f.read_file(f"{c.inside}/d/../../../../../outside/{c.outside.name}/secret"),
    ),
    Asked("a file is read through /proc", lambda f, c: f.read_file(f"/proc/self/root{c.outside}/secret")),
    Asked("a file is read in pieces", _read_by_handle),
    Asked(
        "a file is written through a link",
        lambda f, c: f.write_file(c.inside / "directory/victim/file", b"x"),
    ),
    Asked(
        "a file is replaced at once through a link",
        lambda f, c: f.write_file(c.inside / "directory/victim/file", b"x", atomic=True),
    ),
    Asked("a file is written in pieces", _write_by_handle),
    Asked(
        "a file is made through a link that leads nowhere",
        lambda f, c: f.write_file(c.inside / "nowhere", b"x"),
    ),
    Asked(
        "a directory is made through a link",
        lambda f, c: f.create_directory(c.inside / "directory/victim/new"),
    ),
    Asked(
        "a tree is removed through a link",
        lambda f, c: f.remove(c.inside / "directory/victim/below", recursive=True),
    ),
    Asked(
        "a file is copied out of what a link leads to",
        lambda f, c: f.copy(c.inside / "directory/secret", c.inside / "copy"),
    ),
    Asked(
        "a file is copied to where a link leads",
        lambda f, c: f.copy(c.inside / "plain", c.inside / "directory/victim/new"),
    ),
    Asked(
        "a tree is copied with what its links lead to",
        lambda f, c: f.copy(c.inside / "upper" / c.outside.name, c.inside / "tree", recursive=True),
    ),
    Asked(
        "a file is edited through a link",
        lambda f, c: f.edit(c.inside / "directory/victim/file", ("untouched", "x")),
    ),
    Asked(
        "a directory is listed through a link", lambda f, c: f.read_directory(c.inside / "directory/listed")
    ),
    Asked("a tree is walked through a link", lambda f, c: f.walk(c.inside / "directory/listed")),
    Asked("a tree is searched through a link", lambda f, c: f.search(c.inside / "directory", "secret-")),
    Asked(
        "names are searched through a link",
        lambda f, c: f.search(c.inside / "directory/listed", "secret-", kind="name"),
    ),
    Asked("a file is looked at through a link", lambda f, c: f.metadata(c.inside / "directory/secret")),
    Asked("changes are told through a link", _watched),
    Asked("a tree is read as an archive", _read_as_archive),
    Asked("a tree is written as an archive", _write_as_archive),
]


@pytest.fixture(name="cell")
def cell_with_links(territory: Path, user: int) -> Iterator[Cell]:
    ground = Ground(Path(tempfile.mkdtemp(prefix="f-", dir=territory)), user)
    cell = ground.cell(0)
    (cell.outside / "listed").mkdir()
    (cell.outside / "listed" / cell.secret).touch()
    (cell.inside / "plain").write_text("plain")
    (cell.inside / "d").mkdir()
    for name, target in {
        "last": cell.outside / "secret",
        "directory": cell.outside,
        "upper": cell.outside.parent,
        "nowhere": cell.outside / "victim" / "new",
    }.items():
        (cell.inside / name).symlink_to(target)
    ground.give()
    yield cell
    ground.remove()


async def _reached(asked: Asked, files: Files, cell: Cell) -> bool:
    """Whether the operation gave the secret away, changed something outside, or told of what is there."""
    before = look(cell.outside)
    answer: object = None
    with contextlib.suppress(PaddockError, TimeoutError):
        answer = await asked.ask(files, cell)
    is_told = cell.secret in str(answer) or isinstance(answer, paddock.MetadataResult)
    return is_told or before != look(cell.outside) or bool(cell.holders())


@pytest.mark.parametrize("asked", ASKED, ids=lambda asked: asked.name)
async def test_operation_follows_links_no_further_than_its_profile(
    asked: Asked, url: str, cell: Cell
) -> None:
    async with paddock.connect(url) as box:
        minimal = {"path": {"type": "special", "value": {"kind": "minimal"}}, "access": "read"}
        project = {"path": {"type": "special", "value": {"kind": "project_roots"}}, "access": "write"}
        profile = {
            "type": "managed",
            "file_system": {"type": "restricted", "entries": [minimal, project]},
        }
        confined = box.fs.confined(paddock.Sandbox(profile, roots=[cell.inside.parent]))
        # What is never carried out at all reaches nothing, either.
        await confined.write_file(cell.inside / "new", b"x")
        assert not await _reached(asked, confined, cell)
        assert await _reached(asked, box.fs, cell)
