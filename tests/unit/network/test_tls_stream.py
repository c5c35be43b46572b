"""TLS that the proxy opens, against an end that makes it work."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from paddock.network.tls_stream import RECORDS_PER_TURN, TlsStream
from paddock.network.turn import Turns
from paddock.network.wire import Wire
from tests import tls
from tests.turn_count import counted
from tests.unit.transport.key_changes import KeyChanger

FLOOD = 3000


@pytest.mark.parametrize("takes_turns", [True, False])
async def test_changes_of_keys_without_end_let_others_have_their_turns(
    tmp_path: Path, takes_turns: bool
) -> None:
    loop = asyncio.get_running_loop()
    accepted: asyncio.Future[Wire] = loop.create_future()

    def accept() -> Wire:
        wire = Wire(Turns().share() if takes_turns else None)
        accepted.set_result(wire)
        return wire

    async with await loop.create_server(accept, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        dialling = asyncio.ensure_future(KeyChanger.dial(f"wss://127.0.0.1:{port}", tmp_path, upgrades=False))
        stream = TlsStream(await accepted, tls.server_context())
        await stream.shake_hands()
        peer = await dialling
        flood = b"".join(peer.key_change() for _ in range(FLOOD)) + peer.data(b"at last")
        with counted(TlsStream, "_decrypted") as reads:
            await loop.sock_sendall(peer.socket, flood)
            assert await stream.receive() == b"at last"
        assert reads.most <= 2
        assert reads.on_loop >= FLOOD / RECORDS_PER_TURN
        peer.socket.close()
        stream.abort()
        await stream.lost
