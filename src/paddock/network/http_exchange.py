"""One client of the proxy that speaks HTTP: its requests, one after the other, and their answers.

Each request is judged by itself. A tunnel is the last; requests inside of a tunnel are served like the
others, but all have to be for the host that the tunnel goes to.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Final

import h11

from paddock.errors import HostUnreachable, ProxyRequestError
from paddock.journal import Journal
from paddock.model.endpoint import Endpoint
from paddock.model.network_secret import Scheme
from paddock.network import tunnel
from paddock.network.client_hello import is_tls
from paddock.network.gateway import Gateway
from paddock.network.http_message import (
    SWITCHING,
    BodyEnd,
    HttpTarget,
    Messages,
    blocked_response,
    body_end,
    forwarded_request,
    forwarded_response,
    large_body_bytes,
    named_host,
    own_response,
    parse_target,
)
from paddock.network.open_body import ChunkedBody, LastBody
from paddock.network.policy import Ruling
from paddock.network.stream import Source, Stream
from paddock.network.wire import Wire, relay, relay_part

journal = Journal(logging.getLogger(__name__))

PIECES_PER_TURN: Final = 16
"""Pieces of messages that are passed on in one turn of the loop: about a millisecond, if they are small."""

IDLE_LIMIT_S: Final = 1.0
"""How long a connection to a server stays good for the next request. Servers close theirs after seconds, and
a request that comes at that moment would be lost."""

ESTABLISHED: Final = b"HTTP/1.1 200 Connection established\r\n\r\n"


class _Server:
    """The connection to the server of the last request, and what h11 knows of it."""

    def __init__(self, endpoint: Endpoint, wire: Stream) -> None:
        self.endpoint = endpoint
        self.wire = wire
        self.messages = Messages(h11.CLIENT)
        self.used_at_s = asyncio.get_running_loop().time()

    def is_good_for(self, endpoint: Endpoint) -> bool:
        """Return whether the next request can go the same way."""
        if endpoint != self.endpoint or self.wire.is_at_end or self.wire.lost.done():
            return False
        if (self.messages.our_state, self.messages.their_state) != (h11.DONE, h11.DONE):
            return False
        return asyncio.get_running_loop().time() - self.used_at_s < IDLE_LIMIT_S


class HttpExchange:
    """Serves one client. In a `tunnel_to` an endpoint, `server` is the connection to that.

    If the `scheme` is HTTPS, that is a tunnel whose TLS is opened, and both are inside of it.
    """

    def __init__(
        self,
        client: Stream,
        gateway: Gateway,
        tunnel_to: Endpoint | None = None,
        server: Stream | None = None,
        scheme: Scheme = Scheme.HTTP,
    ) -> None:
        self._client = client
        self._gateway = gateway
        self._scheme = scheme
        self._tunnel_to = tunnel_to
        self._messages = Messages(h11.SERVER)
        self._pieces = 0
        self._server: _Server | None = None
        if tunnel_to is not None and server is not None:
            self._server = _Server(tunnel_to, server)

    async def serve(self) -> None:
        """Serve until the client has no more requests. Both connections are closed then, or will be."""
        try:
            while await self._serve_request():
                self._messages.start_next_cycle()
        except h11.RemoteProtocolError as error:
            await self._answer(*own_response(error.error_status_hint or 400, f"{error}\n".encode()))
        except ProxyRequestError as error:
            await self._answer(*own_response(400, f"{error}\n".encode()))
        finally:
            if self._server is not None:
                self._server.wire.close()
            self._client.close()

    async def _serve_request(self) -> bool:
        """Serve the next request. Returns whether another may follow."""
        request = await self._next(self._messages, self._client)
        if not isinstance(request, h11.Request):
            return False
        target = parse_target(request, self._tunnel_to)
        if self._tunnel_to is not None and target.endpoint != self._tunnel_to:
            await self._gateway.mismatch(self._tunnel_to, target.endpoint.host)
            raise ProxyRequestError("a request in a tunnel has to be for the host that the tunnel goes to")
        if request.method == b"CONNECT":
            await self._tunnel(target.endpoint)
            return False
        if not await self._names_target(request, target.endpoint):
            return False
        if not await self._reach(target.endpoint):
            return False
        return await self._forward(request, target)

    async def _names_target(self, request: h11.Request, endpoint: Endpoint) -> bool:
        """Return whether the header Host agrees with the request's target; if not, answer the request."""
        named = named_host(request)
        if named is None or named[0] == endpoint.host:
            return True
        ruling = await self._gateway.mismatch(endpoint, named[0])
        await self._answer(*blocked_response(endpoint, ruling))
        return False

    async def _reach(self, endpoint: Endpoint) -> bool:
        """Connect to the server of a request. Return whether that was possible; if not, answer the
        request."""
        if self._server is not None and self._server.is_good_for(endpoint):
            if self._server.messages.our_state is h11.DONE:
                self._server.messages.start_next_cycle()
            return True
        if self._server is not None and self._server.messages.our_state is h11.IDLE:
            # That of the tunnel, which was opened a moment ago.
            return True
        if self._server is not None:
            self._server.wire.close()
            self._server = None
        opened = await self._opened(endpoint)
        if opened is None:
            return False
        self._server = _Server(endpoint, opened)
        return True

    async def _opened(self, endpoint: Endpoint) -> Stream | None:
        is_open_tls = self._scheme is Scheme.HTTPS
        try:
            opened = await (self._gateway.open_tls if is_open_tls else self._gateway.open)(endpoint)
        except HostUnreachable as error:
            await self._answer(*own_response(502, f"{error}\n".encode()))
            return None
        if isinstance(opened, Ruling):
            await self._answer(*blocked_response(endpoint, opened))
            return None
        return opened

    # --- a tunnel -----------------------------------------------------------

    async def _tunnel(self, endpoint: Endpoint) -> None:
        client = self._client
        if not isinstance(client, Wire):
            raise ProxyRequestError("there are no tunnels inside of TLS that the proxy opens")
        server = await self._opened(endpoint)
        if server is None:
            return
        assert isinstance(server, Wire)
        try:
            rest, _ = self._messages.trailing_data
            client.unread(rest)
            await client.send(ESTABLISHED)
            await serve_tunnel(client, self._gateway, endpoint, server)
        finally:
            server.close()

    # --- a request and its answer -------------------------------------------

    async def _forward(self, request: h11.Request, target: HttpTarget) -> bool:
        server = self._server
        assert server is not None
        secrets = self._gateway.secret_headers(self._scheme, target.endpoint, request.method)
        passed_on = forwarded_request(request, target, self._scheme, secrets)
        head = server.messages.send(passed_on) or b""
        source: Source = self._client
        if body_end(request) is BodyEnd.LAST_CHUNK:
            source = ChunkedBody(self._client, server.wire, self._messages.trailing_data[0])
        first = self._messages.next_event()
        sending = None
        size = large_body_bytes(request)
        if isinstance(first, h11.EndOfMessage):
            # Most have no body, and nothing is left to be sent while their answer comes.
            await server.wire.send(head + (server.messages.send(h11.EndOfMessage()) or b""))
        else:
            await server.wire.send(head)
            body = (
                self._send_body(server, source, first) if size is None else self._upload(server, first, size)
            )
            sending = asyncio.ensure_future(body)

        def give_up(_: asyncio.Future[None]) -> None:
            server.wire.abort()

        self._client.lost.add_done_callback(give_up)
        is_whole, is_sent = False, True
        try:
            is_whole = await self._send_response(
                server, is_for_head=request.method == b"HEAD", is_last=size is not None
            )
        finally:
            self._client.lost.remove_done_callback(give_up)
            if sending is not None:
                is_sent = await _is_over(sending, IDLE_LIMIT_S if is_whole else 0)
        server.used_at_s = asyncio.get_running_loop().time()
        return (
            is_whole
            and is_sent
            and self._messages.our_state is h11.DONE
            and (self._messages.their_state is h11.DONE)
        )

    async def _send_body(self, server: _Server, source: Source, first: object) -> None:
        """Pass on a body whose first piece was read, if it has come already."""
        event = first
        while True:
            try:
                if event is h11.NEED_DATA:
                    event = await self._next(self._messages, source)
            except h11.RemoteProtocolError:
                server.wire.abort()
                raise
            match event:
                case h11.Data() | h11.EndOfMessage():
                    body, is_whole = self._at_hand(self._messages, server.messages, event)
                    await server.wire.send(body)
                    if is_whole:
                        return
                    event = h11.NEED_DATA
                case _:
                    # The client has disconnected, and the server must not take half of a request for all of
                    # it.
                    server.wire.abort()
                    return

    async def _upload(self, server: _Server, first: object, left: int) -> None:
        """Pass on a body of known length without reading it again. It is the last on both connections."""
        if isinstance(first, h11.Data):
            left -= len(first.data)
            await server.wire.send(bytes(first.data))
        if left > 0 and await relay_part(self._client, server.wire, left):
            server.wire.abort()

    async def _send_response(self, server: _Server, *, is_for_head: bool, is_last: bool) -> bool:
        """Pass on the answer. Returns whether it was whole."""
        has_begun = False
        source: Source = server.wire
        while True:
            try:
                event = await self._next(server.messages, source)
            except h11.RemoteProtocolError as error:
                if not has_begun:
                    await self._answer(
                        *own_response(502, f"the server does not speak HTTP: {error}\n".encode())
                    )
                else:
                    self._client.abort()
                return False
            match event:
                case h11.InformationalResponse():
                    await self._client.send(self._messages.send(forwarded_response(event)) or b"")
                    if event.status_code == SWITCHING:
                        await self._switch(server)
                        return False
                case h11.Response():
                    has_begun = True
                    if (size := large_body_bytes(event, is_for_head=is_for_head)) is not None:
                        return await self._pass_large_body(server, event, size)
                    source = self._body(server, body_end(event, is_for_head=is_for_head))
                    head = self._messages.send(forwarded_response(event, is_last=is_last)) or b""
                    body, is_whole = self._at_hand(server.messages, self._messages)
                    # Together they take one packet, as most answers do.
                    await self._client.send(head + body)
                    if is_whole:
                        return True
                case h11.Data() | h11.EndOfMessage():
                    body, is_whole = self._at_hand(server.messages, self._messages, event)
                    await self._client.send(body)
                    if is_whole:
                        return True
                    if self._client.lost.done():
                        server.wire.abort()
                        return False
                case _:
                    if not has_begun:
                        await self._answer(*own_response(502, b"the server gave no answer\n"))
                    return False

    def _body(self, server: _Server, end: BodyEnd | None) -> Source:
        """Return what brings the body of an answer that has begun."""
        if self._messages.their_http_version != b"1.1":
            # Its client gets no chunks.
            return server.wire
        match end:
            case BodyEnd.LAST_CHUNK:
                return ChunkedBody(server.wire, self._client, server.messages.trailing_data[0])
            case BodyEnd.CONNECTION:
                return LastBody(server.wire, self._client)
            case None:
                return server.wire

    def _at_hand(
        self, source: h11.Connection, target: h11.Connection, first: object = None
    ) -> tuple[bytes, bool]:
        """Return the part of a body that has arrived, encoded again, and whether that is its end.

        `first` is the part that was already read. Many small pieces become one.
        """
        event, parts, is_whole = first, list[bytes](), False
        for _ in range(PIECES_PER_TURN):
            if event is None:
                try:
                    event = source.next_event()
                except h11.RemoteProtocolError:
                    # It is raised again by the next attempt.
                    break
            if isinstance(event, h11.Data):
                self._pieces += 1
                parts.append(event.data)
                event = None
                continue
            # If more has to come, or the connection is closed, the next attempt finds the same.
            is_whole = isinstance(event, h11.EndOfMessage)
            break
        body = b""
        if parts:
            # What is one piece already is not copied.
            data = parts[0] if len(parts) == 1 else b"".join(parts)
            body = target.send(h11.Data(data=data)) or b""
        if is_whole:
            body += target.send(h11.EndOfMessage()) or b""
        return body, is_whole

    async def _pass_large_body(self, server: _Server, response: h11.Response, left: int) -> bool:
        """Pass on a body of known length without reading it again. It is the last on both connections."""
        head = forwarded_response(response, is_last=True)
        await self._client.send(self._messages.send(head) or b"")
        while (event := server.messages.next_event()) is not h11.NEED_DATA:
            if not isinstance(event, h11.Data):
                break
            left -= len(event.data)
            await self._client.send(bytes(event.data))
        # Anything after the body belongs to no message.
        if left > 0 and await relay_part(server.wire, self._client, left):
            self._client.abort()
        return False

    async def _switch(self, server: _Server) -> None:
        for wire, messages in ((self._client, self._messages), (server.wire, server.messages)):
            rest, _ = messages.trailing_data
            wire.unread(rest)
        await relay(self._client, server.wire)

    async def _next(self, messages: h11.Connection, source: Source) -> object:
        # Many small pieces may have come at once.
        self._pieces += 1
        if self._pieces >= PIECES_PER_TURN:
            self._pieces = 0
            await self._client.turn()
        while (event := messages.next_event()) is h11.NEED_DATA:
            data = await source.receive()
            if messages.their_state is h11.IDLE:
                # A part of the next request, which takes a while to understand.
                await self._client.turn()
            messages.receive_data(data)
        return event

    async def _answer(self, head: h11.Response, body: bytes) -> None:
        """Answer in place of the server, if nothing was answered yet. It is the last answer."""
        if self._messages.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self._client.abort()
            return
        parts = [self._messages.send(head), self._messages.send(h11.Data(data=body))]
        parts.append(self._messages.send(h11.EndOfMessage()))
        await self._client.send(b"".join(part or b"" for part in parts))


