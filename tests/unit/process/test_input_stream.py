"""The input of a process: order, back-pressure and the end, seen from the other end of a real pipe."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Iterator, Sequence

import pytest

from paddock.process.input_stream import (
    FLUSHED_BYTES,
    GATHERED_BYTES,
    GATHERED_WRITES,
    JOINED_BYTES,
    QUEUE_LIMIT_BYTES,
    InputStream,
)
from paddock.process.pipe import BULK_PIPE_BYTES


class Pipe:
    """A pipe whose reading end does not block."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()
        os.set_blocking(self.reading, False)
        os.set_blocking(self.writing, False)

    def read(self) -> bytes | None:
        """What is there now: empty at the end, None if there is nothing yet."""
        try:
            return os.read(self.reading, QUEUE_LIMIT_BYTES)
        except BlockingIOError:
            return None

    async def read_to_end(self) -> bytes:
        found = bytearray()
        while (data := self.read()) != b"":
            found += data or b""
            await asyncio.sleep(0)
        return bytes(found)

    def stop_reading(self) -> None:
        os.close(self.reading)
        self.reading = -1


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    if pipe.reading >= 0:
        pipe.stop_reading()


def input_stream_of(pipe: Pipe) -> InputStream:
    return InputStream(pipe.writing, is_terminal=False)


async def test_writes_of_one_turn_reach_the_process_together_and_in_order(pipe: Pipe) -> None:
    input_stream = input_stream_of(pipe)
    for word in (b"one ", b"two ", b"three"):
        input_stream.write(word)
    at_once = pipe.read()

    await asyncio.sleep(0)

    assert (at_once, pipe.read()) == (None, b"one two three")
    input_stream.close()


async def test_a_large_write_does_not_wait_for_the_end_of_the_turn(pipe: Pipe) -> None:
    input_stream = input_stream_of(pipe)

    input_stream.write(b"x" * GATHERED_BYTES)

    assert pipe.read()
    input_stream.close()


async def test_flush_lets_nothing_overtake_what_was_written(pipe: Pipe) -> None:
    input_stream = input_stream_of(pipe)
    input_stream.write(b"before the signal")

    input_stream.flush()

    assert pipe.read() == b"before the signal"
    input_stream.close()
    input_stream.flush()


@pytest.mark.parametrize("count", [1, GATHERED_WRITES, GATHERED_WRITES + 1, 1000])
async def test_many_small_writes_arrive_whole_before_the_end(pipe: Pipe, count: int) -> None:
    input_stream = input_stream_of(pipe)
    words = [b"%d," % number for number in range(count)]
    for word in words:
        input_stream.write(word)

    input_stream.end()

    assert await pipe.read_to_end() == b"".join(words)
    assert not input_stream.is_open


async def test_input_that_waits_byte_by_byte_takes_hardly_more_memory_than_in_one_piece(pipe: Pipe) -> None:
    input_stream = input_stream_of(pipe)
    count = 4 * BULK_PIPE_BYTES
    for number in range(count):
        input_stream.write(bytes([number % 251]))

    assert len(input_stream._queue) <= count // JOINED_BYTES + 2
    input_stream.end()
    assert await pipe.read_to_end() == bytes(number % 251 for number in range(count))


async def test_process_that_keeps_reading_gets_a_bounded_part_in_one_turn(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    input_stream = input_stream_of(pipe)
    for _ in range(100):
        input_stream.write(b"x" * GATHERED_BYTES)
    pipe.read()
    read_bytes = 0
    write = os.writev

    def read_at_once(fd: int, data: Sequence[bytes]) -> int:
        nonlocal read_bytes
        written = write(fd, data)
        read_bytes += len(pipe.read() or b"")
        return written

    with monkeypatch.context() as patch:
        patch.setattr(os, "writev", read_at_once)
        input_stream._flush()
    assert FLUSHED_BYTES <= read_bytes < 2 * FLUSHED_BYTES
    input_stream.close()


async def test_writes_that_the_pipe_takes_only_in_part_arrive_whole(pipe: Pipe) -> None:
    input_stream = input_stream_of(pipe)
    blocks = [bytes([number]) * 70_001 for number in range(50)]
    for block in blocks:
        input_stream.write(block)
    had_room = input_stream.has_room
    input_stream.end()

    found = await pipe.read_to_end()

    assert not had_room
    assert found == b"".join(blocks)


async def test_a_pipe_that_does_not_take_everything_at_once_becomes_wide(pipe: Pipe) -> None:
    input_stream = input_stream_of(pipe)
    narrow_bytes = fcntl.fcntl(pipe.writing, fcntl.F_GETPIPE_SZ)
    # The first write fills it to the last byte: the kernel refuses nothing, and takes nothing in part.
    input_stream.write(b"x" * narrow_bytes)
    input_stream.write(b"y" * narrow_bytes)

    input_stream.flush()

    assert fcntl.fcntl(pipe.writing, fcntl.F_GETPIPE_SZ) > narrow_bytes
    input_stream.close()


async def test_writer_that_waits_for_room_gets_it_when_the_process_reads(pipe: Pipe) -> None:
    input_stream = input_stream_of(pipe)
    input_stream.write(b"x" * (3 * QUEUE_LIMIT_BYTES))
    waiting = asyncio.create_task(input_stream.drain())
    await asyncio.sleep(0)
    waited = not waiting.done()

    while not waiting.done():
        pipe.read()
        await asyncio.sleep(0)

    assert waited
    assert input_stream.has_room
    input_stream.close()


async def test_input_that_nobody_can_read_closes_the_stream(pipe: Pipe) -> None:
    input_stream = input_stream_of(pipe)
    pipe.stop_reading()

    input_stream.write(b"anybody?")
    await asyncio.sleep(0)

    assert not input_stream.is_open
    input_stream.write(b"nobody")


async def test_closing_drops_what_was_gathered(pipe: Pipe) -> None:
    input_stream = input_stream_of(pipe)
    input_stream.write(b"too late")

    input_stream.close()
    await asyncio.sleep(0)

    assert pipe.read() == b""
