"""What is particular to links inside one process; the rest is in the contract."""

from __future__ import annotations

from paddock.errors import ConnectionLost
from paddock.transport.limits import TransportLimits
from paddock.transport.link import Link
from paddock.transport.memory import connect_memory
from tests.unit.transport.recorder import Acceptor, Recorder


async def test_the_ends_are_given_in_order_of_server_and_client(acceptor: Acceptor) -> None:
    servers = Acceptor()
    server, client = connect_memory(servers, acceptor)
    assert server is servers.recorders[0].link
    assert client is acceptor.recorders[0].link
    assert (server.peer, client.peer) == ("memory client", "memory server")


async def test_nothing_is_delivered_before_the_sender_returns(acceptor: Acceptor) -> None:
    servers = Acceptor()
    _, client = connect_memory(servers, acceptor)
    client.send(b"one")
    assert servers.recorders[0].messages == []
    assert client.buffered_bytes == 3
    await servers.recorders[0].received(1)
    assert client.buffered_bytes == 0


async def test_a_greeting_from_the_servers_factory_reaches_a_client_that_is_made_later(
    acceptor: Acceptor,
) -> None:
    def greet(link: Link) -> Recorder:
        link.send(b"welcome")
        return Recorder(link)

    connect_memory(greet, acceptor)
    assert await (await acceptor.arrived()).received(1) == [b"welcome"]


async def test_a_reader_that_stays_paused_is_dropped_after_the_close_timeout(acceptor: Acceptor) -> None:
    servers = Acceptor()
    server, client = connect_memory(servers, acceptor, TransportLimits(close_timeout_s=0.02))
    client.pause_reading()
    server.send(b"unread")
    server.close()
    assert await servers.recorders[0].ended() is None
    assert isinstance(await acceptor.recorders[0].ended(), ConnectionLost)
    assert acceptor.recorders[0].messages == []
