"""Limits on how much a transport buffers and how long it waits.

Values only, so that the server can fill them from its settings without
importing a transport, let alone what the websocket one stands on.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

MIB: Final = 1 << 20
GIB: Final = 1 << 30


class TransportLimits(Struct, frozen=True, kw_only=True):
    """Limits that every medium has in common.

    One link holds at most one incomplete incoming message, the messages of one
    read that came after `pause_reading`, and as much output as its owner queues;
    an owner that stops at `writing_paused` queues `write_high_water_bytes` and one
    message.
    """

    max_message_bytes: int = 64 * MIB
    """An incoming message over this size drops the link. Outgoing ones are not limited."""

    write_high_water_bytes: int = MIB
    """Queued output above this calls `writing_paused`; at a quarter of it, `writing_resumed`."""

    close_timeout_s: float = 5.0
    """A closing link is dropped when its queue has not shrunk, or the peer not answered, for this long."""

    max_connections: int = 256
    """Links that one listener keeps open; further peers are turned away."""

    @property
    def write_low_water_bytes(self) -> int:
        """Return where a paused writer may go on: far enough below the high mark not to flutter."""
        return self.write_high_water_bytes // 4


class WebSocketLimits(TransportLimits, frozen=True, kw_only=True):
    """Limits that only framing, keep-alive and an HTTP upgrade need. The defaults are the server's."""

    max_frame_bytes: int = 16 * MIB
    """A single incoming frame over this size drops the link before its payload is read."""

    ping_interval_s: float | None = 30.0
    """How often to ping, which keeps middleboxes from forgetting the connection; None = never."""

    ping_timeout_s: float | None = None
    """Drop the link if not one byte came in this long after a ping; None = tolerate silence. A server keeps a
    client whose host answers, though its program is stopped."""

    handshake_timeout_s: float = 10.0
    """A peer that has not completed its upgrade request by then is dropped; so is one that has not
    completed the TLS handshake before it."""

    max_handshakes: int = 256
    """Peers of one listener that may be in the middle of their handshake, or of getting an answer instead
    of one; when another comes, the listener drops the oldest. So peers that open connections and send
    nothing take at most this many descriptors, and a quick client gets through."""

    @property
    def largest_frame_bytes(self) -> int:
        """Return the effective limit of a frame, which cannot be larger than the message it belongs to."""
        return min(self.max_frame_bytes, self.max_message_bytes)


CLIENT_LIMITS: Final = WebSocketLimits(
    # A server may send a whole file in one frame, and the client has decided to trust it.
    max_frame_bytes=GIB,
    max_message_bytes=GIB,
    ping_interval_s=None,
)
