"""Downloads from a server that lies about what it has."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from paddock.errors import ProtocolViolation
from tests.unit.client.scripted_server import PATIENCE_S, Message, scripted

DIRECTORY: Message = {
    "isDirectory": True,
    "isFile": False,
    "isSymlink": False,
    "size": 0,
    "createdAtMs": 0,
    "modifiedAtMs": 0,
}


NO_NAMES = ["../escaped", "{outside}/escaped", "a/../../escaped", "..", ".", "", "a\0b"]


@pytest.mark.parametrize("name", NO_NAMES)
async def test_a_server_that_lists_paths_gets_nothing_written(tmp_path: Path, name: str) -> None:
    async with scripted() as (box, server):
        download = asyncio.create_task(box.fs.download("/srv/tree", tmp_path / "copy"))
        server.answer(await server.next("fs/getMetadata"), DIRECTORY)
        listed = {"fileName": name.format(outside=tmp_path), "isDirectory": True, "isFile": False}
        server.answer(await server.next("fs/readDirectory"), {"entries": [listed]})
        with pytest.raises(ProtocolViolation, match="no name of a file"):
            async with asyncio.timeout(PATIENCE_S):
                await download
    assert [names for _, *found in os.walk(tmp_path) for names in found if names] == [["copy"]]
