"""The policy proxy for one command: a client may speak HTTP or SOCKS 5 on any of its ports.

The `gateway` decides and connects; `wire_server` listens.
"""

from __future__ import annotations

import asyncio
from typing import Final

from paddock.errors import HostUnreachable, ProxyRequestError
from paddock.model.endpoint import Endpoint, NetworkProtocol
from paddock.model.host_pattern import normal_host
from paddock.network.gateway import Gateway
from paddock.network.http_exchange import HttpExchange, serve_tunnel
from paddock.network.policy import Decision, Reason, Ruling
from paddock.network.route import PORTS
from paddock.network.socks5 import VERSION, Reply, SocksHandshake, SocksRequest, encode_reply
from paddock.network.wire import Wire
from paddock.network.wire_server import Serve

HANDSHAKE_TIMEOUT_S: Final = 60.0
"""The timeout for the first bytes of a client, and for each step of SOCKS."""


class PolicyProxy:
    """Serves clients that may reach what a gateway opens. It keeps nothing of them."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def services(self) -> dict[int, Serve]:
        """Return the service for each port of a command's loopback."""
        return dict.fromkeys(PORTS, self.serve)

    async def serve(self, client: Wire) -> None:
        """Serve one client, in the protocol that it speaks, until it disconnects."""
        try:
            async with asyncio.timeout(HANDSHAKE_TIMEOUT_S):
                first = await client.receive()
        except TimeoutError:
            return
        client.unread(first)
        if first[:1] == bytes((VERSION,)):
            await self._serve_socks(client)
        elif first:
            await HttpExchange(client, self._gateway).serve()

    async def _serve_socks(self, client: Wire) -> None:
        request = await self._handshake(client)
        if request is None:
            return
        protocol = NetworkProtocol.SOCKS5_UDP if request.is_datagrams else NetworkProtocol.SOCKS5_TCP
        try:
            endpoint = Endpoint(normal_host(request.host), request.port, protocol)
        except ValueError:
            await client.send(encode_reply(Reply.ADDRESS_NOT_SUPPORTED))
            return
        if request.is_datagrams:
            await self._gateway.block(endpoint, _NO_DATAGRAMS)
            await client.send(encode_reply(Reply.COMMAND_NOT_SUPPORTED))
            return
        try:
            opened = await self._gateway.open(endpoint)
        except HostUnreachable:
            await client.send(encode_reply(Reply.UNREACHABLE))
            return
        if isinstance(opened, Ruling):
            await client.send(encode_reply(Reply.NOT_ALLOWED))
            return
        try:
            await client.send(encode_reply(Reply.SUCCEEDED))
            await serve_tunnel(client, self._gateway, endpoint, opened)
        finally:
            opened.close()

    async def _handshake(self, client: Wire) -> SocksRequest | None:
        handshake = SocksHandshake()
        try:
            while True:
                async with asyncio.timeout(HANDSHAKE_TIMEOUT_S):
                    data = await client.receive()
                if not data:
                    return None
                await client.turn()
                request = handshake.receive(data)
                await client.send(handshake.data_to_send())
                if request is not None:
                    client.unread(handshake.rest)
                    return request
        except ProxyRequestError:
            await client.send(handshake.data_to_send())
            return None
        except TimeoutError:
            return None


_NO_DATAGRAMS: Final = Ruling(
    Decision.DENY, Reason.UNSUPPORTED, "datagrams do not pass the proxy; use a protocol over TCP"
)
