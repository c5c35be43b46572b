"""Connects the proxy to a host: decides, resolves, and connects to the very address that was judged.

The caller supplies the judge, the resolver, the connector and the addresses of this host; nothing else here
touches the network.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Struct

from paddock.errors import HostUnreachable, ProxyRequestError
from paddock.journal import Journal
from paddock.model.endpoint import Endpoint
from paddock.model.host_pattern import parse_address
from paddock.model.network_secret import Scheme
from paddock.network.address import Address
from paddock.network.credential import Credentials
from paddock.network.name_lookup import NameLookup
from paddock.network.own_address import own_addresses
from paddock.network.policy import Decision, Reason, Ruling
from paddock.network.tls_stream import TlsStream
from paddock.network.upstream import Upstream, connect_request, read_answer
from paddock.network.wire import Wire

if TYPE_CHECKING:
    # It needs a library that few have.
    from paddock.network.authority import Authority

journal = Journal(logging.getLogger(__name__))

RESOLVE_TIMEOUT_S: Final = 10.0
CONNECT_TIMEOUT_S: Final = 15.0
"""The timeout for each address. To a command it looks like a host that does not answer."""

ADDRESSES_LIMIT: Final = 8
"""How many addresses of one name are tried, one after the other."""

Resolve = Callable[[str, int], Awaitable[Sequence[Address]]]
"""Returns the addresses of a name. Raises OSError."""

Connect = Callable[[Address, int], Awaitable[Wire]]
"""Connects to an address. Raises OSError."""


FindOwn = Callable[[], Collection[Address]]
"""Returns the addresses of this host. Raises OSError."""


class Judge(Protocol):
    """Decides on connections. It may be called at any time, even during another call."""

    async def decide(self, endpoint: Endpoint) -> Ruling:
        """Decide by the name. Never returns ASK."""

    def decide_address(self, endpoint: Endpoint, address: Address, own: Collection[Address]) -> Ruling | None:
        """Return why one address of a host that may be reached may not be; None if it may.

        `own` are the addresses of this host.
        """

    async def blocked(self, endpoint: Endpoint, ruling: Ruling) -> None:
        """Note a connection that was denied to the command."""


class Secrets(Struct, frozen=True):
    """The secrets to add to the requests of one command."""

    credentials: Credentials
    authority: Authority | None = None
    """Opens TLS; there is one if a host of the credentials needs it."""


class Gateway:
    """Opens connections to hosts for one proxy."""

    def __init__(
        self,
        judge: Judge,
        *,
        resolve: Resolve | None = None,
        connect: Connect | None = None,
        find_own: FindOwn = own_addresses,
        upstream: Upstream | None = None,
        secrets: Secrets | None = None,
    ) -> None:
        self._judge = judge
        self._secrets = secrets
        self._resolve = resolve or NameLookup()
        self._connect = connect or connect_by_system
        self._upstream = upstream
        self._find_own = find_own

    async def open(self, endpoint: Endpoint) -> Wire | Ruling:
        """Connect, or return why not. Raises HostUnreachable."""
        ruling = await self._judge.decide(endpoint)
        if not ruling.is_allowed:
            return await self.block(endpoint, ruling)
        addresses = await self._addresses(endpoint)
        try:
            own = self._find_own()
        except OSError as error:
            raise HostUnreachable(str(endpoint), "the addresses of this host are not known") from error
        refused = [self._judge.decide_address(endpoint, address, own) for address in addresses]
        left = [address for address, why in zip(addresses, refused, strict=True) if why is None]
        # An upstream proxy is told the name, and may choose any of its addresses.
        is_blocked = not left or self._upstream is not None
        if is_blocked and (why := next(filter(None, refused), None)) is not None:
            return await self.block(endpoint, why)
        if self._upstream is not None:
            return await self._open_upstream(self._upstream, endpoint)
        return await self._open_first(endpoint, left)

    async def open_tls(self, endpoint: Endpoint) -> TlsStream | Ruling:
        """Connect, and verify that it is the host. Raises HostUnreachable."""
        opened = await self.open(endpoint)
        return opened if isinstance(opened, Ruling) else await self.secured(endpoint, opened)

    async def secured(self, endpoint: Endpoint, wire: Wire) -> TlsStream:
        """Speak TLS on a new connection to a host whose TLS is opened. Raises HostUnreachable."""
        stream = TlsStream(wire, self._authority.outward, endpoint.host)
        try:
            await stream.shake_hands()
        except ProxyRequestError as error:
            stream.abort()
            raise HostUnreachable(str(endpoint), str(error)) from error
        except BaseException:
            stream.abort()
            raise
        return stream

    def opens_tls_to(self, endpoint: Endpoint) -> bool:
        """Return whether TLS to a host is opened, for a secret to be added."""
        return self._secrets is not None and self._secrets.credentials.opens_tls_to(endpoint)

    def in_place_of(self, endpoint: Endpoint, client: Wire) -> TlsStream:
        """Speak TLS with a client as the host that it wants to reach. Hands are not shaken yet."""
        return TlsStream(client, self._authority.context(endpoint.host))

    def secret_headers(self, scheme: Scheme, endpoint: Endpoint, method: bytes) -> dict[bytes, bytes]:
        """Return the headers to add to a request to a host, by their names in lower case."""
        if self._secrets is None:
            return {}
        return self._secrets.credentials.headers_for(scheme, endpoint, method)

    @property
    def _authority(self) -> Authority:
        assert self._secrets is not None
        assert self._secrets.authority is not None
        return self._secrets.authority

    async def permits(self, endpoint: Endpoint) -> bool:
        """Return whether a name that appears inside of a connection may be reached as well."""
        return (await self._judge.decide(endpoint)).is_allowed

    async def block(self, endpoint: Endpoint, ruling: Ruling) -> Ruling:
        """Note that a connection is refused or cut."""
        await self._judge.blocked(endpoint, ruling)
        return ruling

    async def mismatch(self, endpoint: Endpoint, name: str) -> Ruling:
        """Block a request that goes to one host and names another."""
        rule = f"the connection is to {endpoint.host}, and what is said in it names {name[:253]!r}"
        return await self.block(endpoint, Ruling(Decision.DENY, Reason.HOST_MISMATCH, rule))

    async def _addresses(self, endpoint: Endpoint) -> Sequence[Address]:
        literal = parse_address(endpoint.host)
        if literal is not None:
            return (literal,)
        try:
            async with asyncio.timeout(RESOLVE_TIMEOUT_S):
                found = await self._resolve(endpoint.host, endpoint.port)
        except OSError as error:
            if self._upstream is not None:
                # Behind a proxy hosts often know no names but their own.
                return ()
            raise HostUnreachable(str(endpoint), "its address is not known") from error
        return list(dict.fromkeys(found))[:ADDRESSES_LIMIT]

    async def _open_first(self, endpoint: Endpoint, addresses: Sequence[Address]) -> Wire:
        reason = OSError("it has no address")
        for address in addresses:
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    return await self._connect(address, endpoint.port)
            except OSError as error:
                # TimeoutError is one, too.
                reason = error
        text = reason.strerror or str(reason)
        raise HostUnreachable(str(endpoint), (text or "it does not answer").lower()) from reason

    async def _open_upstream(self, upstream: Upstream, endpoint: Endpoint) -> Wire:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                addresses = await self._resolve(upstream.host, upstream.port)
        except OSError as error:
            raise HostUnreachable(str(upstream), "the address of the upstream proxy is not known") from error
        wire = await self._open_first(Endpoint(upstream.host, upstream.port, endpoint.protocol), addresses)
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await wire.send(connect_request(upstream, endpoint))
                await read_answer(wire)
        except (ProxyRequestError, TimeoutError) as error:
            wire.abort()
            journal.warning("the upstream proxy refused", target=str(endpoint), reason=str(error))
            raise HostUnreachable(str(endpoint), f"the upstream proxy refused: {error}") from error
        except BaseException:
            wire.abort()
            raise
        return wire


async def connect_by_system(address: Address, port: int) -> Wire:
    """Connect from the network of this process."""
    loop = asyncio.get_running_loop()
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    raw = socket.socket(family, socket.SOCK_STREAM)
    try:
        raw.setblocking(False)
        # A number, so nobody is asked for a name again.
        await loop.sock_connect(raw, (str(address), port))
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _, wire = await loop.create_connection(Wire, sock=raw)
    except BaseException:
        raw.close()
        raise
    return wire
