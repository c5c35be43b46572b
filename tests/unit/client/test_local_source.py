from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from paddock.client.local_source import next_piece, open_source


async def test_a_file_a_pipe_and_a_device_are_read_to_their_end(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    for path in (tmp_path / "file", Path("/dev/null")):
        descriptor = open_source(os.fsencode(path))
        pieces = [await next_piece(descriptor, 4), await next_piece(descriptor, 4)]
        assert b"".join(pieces) == path.read_bytes()
        assert await next_piece(descriptor, 4) == b""
        os.close(descriptor)
    reader, writer = os.pipe()
    os.write(writer, b"content")
    os.close(writer)
    assert [await next_piece(reader, 64), await next_piece(reader, 64)] == [b"content", b""]
    os.close(reader)


async def test_a_named_pipe_without_a_writer_is_not_at_its_end(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    descriptor = open_source(os.fsencode(tmp_path / "pipe"))
    reading = asyncio.create_task(next_piece(descriptor, 64))
    await asyncio.sleep(0)
    assert not reading.done()
    await asyncio.to_thread((tmp_path / "pipe").write_bytes, b"content")
    assert await reading == b"content"
    assert await next_piece(descriptor, 64) == b""
    os.close(descriptor)


async def test_a_wait_for_a_pipe_that_is_cancelled_has_read_nothing() -> None:
    reader, writer = os.pipe()
    reading = asyncio.create_task(next_piece(reader, 64))
    await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    os.write(writer, b"content")
    assert await next_piece(reader, 64) == b"content"
    os.close(reader)
    os.close(writer)
