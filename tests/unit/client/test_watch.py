"""Watches whose connection is lost while they begin or end, against a server that a test scripts."""

from __future__ import annotations

import asyncio

import pytest

from paddock.client.watch import Changes, FileChange, Watch
from paddock.errors import NotFound
from paddock.model.change import ChangeKind
from tests.unit.client.scripted_server import AT_ONCE, PATIENCE_S, Message, ScriptedServer, scripted

WATCHING = ("fsWatch",)
LOST = Changes((), is_overflow=True)


def told(watch_id: int, name: str) -> Message:
    change = {"path": f"file:///srv/{name}", "kind": "created"}
    return {"method": "fs/changed", "params": {"watchId": watch_id, "events": [change], "overflow": False}}


def created(name: str) -> Changes:
    return Changes((FileChange(f"/srv/{name}", ChangeKind.CREATED),), is_overflow=False)


async def entered(watch: Watch, server: ScriptedServer, watch_id: int = 1) -> None:
    entering = asyncio.create_task(watch.__aenter__())
    server.answer(await server.next("fs/watch"), {"watchId": watch_id})
    await entering


async def first(watch: Watch) -> Changes:
    """The next changes, as a caller learns them who begins to iterate anew."""
    async with asyncio.timeout(PATIENCE_S):
        return await anext(aiter(watch))


async def test_a_watch_whose_connection_is_lost_just_after_the_answer_begins_again() -> None:
    async with scripted(WATCHING, policy=AT_ONCE) as (box, server):
        watch = box.fs.watch("/srv")
        entering = asyncio.create_task(watch.__aenter__())
        request = await server.next("fs/watch")
        server.answer(request, {"watchId": 1})
        server.link.close()
        await entering
        await server.greet()
        changes = asyncio.create_task(first(watch))
        server.answer(await server.next("fs/watch"), {"watchId": 1})
        assert await changes == LOST
        server.send(told(1, "new"))
        assert await first(watch) == created("new")


async def test_a_watch_that_was_cancelled_while_it_began_again_begins_with_the_next_iteration() -> None:
    async with scripted(WATCHING, policy=AT_ONCE) as (box, server):
        watch = box.fs.watch("/srv")
        await entered(watch, server)
        await server.cut()
        await server.greet()
        changes = asyncio.create_task(first(watch))
        await server.next("fs/watch")
        changes.cancel()
        await asyncio.wait([changes])
        changes = asyncio.create_task(first(watch))
        server.answer(await server.next("fs/watch"), {"watchId": 2})
        assert await changes == LOST


async def test_a_watch_that_could_not_begin_again_tries_with_the_next_iteration() -> None:
    async with scripted(WATCHING, policy=AT_ONCE) as (box, server):
        watch = box.fs.watch("/srv")
        await entered(watch, server)
        await server.cut()
        await server.greet()
        changes = asyncio.create_task(first(watch))
        server.refuse(await server.next("fs/watch"), -32004, "it is not there for a moment")
        with pytest.raises(NotFound, match="for a moment"):
            await changes
        changes = asyncio.create_task(first(watch))
        server.answer(await server.next("fs/watch"), {"watchId": 1})
        assert await changes == LOST


async def test_the_end_of_a_watch_is_not_repeated_where_its_number_is_anothers() -> None:
    async with scripted(WATCHING, policy=AT_ONCE) as (box, server):
        watch = box.fs.watch("/srv")
        await entered(watch, server)
        leaving = asyncio.create_task(watch.__aexit__(None, None, None))
        await server.next("fs/unwatch")
        await server.cut()
        await server.greet()
        # The server's watches have ended with the connection.
        await leaving
        await entered(box.fs.watch("/srv"), server)


async def test_a_beginning_that_nobody_waits_for_ends_no_watch_of_the_next_connection() -> None:
    async with scripted(WATCHING, policy=AT_ONCE) as (box, server):
        entering = asyncio.create_task(box.fs.watch("/srv").__aenter__())
        request = await server.next("fs/watch")
        entering.cancel()
        await asyncio.wait([entering])
        server.answer(request, {"watchId": 1})
        server.link.close()
        await server.greet()
        await entered(box.fs.watch("/srv"), server)
        assert not server.has_unread
