"""Slow readers, fast processes: nothing is lost, nothing hangs, memory is bounded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import paddock
from paddock.client.connection import Connection
from paddock.client.flow_control import FlowLimits
from paddock.client.opening import open_box
from paddock.transport.limits import TransportLimits
from paddock.transport.link import Accept, Link
from paddock.transport.memory import connect_memory
from tests.wire import served, shell

KIB = 1024
SEND_BUFFER = 64 * KIB
LIMITS = FlowLimits(high_water_bytes=64 * KIB, limit_bytes=512 * KIB)
READ_AHEAD = 256 * KIB
"""What a link may deliver in one turn of the loop before a decision takes effect."""


@asynccontextmanager
async def small_box() -> AsyncIterator[tuple[paddock.Box, Connection]]:
    async with served(send_buffer_bytes=SEND_BUFFER) as server:
        connection = Connection(limits=LIMITS)

        async def dial(accept: Accept) -> Link:
            limits = TransportLimits(write_high_water_bytes=SEND_BUFFER)
            return connect_memory(server.accept, accept, limits)[1]

        async with await open_box(connection, dial, client_name="test") as box:
            yield box, connection


def unread_bytes(connection: Connection) -> int:
    flow_control = connection._flow_control
    return sum(map(flow_control.unread_of, flow_control.holders))


async def dawdle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_slow_reader_gets_everything_and_memory_stays_bounded() -> None:
    size = 5_000_000
    async with small_box() as (box, connection):
        process = await box.start(["head", "-c", str(size), "/dev/zero"])
        total = 0
        async for output in process:
            total += len(output.data)
            assert unread_bytes(connection) <= LIMITS.high_water_bytes + READ_AHEAD
            await dawdle()
        assert total == size


async def test_a_pipeline_with_a_slow_end_holds_its_writer_up_and_loses_nothing() -> None:
    data = bytes(range(256)) * 16_000
    async with small_box() as (box, connection):
        process = await box.start(["cat"], stdin=True)

        async def feed() -> None:
            await process.write(data)
            await process.close_stdin()

        received = bytearray()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(feed())
            async for output in process:
                received += output.data
                assert unread_bytes(connection) <= LIMITS.limit_bytes + READ_AHEAD
                await dawdle()
        assert received == data


async def test_a_reader_may_talk_to_the_server_between_two_pieces_of_a_flood() -> None:
    async with small_box() as (box, _):
        size = LIMITS.limit_bytes - 1
        flood = await box.start(["head", "-c", str(size), "/dev/zero"])
        total = 0
        async for output in flood:
            total += len(output.data)
            assert (await box.run(["echo", "hi"])).stdout == b"hi\n"
        assert total == size


async def test_a_process_that_floods_a_reader_who_left_can_be_waited_for_and_ended() -> None:
    async with small_box() as (box, _):
        process = await box.start(shell("trap 'exit 3' TERM; while :; do head -c 100000 /dev/zero; done"))
        async for _output in process:
            break
        await process.signal("TERM")
        assert await process.wait() == 3
