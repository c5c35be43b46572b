"""What a burst holds back, when it lets go, and that its frames are read as they were meant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode
from websockets.streams import StreamReader

from paddock.transport.write_batch import HELD_LIMIT_BYTES, HELD_MESSAGES, LARGEST_HELD_BYTES, WriteBatch


class Wire:
    """Records what leaves, as the messages that a peer would see, and in how many pieces."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []
        self.pieces = 0
        self.batch = WriteBatch(self._send, self._write)

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
    wire.batch.send(b"alone")

    assert (wire.messages, wire.batch.held_bytes) == ([b"alone"], 0)


def test_answers_of_one_read_leave_in_one_piece_when_it_ends(wire: Wire) -> None:
    wire.batch.begin()
    for answer in (b"a", b"bb", b"ccc"):
        wire.batch.send(answer)
    before = (wire.pieces, wire.batch.held_bytes)
    wire.batch.end()

    assert before == (0, 12)
    assert (wire.messages, wire.pieces, wire.batch.held_bytes) == ([b"a", b"bb", b"ccc"], 1, 0)


def test_large_message_leaves_at_once_and_behind_the_small_ones_before_it(wire: Wire) -> None:
    large = b"x" * (LARGEST_HELD_BYTES + 1)
    wire.batch.begin()
    wire.batch.send(b"small")
    wire.batch.send(large)

    assert wire.messages == [b"small", large]


def test_the_first_of_many_answers_do_not_wait_for_the_last(wire: Wire) -> None:
    wire.batch.begin()
    for _ in range(HELD_MESSAGES):
        wire.batch.send(b"first")
    at_once = len(wire.messages)
    wire.batch.send(b"next")
    before_the_end = len(wire.messages)
    wire.batch.end()

    assert (at_once, before_the_end, len(wire.messages)) == (HELD_MESSAGES, HELD_MESSAGES, HELD_MESSAGES + 1)
    assert wire.pieces == 2


def test_answers_do_not_pile_up_beyond_the_limit(wire: Wire) -> None:
    wire.batch.begin()
    held = []
    for _ in range(100):
        wire.batch.send(b"x" * LARGEST_HELD_BYTES)
        held.append(wire.batch.held_bytes)

    assert max(held) < HELD_LIMIT_BYTES


@given(st.lists(st.integers(0, LARGEST_HELD_BYTES + 2), max_size=40))
def test_messages_of_any_length_arrive_whole_and_in_order(lengths: list[int]) -> None:
    wire = Wire()
    messages = [bytes([number]) * length for number, length in enumerate(lengths)]
    wire.batch.begin()
    for message in messages:
        wire.batch.send(message)
    wire.batch.end()

    assert wire.messages == messages


def test_control_frames_keep_their_place_among_the_messages(wire: Wire) -> None:
    wire.batch.begin()
    wire.batch.send(b"before")
    wire.batch.send_control(b"\x8a\x01a")
    wire.batch.send(b"after")
    wire.batch.end()
    wire.batch.send_control(b"\x8a\x01b")
    assert wire.messages == [b"before", b"PONG a", b"after", b"PONG b"]
    assert wire.pieces == 2


def test_control_frames_count_as_held_bytes_beside_messages(wire: Wire) -> None:
    wire.batch.begin()
    wire.batch.send(b"x" * 600)
    wire.batch.send_control(b"\x8a\x01a")
    wire.batch.send_control(b"\x8a\x00")
    held = wire.batch.held_bytes
    wire.batch.end()

    assert (held, wire.batch.held_bytes) == (4 + 600 + 3 + 2, 0)


def test_no_more_control_frames_are_held_back_than_allowed(wire: Wire) -> None:
    wire.batch.begin()
    more_than_fit = HELD_LIMIT_BYTES // 2 + 2
    for _ in range(more_than_fit):
        wire.batch.send_control(b"\x8a\x00")
        assert wire.batch.held_bytes <= HELD_LIMIT_BYTES
    wire.batch.end()
    assert wire.messages == [b"PONG "] * more_than_fit
