"""The opening handshake of a websocket on a connection, one class for each side.

Collects input until a head is complete, lets `upgrade` read it, and then hands the
connection to a `WebSocketLink` with any bytes after the head, or ends it. The limits of
`upgrade` bound its memory. A `ServerHandshake` bounds its own time; the caller that awaits
a `ClientHandshake` bounds that one's.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, cast

from paddock.errors import ConnectError, HandshakeRefused, MessageTooLarge, ProtocolViolation
from paddock.transport import upgrade
from paddock.transport.http import HttpPolicy, HttpResponse
from paddock.transport.input_turns import InputShare
from paddock.transport.reason import reason_of
from paddock.transport.websocket_link import IDLE_READ_BYTES, WebSocketLink

if TYPE_CHECKING:
    # collections.abc has it only since Python 3.12.
    from typing_extensions import Buffer

HUNG_UP: Final = "the server ended the connection during the handshake"


class _Handshake(asyncio.BufferedProtocol):
    """Collects a head. Buffered like the link that follows, so that a transport reads both in one way."""

    def __init__(self) -> None:
        self._space = memoryview(b"")
        self._received = bytearray()

    def get_buffer(self, sizehint: int) -> Buffer:
        """Return a buffer for one read only: there may be many peers that send nothing."""
        # A view: asyncio's TLS cuts a piece off what it gets and reads into that.
        self._space = memoryview(bytearray(IDLE_READ_BYTES))
        return self._space

    def buffer_updated(self, nbytes: int) -> None:
        """Look at what has come so far."""
        self._received += self._space[:nbytes]
        self._space = memoryview(b"")
        self._look()

    @abstractmethod
    def _look(self) -> None:
        """Go on if enough has come. May be called after the end, too: reading does not stop at once."""


class ServerHandshake(_Handshake):
    """A peer that has connected to a listener, until it is a link, has got an answer, or is dropped.

    It shows every proper request to `decide`. If that returns no answer, and the request asks for a
    websocket, `make_link` makes the link that takes over the connection. It drops a peer that has not
    sent its request, or not accepted its answer, after `timeout_s`. It calls `over` when the peer has
    become a link or has left. It reads the request within the `share` of the time for input that all
    peers in a handshake have together: anybody can send hundreds of requests at once.
    """

    def __init__(
        self,
        decide: HttpPolicy,
        make_link: Callable[[], WebSocketLink],
        over: Callable[[], None],
        timeout_s: float,
        share: InputShare,
    ) -> None:
        super().__init__()
        self.is_connected = False
        """Whether there was ever a connection: with TLS, whether its handshake has been completed."""
        self._decide = decide
        self._make_link = make_link
        self._over = over
        self._timeout_s = timeout_s
        self._share = share
        self._is_waiting = False
        """Whether what has come waits for its turn."""
        self._is_over = False
        self._stream: asyncio.Transport
        self._deadline: asyncio.TimerHandle

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the clock."""
        self.is_connected = True
        self._stream = cast(asyncio.Transport, transport)
        self._deadline = asyncio.get_running_loop().call_later(self._timeout_s, self._stream.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        self._is_over = True
        self._deadline.cancel()
        self._over()

    def _look(self) -> None:
        if self._is_waiting:
            return
        if self._share.has_room:
            self._share.run(self._read)
            return
        self._is_waiting = True
        self._stream.pause_reading()
        self._share.wait(self._read_on)

    def _read_on(self) -> None:
        self._is_waiting = False
        if not self._is_over and not self._stream.is_closing():
            # First: a link that takes over the stream may pause it.
            self._stream.resume_reading()
            self._read()

    def _read(self) -> None:
        if self._is_over:
            return
        try:
            parts = upgrade.split_request(self._received)
            if parts is not None:
                self._is_over = True
                self._respond(*parts)
        except MessageTooLarge:
            # Send no answer: input that the peer still sends would reset the connection before it reads that.
            self._is_over = True
            self._stream.abort()
        except ProtocolViolation as violation:
            self._is_over = True
            self._refuse(upgrade.bad_request(violation))

    def _respond(self, head: bytes, early: bytes) -> None:
        request = upgrade.read_request(head)
        answer = self._decide(request)
        if answer is not None:
            self._refuse(answer)
            return
        self._stream.write(upgrade.switch_protocols(request))
        self._deadline.cancel()
        self._over()
        self._make_link().open(self._stream, early)

    def _refuse(self, answer: HttpResponse) -> None:
        self._stream.write(upgrade.write_response(answer))
        self._stream.close()


class ClientHandshake(_Handshake):
    """A client's request for an upgrade, which makes `link` usable or fails."""

    def __init__(self, url: str, request: bytes, key: str, link: WebSocketLink) -> None:
        super().__init__()
        self._url = url
        self._request = request
        self._key = key
        self._link = link
        self._stream: asyncio.Transport | None = None
        self._answer: upgrade.AnswerHead | None = None
        self._failure: ConnectError | None = None
        self._is_upgraded = False
        self._is_over = asyncio.Event()

    @property
    def refusal(self) -> HandshakeRefused | None:
        """Return the server's refusal, with as much of its text as has come; None if there is none yet."""
        if self._answer is None:
            return None
        text = self._received[: upgrade.refusal_bytes(self._answer)].decode("utf-8", "replace")
        return HandshakeRefused(self._url, self._answer.status, text)

    async def upgraded(self) -> None:
        """Send the request, wait until the link is open. Raises `ConnectError`; `abort` must follow then."""
        # Not in connection_made: a write that fails there has uvloop close the socket before it takes hold of
        # the Python object, which would close the same descriptor, or another's, a second time.
        if self._stream is not None and not self._stream.is_closing():
            self._stream.write(self._request)
        await self._is_over.wait()
        if self._failure is not None:
            raise self._failure

    def abort(self) -> None:
        """Drop the connection, and the link if it is open."""
        if self._is_upgraded:
            self._link.abort()
        elif self._stream is not None:
            self._is_over.set()
            self._stream.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take over the connection."""
        self._stream = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Make do with what has come."""
        reason = reason_of(exc) if isinstance(exc, OSError) else HUNG_UP
        self._end(self.refusal or ConnectError(self._url, reason))

    def _look(self) -> None:
        if self._is_over.is_set():
            return
        try:
            if self._answer is None:
                self._take_head()
        except (ProtocolViolation, MessageTooLarge) as error:
            failure = ConnectError(self._url, str(error))
            failure.__cause__ = error
            self._end(failure)
        if self._answer is not None and len(self._received) >= upgrade.refusal_bytes(self._answer):
            self._end(self.refusal)

    def _take_head(self) -> None:
        parts = upgrade.split_answer(self._received)
        if parts is None:
            return
        head, rest = parts
        answer = upgrade.read_answer(head)
        if answer.status == HTTPStatus.SWITCHING_PROTOCOLS:
            upgrade.check_switch(answer, self._key)
            assert self._stream is not None
            self._is_upgraded = True
            self._end(None)
            self._link.open(self._stream, rest)
        else:
            self._answer = answer
            self._received[:] = rest

    def _end(self, failure: ConnectError | None) -> None:
        if not self._is_over.is_set():
            self._failure = failure
            self._is_over.set()
