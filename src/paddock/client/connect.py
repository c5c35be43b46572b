"""The public door: from a URL to an open `Box`."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from types import TracebackType
from typing import Any

from paddock.client.box import Box
from paddock.client.connection import Connection
from paddock.client.private_server import NAME as PRIVATE_SERVER
from paddock.client.private_server import PrivateServer
from paddock.errors import ConnectError, ConnectionLost, RequestTimeout
from paddock.protocol.methods import INITIALIZE
from paddock.protocol.session import ClientCapabilities, InitializeParams, InitializeResult
from paddock.transport.limits import CLIENT_LIMITS

REQUEST_TIMEOUT_S = 60.0
"""Far beyond what any request takes: writes and waits, which may take for ever, have no timeout."""

CONNECT_TIMEOUT_S = 10.0

CAPABILITIES = ClientCapabilities(extensions=True, notifications=["process/failed"])
"""What this client understands. Servers of the reference protocol ignore it."""


def connect(
    url: str | None = None,
    *,
    client_name: str = "paddock-python",
    request_timeout_s: float | None = REQUEST_TIMEOUT_S,
    connect_timeout_s: float = CONNECT_TIMEOUT_S,
) -> Connecting:
    """Connect to a server and open a session on it.

    `url` is `ws://HOST:PORT`, `wss://HOST:PORT` or `unix:///path`; None starts a
    private server that ends with the session. Use it as a context manager, or await
    it and call `aclose` on the box:

        async with paddock.connect("ws://127.0.0.1:4100") as box:
            print((await box.run(["uname", "-a"])).stdout)

    Raises ConnectError (HandshakeRefused when an HTTP server turned it away), and what
    the server answered to `initialize`. Nothing is left open or running then, nor when
    it is cancelled. `request_timeout_s` bounds every request but those that wait for a
    process to read or to end.
    """
    return Connecting(url, client_name, request_timeout_s, connect_timeout_s)


class Connecting:
    """A connection that is made when it is awaited or entered."""

    def __init__(
        self, url: str | None, client_name: str, request_timeout_s: float | None, connect_timeout_s: float
    ) -> None:
        self._url = url
        self._client_name = client_name
        self._request_timeout_s = request_timeout_s
        self._connect_timeout_s = connect_timeout_s
        self._box: Box | None = None

    def __await__(self) -> Generator[Any, None, Box]:
        return self._open().__await__()

    async def __aenter__(self) -> Box:
        self._box = await self._open()
        return self._box

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._box is not None
        await self._box.aclose()

    async def _open(self) -> Box:
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                connection = Connection(request_timeout_s=self._request_timeout_s)
                if self._url is None:
                    return await self._open_private(connection)
                await self._link(connection, self._url)
                return await open_box(connection, self._client_name)
        except TimeoutError as error:
            raise ConnectError(self._target, f"no answer within {self._connect_timeout_s} s") from error
        except (ConnectionLost, RequestTimeout) as error:
            raise ConnectError(self._target, str(error)) from error

    @property
    def _target(self) -> str:
        return self._url or PRIVATE_SERVER

    async def _link(self, connection: Connection, url: str) -> None:
        scheme, separator, rest = url.partition("://")
        # Each medium is imported only when it is used: the websocket library is big.
        match scheme.lower() if separator else "":
            case "ws" | "wss":
                from paddock.transport import websocket

                await websocket.connect(url, connection.attach, timeout_s=self._connect_timeout_s)
            case "unix":
                from paddock.transport import unix

                if not rest.startswith("/"):
                    raise ConnectError(
                        url, "the path of a unix socket must be absolute, as in unix:///run/x.sock"
                    )
                await unix.connect(rest, connection.attach, CLIENT_LIMITS, timeout_s=self._connect_timeout_s)
            case _:
                raise ConnectError(
                    url, "unsupported address; expected ws://HOST:PORT, wss://HOST:PORT or unix:///path"
                )

    async def _open_private(self, connection: Connection) -> Box:
        from paddock.transport import stdio

        server, sock = await PrivateServer.start()
        try:
            await stdio.connect_socket(sock, connection.attach, CLIENT_LIMITS, peer=PRIVATE_SERVER)
            return await open_box(connection, self._client_name, server)
        except ConnectionLost as error:
            await server.aclose()
            reason = f"it ended with status {server.returncode}; see its message on standard error"
            raise ConnectError(PRIVATE_SERVER, reason) from error
        except BaseException:
            sock.close()
            await server.aclose()
            raise


async def open_box(connection: Connection, client_name: str, server: PrivateServer | None = None) -> Box:
    """Shake hands over a connection that is attached to a link; it is closed if that fails."""
    try:
        params = InitializeParams(client_name=client_name, capabilities=CAPABILITIES)
        greeting = await connection.request(INITIALIZE, params, InitializeResult)
        connection.initialized()
    except BaseException:
        connection.abort()
        raise
    when_closed = server.aclose if server is not None else None
    return Box(connection, greeting.session_id, greeting.environment_info, when_closed)
