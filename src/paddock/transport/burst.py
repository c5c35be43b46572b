"""The answers to messages that came together, on their way out together.

TCP_NODELAY sends each message in a packet of its own, which is right for one and
wasteful for many: the system call, the packet and the wake-up of the reader cost more
than the answer did. While one read is being parsed its answers are held back; they
leave in order, in one piece, when the parse ends or when they have become many. A
message that is sent at any other time is none of a burst's business.

Only a server's frames are made here: they are not masked (RFC 6455, 5.1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from paddock.transport.frames import TEXT, frame_head

Message = bytes | bytearray

LARGEST_HELD_BYTES: Final = 8 * 1024
"""To copy a larger message costs as much as to send it by itself."""

HELD_LIMIT_BYTES: Final = 64 * 1024
"""What is held back at most, so that the link's own limits see answers that nobody reads."""

HELD_MESSAGES: Final = 16
"""How many are held back at most. A client that keeps twice as many requests in flight, or more, works on the
first of its answers while the others are being made."""

_MESSAGE_BYTES: Final = HELD_LIMIT_BYTES // HELD_MESSAGES
"""What a message counts for besides its length, so that one bound serves both limits."""

_HEADS: Final = tuple(frame_head(TEXT, length) for length in range(512))
"""Of most answers, made in advance."""


class Burst:
    """Holds messages back between `begin` and `end`.

    `send` takes a message that leaves by itself, `write` the bytes of whole frames.
    """

    def __init__(self, send: Callable[[Message], None], write: Callable[[Message], None]) -> None:
        self._send = send
        self._write = write
        self._is_parsing = False
        self._held = bytearray()
        self._room_bytes = HELD_LIMIT_BYTES

    @property
    def held_bytes(self) -> int:
        """How much waits for the end of the parse."""
        return len(self._held)

    def begin(self) -> None:
        """A read is about to be parsed; `end` must follow."""
        self._is_parsing = True

    def end(self) -> None:
        """The read is parsed: what was held back leaves."""
        self._is_parsing = False
        if self._held:
            self.flush()

    def send(self, message: Message) -> None:
        """Send a message, now or together with others of this burst; in order in any case."""
        if not self._is_parsing:
            self._send(message)
            return
        length = len(message)
        if length > LARGEST_HELD_BYTES:
            self.flush()
            self._send(message)
            return
        held = self._held
        held += _HEADS[length] if length < len(_HEADS) else frame_head(TEXT, length)
        held += message
        self._room_bytes -= length + _MESSAGE_BYTES
        if self._room_bytes <= 0:
            self.flush()

    def send_control(self, frame: bytes) -> None:
        """Send a whole control frame, now or in its order among the messages of this burst."""
        if not self._is_parsing:
            self._write(frame)
            return
        self._held += frame
        # Nobody works on those, so many may wait.
        self._room_bytes -= len(frame)
        if self._room_bytes <= 0:
            self.flush()

    def flush(self) -> None:
        """Let go of what is held back, so that something else can follow it."""
        if self._held:
            held, self._held, self._room_bytes = self._held, bytearray(), HELD_LIMIT_BYTES
            self._write(held)
