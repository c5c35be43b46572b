"""Downloads from a server that lies about what it has."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from paddock.errors import LocalFileError, ProtocolViolation
from tests.unit.client.scripted_server import PATIENCE_S, Message, ScriptedServer, scripted

DIRECTORY: Message = {
    "isDirectory": True,
    "isFile": False,
    "isSymlink": False,
    "size": 0,
    "createdAtMs": 0,
    "modifiedAtMs": 0,
}


FILE: Message = {**DIRECTORY, "isDirectory": False, "isFile": True, "size": 1}

NO_NAMES = ["../escaped", "{outside}/escaped", "a/../../escaped", "..", ".", "", "a\0b"]


@pytest.mark.parametrize("name", NO_NAMES)
async def test_a_server_that_lists_paths_gets_nothing_written(tmp_path: Path, name: str) -> None:
    async with scripted() as (box, server):
        download = asyncio.create_task(box.fs.download("/srv/tree", tmp_path / "copy"))
        server.answer(await server.next("fs/getMetadata"), DIRECTORY)
        listed = {"fileName": name.format(outside=tmp_path), "isDirectory": True, "isFile": False}
        server.answer(await server.next("fs/readDirectory"), {"entries": [listed]})
        with pytest.raises(ProtocolViolation, match="not a file name"):
            async with asyncio.timeout(PATIENCE_S):
                await download
    assert [names for _, *found in os.walk(tmp_path) for names in found if names] == [["copy"]]


@pytest.mark.parametrize("kind", ["file", "directory"])
async def test_a_link_that_an_earlier_download_left_is_not_followed(tmp_path: Path, kind: str) -> None:
    outside, copy = tmp_path / "outside", tmp_path / "copy"
    outside.mkdir()
    copy.mkdir()
    (copy / "x").symlink_to(outside if kind == "directory" else outside / "escaped")
    answers = {
        "fs/readDirectory": {"entries": [{"fileName": "x", "isDirectory": False, "isFile": True}]},
        "fs/open": {"handleId": "h"},
        "fs/readBlock": {"chunk": "eA==", "eof": True},
        "fs/close": {},
    }

    async def serve(server: ScriptedServer) -> None:
        while True:
            request = await server.received.get()
            path = request["params"].get("path", "")
            is_directory = path.endswith("tree") or kind == "directory"
            server.answer(request, answers.get(request["method"], DIRECTORY if is_directory else FILE))

    async with scripted() as (box, server):
        serving = asyncio.create_task(serve(server))
        with pytest.raises(LocalFileError):
            async with asyncio.timeout(PATIENCE_S):
                await box.fs.download("/srv/tree", copy)
        serving.cancel()
    assert [names for _, *found in os.walk(outside) for names in found if names] == []


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    """A place for directories that lie deeper than Python itself can remove."""
    yield tmp_path / "deep"
    subprocess.run(["rm", "-rf", tmp_path / "deep"], check=True)


async def test_a_server_that_tells_of_directories_without_end_gets_an_error(deep: Path) -> None:
    listed = {"entries": [{"fileName": "aa", "isDirectory": True, "isFile": False}]}

    async def serve(server: ScriptedServer) -> None:
        while True:
            request = await server.received.get()
            server.answer(request, listed if request["method"] == "fs/readDirectory" else DIRECTORY)

    async with scripted() as (box, server):
        serving = asyncio.create_task(serve(server))
        with pytest.raises(LocalFileError, match="File name too long"):
            async with asyncio.timeout(PATIENCE_S):
                await box.fs.download("/srv/tree", deep)
        serving.cancel()