async def _is_over(sending: asyncio.Future[None], grace_s: float) -> bool:
    """Return whether a body was sent, and send no more of it: a server may answer before it has read it all.

    Its last piece may have come and wait for its turn, which it gets within `grace_s`.
    """
    try:
        await asyncio.wait((sending,), timeout=grace_s)
        return sending.done() and not sending.cancelled() and sending.exception() is None
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


async def serve_tunnel(client: Wire, gateway: Gateway, endpoint: Endpoint, server: Wire) -> None:
    """Serve a connection that a client has to a host from now on. Returns when it has ended."""
    said = await tunnel.speaks_first(client, server)
    if said is not None and tunnel.is_http(said):
        await HttpExchange(client, gateway, endpoint, server).serve()
    elif said is not None and is_tls(said) and gateway.opens_tls_to(endpoint):
        await _serve_open_tls(said, client, gateway, endpoint, server)
    else:
        await tunnel.carry(gateway, endpoint, client, server)


async def _serve_open_tls(
    said: bytes, client: Wire, gateway: Gateway, endpoint: Endpoint, server: Wire
) -> None:
    """Serve the requests inside of TLS, as the host to the client and as a client to the host."""
    if not await tunnel.is_for(gateway, endpoint, said, has_to_be=True):
        client.abort()
        server.abort()
        return
    inside = gateway.in_place_of(endpoint, client)
    outside = None
    # The client learns what is wrong with the host when it sends a request: the next attempt finds it, too.
    with suppress(HostUnreachable):
        outside = await gateway.secured(endpoint, server)
    try:
        await inside.shake_hands()
    except ProxyRequestError as error:
        journal.warning("a client does not speak TLS with the proxy", target=str(endpoint), reason=str(error))
        inside.close()
        (outside or server).close()
        return
    await HttpExchange(inside, gateway, endpoint, outside, Scheme.HTTPS).serve()
