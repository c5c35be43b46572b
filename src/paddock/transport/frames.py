"""The frames of a WebSocket, from bytes and to bytes (RFC 6455, 5).

`FrameReader` takes bytes as they come and returns messages, or single frames where a message
is more than one plain frame. It refuses what the RFC forbids within a frame; the link checks
the sequence of frames. No extensions. Knows no socket, no clock and no randomness.

A compiled module reads plain frames, at a fraction of the cost. Where it could not be compiled,
this module reads them like the unusual ones.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final, NamedTuple

from paddock.errors import MessageTooLarge, ProtocolViolation

CONTINUATION: Final = 0x0
TEXT: Final = 0x1
BINARY: Final = 0x2
CLOSE: Final = 0x8
PING: Final = 0x9
PONG: Final = 0xA

NORMAL_CLOSURE: Final = 1000
GOING_AWAY: Final = 1001
PROTOCOL_ERROR: Final = 1002
NO_CODE: Final = 1005
"""Never on the wire; it stands for a close frame without a code (7.1.5)."""
MESSAGE_TOO_BIG: Final = 1009

LARGE_BYTES: Final = 16 * 1024
"""From this size on, a message is not copied out of the buffer: that costs as much as decoding it."""

_KEPT_BYTES: Final = 2 * 1024 * 1024
"""The reader does not keep a larger buffer after one long frame."""

_FINAL: Final = 0x80
_RESERVED: Final = 0x70
_OPCODE: Final = 0x0F
_CONTROL: Final = 0x08
_OPCODES: Final = frozenset((CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG))
_MASKED: Final = 0x80
_KEY_BYTES: Final = 4

_MAX_CONTROL_BYTES: Final = 125
_SHORT: Final = 126
_LONG: Final = 127
_pack_short: Final = Struct("!BBH").pack
_pack_long: Final = Struct("!BBQ").pack

# 7.4: what an endpoint may send; 1004 to 1006 and 1015 stand for something that is not on the wire.
_CLOSE_CODES: Final = frozenset((*range(1000, 1004), *range(1007, 1015), *range(3000, 5000)))


def _take_nothing(
    view: memoryview,
    begin: int,
    end: int,
    is_masked: bool,
    max_bytes: int,
    small_bytes: int,
    max_messages: int,
    /,
) -> tuple[list[bytes | memoryview], int]:
    """Leave every frame to the ordinary way."""
    return [], begin


def _apply_mask(data: bytearray | memoryview, key: bytes | memoryview, /) -> None:
    """Mask or unmask data where it is."""
    size = len(data)
    keys = (bytes(key) * (size // _KEY_BYTES + 1))[:size]
    masked = int.from_bytes(data, "big") ^ int.from_bytes(keys, "big")
    data[:] = masked.to_bytes(size, "big")


take_plain: Callable[[memoryview, int, int, bool, int, int, int], tuple[list[bytes | memoryview], int]]
apply_mask: Callable[[bytearray | memoryview, bytes | memoryview], None]
try:
    from paddock.transport import _frames
except ImportError:
    take_plain = _take_nothing
    apply_mask = _apply_mask
else:
    take_plain = _frames.take_plain
    apply_mask = _frames.apply_mask


# ---------------------------------------------------------------- out


def frame_head(opcode: int, length: int, *, is_masked: bool = False) -> bytes:
    """Return the head of a frame with a payload of this length, up to its key."""
    first = _FINAL | opcode
    mask_bit = _MASKED if is_masked else 0
    if length < _SHORT:
        return bytes((first, mask_bit | length))
    if length < 1 << 16:
        return _pack_short(first, mask_bit | _SHORT, length)
    return _pack_long(first, mask_bit | _LONG, length)


def masked_frame(opcode: int, payload: bytes | bytearray, key: bytes) -> bytearray:
    """Return a whole frame of a client. The key must be unpredictable (10.3)."""
    frame = bytearray(frame_head(opcode, len(payload), is_masked=True))
    frame += key
    begin = len(frame)
    frame += payload
    with memoryview(frame) as whole, whole[begin:] as masked:
        apply_mask(masked, key)
    return frame


# ---------------------------------------------------------------- in


class Frame(NamedTuple):
    """One frame. The payload is good until the reader is asked for space again."""

    opcode: int
    is_final: bool
    payload: memoryview


class FrameReader:
    """The incoming side of one connection: write into `space`, call `fill`, then take all there is.

    A client masks its frames and a server does not (5.1), so `is_masked` says which side sends them.
    """

    def __init__(self, *, is_masked: bool, max_frame_bytes: int) -> None:
        self._is_masked = is_masked
        self._max_frame_bytes = max_frame_bytes
        self._view = memoryview(bytearray())
        self._begin = 0
        self._end = 0

    @property
    def held_bytes(self) -> int:
        """Return how much has arrived and is not taken."""
        return self._end - self._begin

    def space(self, size: int) -> memoryview:
        """Return the buffer for the next bytes. Invalidates all views returned before."""
        rest = self._end - self._begin
        if self._begin:
            if rest:
                self._view[:rest] = self._view[self._begin : self._end]
            self._begin, self._end = 0, rest
        needed = rest + size
        # Four times what has come of a long frame, to avoid a copy with every read; and shrink again later.
        if not needed <= len(self._view) <= 8 * needed:
            grown = memoryview(bytearray(needed + 3 * rest))
            grown[:rest] = self._view[:rest]
            self._view = grown
        return self._view[rest:needed]

    def fill(self, count: int) -> None:
        """Note that this many bytes have arrived in the space."""
        self._end += count

    def take_messages(self, limit: int) -> list[bytes | memoryview]:
        """Take the next messages, up to the limit, while they are complete and each is one plain frame."""
        messages, self._begin = take_plain(
            self._view, self._begin, self._end, self._is_masked, self._max_frame_bytes, LARGE_BYTES, limit
        )
        return messages

    def take_frame(self) -> Frame | None:
        """Take the next frame, if it is complete.

        Raises ProtocolViolation or MessageTooLarge, before the payload has come if possible.
        """
        if self._end - self._begin < 2:
            if len(self._view) > _KEPT_BYTES:
                self.let_go()
            return None
        view = self._view[self._begin : self._end]
        first, second = view[0], view[1]
        self._check_start(first, second)
        length = second & ~_MASKED
        head_bytes = 2
        if length >= _SHORT:
            head_bytes += 2 if length == _SHORT else 8
            if len(view) < head_bytes:
                return None
            length = int.from_bytes(view[2:head_bytes], "big")
            _check_length(length, head_bytes)
        if length > self._max_frame_bytes:
            raise MessageTooLarge(self._max_frame_bytes)
        payload_at = head_bytes + (_KEY_BYTES if self._is_masked else 0)
        if len(view) < payload_at + length:
            return None
        payload = view[payload_at : payload_at + length]
        if self._is_masked:
            apply_mask(payload, bytes(view[head_bytes:payload_at]))
        self._begin += payload_at + length
        return Frame(first & _OPCODE, bool(first & _FINAL), payload)

    def let_go(self) -> None:
        """Free the buffer, if it is empty: the connection may send nothing more."""
        if self._begin == self._end:
            self._view = memoryview(bytearray())
            self._begin = self._end = 0

    def _check_start(self, first: int, second: int) -> None:
        opcode = first & _OPCODE
        if first & _RESERVED:
            raise ProtocolViolation("reserved bits are set, but no extension was negotiated")
        if opcode not in _OPCODES:
            raise ProtocolViolation(f"the opcode {opcode:#x} is not valid")
        if bool(second & _MASKED) is not self._is_masked:
            raise ProtocolViolation("a frame is not masked" if self._is_masked else "a frame is masked")
        if opcode & _CONTROL and not first & _FINAL:
            raise ProtocolViolation("a control frame is fragmented")
        if opcode & _CONTROL and second & ~_MASKED > _MAX_CONTROL_BYTES:
            raise ProtocolViolation(f"a control frame is longer than {_MAX_CONTROL_BYTES} bytes")


def _check_length(length: int, head_bytes: int) -> None:
    shortest = _SHORT if head_bytes == 4 else 1 << 16
    if length < shortest:
        raise ProtocolViolation("a length is written in more bytes than it needs")
    if length >= 1 << 63:
        raise ProtocolViolation("a length has its highest bit set")


def read_close(payload: bytes) -> tuple[int, str]:
    """Return the code and the reason of a close frame. Raises ProtocolViolation."""
    if not payload:
        return NO_CODE, ""
    code = int.from_bytes(payload[:2], "big")
    if len(payload) < 2 or code not in _CLOSE_CODES:
        raise ProtocolViolation(f"a close frame has the code {code}, which is not valid")
    try:
        return code, payload[2:].decode()
    except UnicodeDecodeError as error:
        raise ProtocolViolation("the reason in a close frame is not UTF-8") from error
