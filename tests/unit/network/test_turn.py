"""A crowd of a proxy's clients leaves the event loop to others between any two of them."""

from __future__ import annotations

import asyncio
import socket

import pytest

from paddock.network import http_exchange, wire_server
from paddock.network.turn import Turns
from tests.turn_count import counted
from tests.unit.network.scene import proxy_scene

CROWD = 50
BLOCKED = b"GET http://blocked.test/ HTTP/1.1\r\nHost: blocked.test\r\n\r\n"


async def test_requests_that_come_at_once_are_read_one_in_a_turn() -> None:
    async with proxy_scene(["good.test"]) as scene:
        clients = [await scene.open() for _ in range(CROWD)]
        with counted(http_exchange, "parse_target") as requests:
            for _, writer in clients:
                writer.write(BLOCKED)
            answers = await asyncio.gather(*(reader.read() for reader, _ in clients))
        for _, writer in clients:
            writer.close()
    assert all(b" 403 " in answer for answer in answers)
    assert (requests.on_loop, requests.most) == (CROWD, 1)


async def test_connections_that_come_at_once_are_accepted_one_in_a_turn() -> None:
    async with proxy_scene(["good.test"]) as scene:
        with counted(wire_server, "_served") as served:
            # The kernel takes them before the loop looks.
            clients = [socket.create_connection(("127.0.0.1", scene.port)) for _ in range(CROWD)]
            for client in clients:
                client.sendall(BLOCKED)
                client.setblocking(False)
            loop = asyncio.get_running_loop()
            answers = await asyncio.gather(*(loop.sock_recv(client, 16) for client in clients))
        for client in clients:
            client.close()
    assert all(b" 403 " in answer for answer in answers)
    assert (served.on_loop, served.most) == (CROWD, 1)


async def test_more_connections_than_the_limit_wait_for_those_before_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wire_server, "CONNECTIONS_LIMIT", 8)
    async with proxy_scene(["good.test"]) as scene:
        first = [await scene.open() for _ in range(8)]
        late_reader, late_writer = await scene.open()
        late_writer.write(BLOCKED)
        for reader, writer in first:
            writer.write(BLOCKED)
            assert b" 403 " in await reader.read()
            writer.close()
        assert b" 403 " in await late_reader.read()
        late_writer.close()


async def test_proxy_with_one_client_waits_for_one_of_a_crowd() -> None:
    turns = Turns()
    crowded, quiet = turns.share(), turns.share()
    order: list[str] = []

    async def work(name: str) -> None:
        await (quiet if name == "quiet" else crowded).take()
        order.append(name)

    await asyncio.gather(*(work(name) for name in (*(["crowded"] * CROWD), "quiet")))
    assert order.index("quiet") == 1
