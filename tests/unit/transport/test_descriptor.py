"""A transport over two descriptors, whatever they are of."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from paddock.transport.descriptor import DescriptorTransport
from tests.unit.transport.recorder import PATIENCE_S


class Noting(asyncio.Protocol):
    """Remembers what came, and how it ended."""

    def __init__(self) -> None:
        self.data = b""
        self.at_end = asyncio.Event()
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self.data += data

    def eof_received(self) -> bool:
        self.at_end.set()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(exc)


async def ended(protocol: Noting) -> Exception | None:
    async with asyncio.timeout(PATIENCE_S):
        return await protocol.lost


async def test_a_file_is_read_though_nobody_can_wait_for_one(tmp_path: Path) -> None:
    path, copy = tmp_path / "input", tmp_path / "output"
    path.write_bytes(b"x" * 300_000)
    copy.touch()
    protocol = Noting()
    stream = DescriptorTransport(protocol, os.open(path, os.O_RDONLY), os.open(copy, os.O_WRONLY))
    stream.start()
    async with asyncio.timeout(PATIENCE_S):
        await protocol.at_end.wait()
    assert protocol.data == path.read_bytes()
    stream.write(b"answer")
    stream.write(b"")
    stream.close()
    stream.write(b"too late")
    assert await ended(protocol) is None
    assert stream.is_closing()
    assert copy.read_bytes() == b"answer"


async def test_a_terminal_that_hangs_up_is_an_end_and_no_failure() -> None:
    ours, theirs = os.openpty()
    protocol = Noting()
    stream = DescriptorTransport(protocol, ours, os.open(os.devnull, os.O_WRONLY))
    stream.start()
    os.write(theirs, b"bye\n")
    os.close(theirs)
    async with asyncio.timeout(PATIENCE_S):
        await protocol.at_end.wait()
    assert protocol.data == b"bye\r\n"
    stream.close()
    assert await ended(protocol) is None


async def test_a_descriptor_that_can_not_be_read_ends_the_transport_with_the_reason(tmp_path: Path) -> None:
    protocol = Noting()
    stream = DescriptorTransport(protocol, os.open(tmp_path, os.O_RDONLY), os.open(os.devnull, os.O_WRONLY))
    stream.start()
    with pytest.raises(IsADirectoryError):
        raise await ended(protocol) or AssertionError("no reason")
