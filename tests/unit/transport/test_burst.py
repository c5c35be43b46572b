"""What a burst holds back, when it lets go, and that its frames are read as they were meant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode
from websockets.streams import StreamReader

from paddock.transport.burst import HELD_LIMIT_BYTES, HELD_MESSAGES, LARGEST_HELD_BYTES, Burst


class Wire:
    """Records what leaves, as the messages that a peer would see, and in how many pieces."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []
        self.pieces = 0
        self.burst = Burst(self._send, self._write)

    def _send(self, message: bytes | bytearray) -> None:
        self.pieces += 1
        self.messages.append(bytes(message))

    def _write(self, frames: bytes | bytearray) -> None:
        self.pieces += 1
        reader = StreamReader()
        reader.feed_data(bytes(frames))
        while reader.buffer:
            # A parser that would wait for more raises nothing: then the last frame is cut off.
            with pytest.raises(StopIteration) as parsed:
                next(Frame.parse(reader.read_exact, mask=False))
            frame = parsed.value.value
            assert frame.fin
            if frame.opcode is Opcode.TEXT:
                self.messages.append(bytes(frame.data))
            else:
                self.messages.append(f"{frame.opcode.name} {frame.data.decode()}".encode())


@pytest.fixture
def wire() -> Wire:
    return Wire()


def test_message_outside_a_read_leaves_at_once(wire: Wire) -> None:
    wire.burst.send(b"alone")

    assert (wire.messages, wire.burst.held_bytes) == ([b"alone"], 0)


def test_answers_of_one_read_leave_in_one_piece_when_it_ends(wire: Wire) -> None:
    wire.burst.begin()
    for answer in (b"a", b"bb", b"ccc"):
        wire.burst.send(answer)
    before = (wire.pieces, wire.burst.held_bytes)
    wire.burst.end()

    assert before == (0, 12)
    assert (wire.messages, wire.pieces, wire.burst.held_bytes) == ([b"a", b"bb", b"ccc"], 1, 0)


def test_buffer_may_be_reused_while_its_message_is_held_back(wire: Wire) -> None:
    buffer = bytearray(b"first")
    wire.burst.begin()
    wire.burst.send(buffer)
    buffer[:] = b"other"
    wire.burst.end()

    assert wire.messages == [b"first"]


def test_large_message_leaves_at_once_and_behind_the_small_ones_before_it(wire: Wire) -> None:
    large = b"x" * (LARGEST_HELD_BYTES + 1)
    wire.burst.begin()
    wire.burst.send(b"small")
    wire.burst.send(large)

    assert wire.messages == [b"small", large]


def test_the_first_of_many_answers_do_not_wait_for_the_last(wire: Wire) -> None:
    wire.burst.begin()
    for _ in range(HELD_MESSAGES):
        wire.burst.send(b"first")
    at_once = len(wire.messages)
    wire.burst.send(b"next")
    before_the_end = len(wire.messages)
    wire.burst.end()

    assert (at_once, before_the_end, len(wire.messages)) == (HELD_MESSAGES, HELD_MESSAGES, HELD_MESSAGES + 1)
    assert wire.pieces == 2


def test_answers_do_not_pile_up_beyond_the_limit(wire: Wire) -> None:
    wire.burst.begin()
    held = []
    for _ in range(100):
        wire.burst.send(b"x" * LARGEST_HELD_BYTES)
        held.append(wire.burst.held_bytes)

    assert max(held) < HELD_LIMIT_BYTES


@given(st.lists(st.integers(0, LARGEST_HELD_BYTES + 2), max_size=40))
def test_messages_of_any_length_arrive_whole_and_in_order(lengths: list[int]) -> None:
    wire = Wire()
    messages = [bytes([number]) * length for number, length in enumerate(lengths)]
    wire.burst.begin()
    for message in messages:
        wire.burst.send(message)
    wire.burst.end()

    assert wire.messages == messages


def test_control_frames_keep_their_place_among_the_messages(wire: Wire) -> None:
    wire.burst.begin()
    wire.burst.send(b"before")
    wire.burst.send_control(b"\x8a\x01a")
    wire.burst.send(b"after")
    wire.burst.end()
    wire.burst.send_control(b"\x8a\x01b")
    assert wire.messages == [b"before", b"PONG a", b"after", b"PONG b"]
    assert wire.pieces == 2


def test_no_more_control_frames_are_held_back_than_allowed(wire: Wire) -> None:
    wire.burst.begin()
    for _ in range(HELD_LIMIT_BYTES):
        wire.burst.send_control(b"\x8a\x00")
        assert wire.burst.held_bytes <= HELD_LIMIT_BYTES
    wire.burst.end()
    assert wire.messages == [b"PONG "] * HELD_LIMIT_BYTES
