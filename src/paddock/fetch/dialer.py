"""Connects the HTTP library to hosts, after somebody else has looked up their names.

The library would use the threads of the event loop for names. They are few, and all clients share them, so
the slow names of one client would hold up the requests of all others. Nothing here looks up a name. What a
host sends reaches the library by a `GatedStream`.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, Final

import httpcore
import httpx

from paddock.fetch.gated_stream import GatedStream
from paddock.fetch.turn import Turn

Resolve = Callable[[str, int], Awaitable[Sequence[IPv4Address | IPv6Address]]]
"""Returns the addresses of a name, the best first. Raises OSError."""

ADDRESSES_LIMIT: Final = 8
"""How many addresses of one name are tried."""

STAGGER_S: Final = 0.25
"""How long an address may take before the next is tried beside it (RFC 8305, section 5)."""


class Dialer(httpcore.AsyncNetworkBackend):
    """The network of an `httpx.AsyncClient`. `install` it. Reading waits for its `turn`."""

    def __init__(self, resolve: Resolve, turn: Turn) -> None:
        self._resolve = resolve
        self._turn = turn
        self._network = httpcore.AnyIOBackend()

    def install(self, client: httpx.AsyncClient) -> None:
        """Make every connection of a client from now on, those to proxies too."""
        # There is no public way to keep the client's own handling of proxies.
        transports = (client._transport, *client._mounts.values())
        for transport in transports:
            if transport is not None:
                assert isinstance(transport, httpx.AsyncHTTPTransport)
                transport._pool._network_backend = self

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the signature is the library's
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to a host. Raises ConnectTimeout or ConnectError of the library."""

        async def connect(address: str) -> httpcore.AsyncNetworkStream:
            stream = await self._network.connect_tcp(address, port, None, local_address, socket_options)
            return GatedStream(stream, self._turn)

        try:
            async with asyncio.timeout(timeout):
                if _is_address(host):
                    return await connect(host)
                found = await self._resolve(host, port)
                return await _first_stream(connect, list(map(str, found))[:ADDRESSES_LIMIT])
        except TimeoutError as error:
            raise httpcore.ConnectTimeout(str(error)) from error
        except OSError as error:
            raise httpcore.ConnectError(str(error)) from error

    async def sleep(self, seconds: float) -> None:
        """Wait before another attempt."""
        await asyncio.sleep(seconds)


Connect = Callable[[str], Coroutine[Any, Any, httpcore.AsyncNetworkStream]]


async def _first_stream(connect: Connect, addresses: Sequence[str]) -> httpcore.AsyncNetworkStream:
    """Return the first connection that is made. Raises OSError or ConnectError if there is none."""
    left = list(reversed(addresses))
    attempts: set[asyncio.Task[httpcore.AsyncNetworkStream]] = set()
    problem: BaseException = OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))
    made: list[httpcore.AsyncNetworkStream] = []
    try:
        while not made and (left or attempts):
            if left:
                attempts.add(asyncio.ensure_future(connect(left.pop())))
            done, attempts = await asyncio.wait(
                attempts, timeout=STAGGER_S if left else None, return_when=asyncio.FIRST_COMPLETED
            )
            for attempt in done:
                if (error := attempt.exception()) is not None:
                    problem = error
                else:
                    made.append(attempt.result())
    finally:
        for attempt in attempts:
            attempt.cancel()
        late = await asyncio.gather(*attempts, return_exceptions=True)
        for stream in (*made[1:], *late):
            if isinstance(stream, httpcore.AsyncNetworkStream):
                await stream.aclose()
    if not made:
        raise problem
    return made[0]


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
