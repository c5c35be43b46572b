"""Output and exits take little of each turn of the loop, however much has come."""

from __future__ import annotations

import asyncio
import os
import socket

from paddock.model.stream import Stream
from paddock.process import spawner as wire
from paddock.process.output_stream import OutputStream
from paddock.process.pipe import widen_pipe
from paddock.process.spawner import Spawner
from tests.turn_count import counted

REPORTS = 500
CHUNK_BYTES = 4096


async def test_one_turn_takes_a_bounded_number_of_reports_from_the_spawner() -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    helper = os.pidfd_open(os.getpid())
    is_lost = asyncio.Event()
    spawner = Spawner(os.getpid(), helper, ours, on_lost=is_lost.set)
    ready = wire._RECORD.pack(wire._RECORD_READY, 0, 0, 0, 0, 0, 0, 0)
    exited = wire._RECORD.pack(wire._RECORD_EXITED, 0, 0, 0, 0, 0, 0, 0)
    loop = asyncio.get_running_loop()
    with counted(spawner, "_take") as count:
        with theirs:
            theirs.sendall(ready + REPORTS * exited)
        loop.add_reader(ours.fileno(), spawner._read)
        # At the end of what was sent.
        await is_lost.wait()
    assert count.on_loop == REPORTS + 1
    assert count.most <= 64
    os.close(helper)


async def test_one_turn_takes_one_piece_of_each_stream() -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    widen_pipe(writing)
    has_ended = asyncio.Event()
    written = os.write(writing, bytes(20 * CHUNK_BYTES))
    os.close(writing)
    sizes: list[int] = []
    output_stream = OutputStream(
        reading, Stream.STDOUT, CHUNK_BYTES, lambda _, data: sizes.append(len(data)), has_ended.set
    )
    with counted(output_stream, "_read_once") as count:
        output_stream.begin()
        await has_ended.wait()
    assert sum(sizes) == written
    assert max(sizes) <= CHUNK_BYTES
    assert count.most == 1
