"""The answers to messages that came together, on their way out together.

TCP_NODELAY sends each message in a packet of its own, which is right for one and
wasteful for many: the system call, the packet and the wake-up of the reader cost more
than the answer did. While one read is being parsed its answers are held back; they
leave in order, in one piece, when the parse ends or when there are many. It does not
hold back messages that are sent at any other time.

Only a server's frames are made here: they are not masked (RFC 6455, 5.1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from paddock.transport.frames import TEXT, frame_head

Message = bytes | bytearray

LARGEST_HELD_BYTES: Final = 8 * 1024
"""Copying a larger message costs as much as sending it by itself."""

HELD_LIMIT_BYTES: Final = 64 * 1024
"""Most bytes to hold back, so that the link's own limits see answers that nobody reads."""

HELD_MESSAGES: Final = 16
"""Most messages to hold back. A client that keeps twice as many requests in flight, or more, works on the
first of its answers while the others are being made."""

_MESSAGE_BYTES: Final = HELD_LIMIT_BYTES // HELD_MESSAGES
"""What a message counts in addition to its length, so that one bound serves both limits."""

_MADE_HEADS: Final = 512
_HEADS: Final = tuple(frame_head(TEXT, length) for length in range(_MADE_HEADS))
"""Heads of most answers, made in advance."""


class WriteBatch:
    """Holds messages back between `begin` and `end`.

    `send` takes a message that leaves by itself, `write` the bytes of whole frames.
    """

    def __init__(self, send: Callable[[Message], None], write: Callable[[Message], None]) -> None:
        self._send = send
        self._write = write
        self._is_parsing = False
        # Frames, and not one growing buffer: transports pass bytes on faster than anything that could change.
        self._held: list[bytes] = []
        self._held_controls = 0
        self._left_bytes = HELD_LIMIT_BYTES

    @property
    def held_bytes(self) -> int:
        """Return how many bytes wait for the end of the parse."""
        # Worked out from what `send` counts anyway: it takes every answer, and few ask for this.
        messages = len(self._held) - self._held_controls
        return HELD_LIMIT_BYTES - self._left_bytes - messages * _MESSAGE_BYTES

    def begin(self) -> None:
        """Begin: a read is about to be parsed. `end` must follow."""
        self._is_parsing = True

    def end(self) -> None:
        """End: the read is parsed. Send what was held back."""
        self._is_parsing = False
        if self._held:
            self.flush()

    def send(self, message: Message) -> None:
        """Send a message, now or together with others of this batch; in order in any case."""
        if not self._is_parsing:
            self._send(message)
            return
        length = len(message)
        if length > LARGEST_HELD_BYTES:
            self.flush()
            self._send(message)
            return
        frame = (_HEADS[length] if length < _MADE_HEADS else frame_head(TEXT, length)) + message
        self._held.append(frame)
        self._left_bytes -= len(frame) + _MESSAGE_BYTES
        if self._left_bytes <= 0:
            self.flush()

    def send_control(self, frame: bytes) -> None:
        """Send a whole control frame, now or in its order among the messages of this batch."""
        if not self._is_parsing:
            self._write(frame)
            return
        self._held.append(frame)
        self._held_controls += 1
        # Nobody works on control frames, so many may wait.
        self._left_bytes -= len(frame)
        if self._left_bytes <= 0:
            self.flush()

    def flush(self) -> None:
        """Let go of what is held back, so that something else can follow it."""
        if self._held:
            frames = b"".join(self._held)
            self._held.clear()
            self._held_controls = 0
            self._left_bytes = HELD_LIMIT_BYTES
            self._write(frames)
