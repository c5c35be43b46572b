"""Input on its way to a process that may not read it."""

from __future__ import annotations

import asyncio

from paddock.cli.input_queue import InputQueue


async def test_bytes_come_out_in_order_and_the_end_after_them() -> None:
    queue = InputQueue(100)
    assert queue.offer(b"abc")
    await queue.put(b"def")
    queue.end()
    assert await queue.get(4) == b"abcd"
    assert await queue.get(4) == b"ef"
    assert await queue.get(4) == b""


async def test_what_does_not_fit_is_refused_whole() -> None:
    queue = InputQueue(4)
    assert queue.offer(b"abc")
    assert not queue.offer(b"de")
    assert queue.offer(b"d")
    assert await queue.get(10) == b"abcd"


async def test_a_giver_that_can_wait_waits_for_room() -> None:
    queue = InputQueue(3)
    await queue.put(b"abc")
    waiting = asyncio.ensure_future(queue.put(b"def"))
    await asyncio.sleep(0)
    assert not waiting.done()
    assert await queue.get(3) == b"abc"
    await waiting
    assert await queue.get(3) == b"def"


async def test_what_is_there_can_be_had_without_waiting() -> None:
    queue = InputQueue(10)
    assert queue.take(3) == b""
    assert queue.offer(b"abcd")
    assert queue.take(3) == b"abc"
    assert await queue.get(3) == b"d"


async def test_a_taker_waits_for_news() -> None:
    queue = InputQueue(3)
    waiting = asyncio.ensure_future(queue.get(3))
    await asyncio.sleep(0)
    assert not waiting.done()
    assert queue.offer(b"")
    await asyncio.sleep(0)
    assert not waiting.done()
    assert queue.offer(b"x")
    assert await waiting == b"x"
