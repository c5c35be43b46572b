"""Frames: read alike by the compiled way and the ordinary one, and as another implementation writes them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.frames import Frame as ForeignFrame
from websockets.frames import Opcode
from websockets.streams import StreamReader

from paddock.errors import MessageTooLarge, ProtocolViolation
from paddock.transport import frames
from paddock.transport.frames import (
    BINARY,
    CLOSE,
    CONTINUATION,
    LARGE_BYTES,
    PING,
    PONG,
    TEXT,
    FrameReader,
    frame_head,
    masked_frame,
    read_close,
)
from tests.unit.transport.raw_peer import frame

_frames = pytest.importorskip(
    "paddock.transport._frames", reason="the frames are not compiled: no Python headers"
)

LIMIT_BYTES = 200_000

Taken = tuple[int, bool, bytes]
"""Opcode, whether it was the last of its message, and payload."""

WAYS = ["compiled", "ordinary"]


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run a test with the compiled module and without it."""
    with pytest.MonkeyPatch.context() as patch:
        _choose(patch, request.param)
        yield request.param


def _choose(patch: pytest.MonkeyPatch, way: str) -> None:
    if way == "ordinary":
        patch.setattr(frames, "take_plain", frames._take_nothing)
        patch.setattr(frames, "apply_mask", frames._apply_mask)


def _reader(*, is_masked: bool = True) -> FrameReader:
    return FrameReader(is_masked=is_masked, max_frame_bytes=LIMIT_BYTES)


def _take(reader: FrameReader, data: bytes) -> Iterator[Taken]:
    """What can be taken when these bytes have come; of plain frames nobody tells which kind they were."""
    reader.space(len(data))[:] = data
    reader.fill(len(data))
    while True:
        yield from ((TEXT, True, bytes(message)) for message in reader.take_messages(100))
        found = reader.take_frame()
        if found is None:
            return
        opcode = TEXT if found.opcode == BINARY and found.is_final else found.opcode
        yield opcode, found.is_final, bytes(found.payload)


def _feed(reader: FrameReader, data: bytes) -> list[Taken]:
    return list(_take(reader, data))


def _outcome(data: bytes, cuts: list[int], *, is_masked: bool) -> tuple[list[Taken], str]:
    """All that is taken from a stream that comes in pieces, and why it ended, if for a reason."""
    reader = _reader(is_masked=is_masked)
    taken: list[Taken] = []
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    try:
        for begin, end in pairwise(edges):
            for found in _take(reader, data[begin:end]):
                taken.append(found)
    except (ProtocolViolation, MessageTooLarge) as problem:
        return taken, str(problem)
    return taken, ""


# ---------------------------------------------------------------- in


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 125, 126, 127, 65_535, 65_536, LARGE_BYTES, LIMIT_BYTES])
@pytest.mark.parametrize("is_masked", [True, False])
def test_message_of_any_size_is_read(way: str, size: int, is_masked: bool) -> None:
    payload = bytes(at * 7 % 256 for at in range(size))

    assert _feed(_reader(is_masked=is_masked), frame(BINARY, payload, is_masked=is_masked)) == [
        (TEXT, True, payload)
    ]


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("size", [1, 126, 65_536])
def test_message_that_is_cut_anywhere_in_its_head_is_read(size: int) -> None:
    payload = bytes(size)
    for cut in range(1, 15):
        assert _outcome(frame(BINARY, payload), [cut], is_masked=True) == ([(TEXT, True, payload)], "")


@pytest.mark.usefixtures("way")
def test_message_masked_with_zeros_is_read() -> None:
    payload = bytes(range(256)) * 100

    assert _feed(_reader(), frame_head(TEXT, len(payload), is_masked=True) + bytes(4) + payload) == [
        (TEXT, True, payload)
    ]


@pytest.mark.usefixtures("way")
def test_fragments_and_control_frames_are_given_one_by_one() -> None:
    stream = (
        frame(TEXT, b"one", is_final=False)
        + frame(PING, b"?")
        + frame(CONTINUATION, b"two")
        + frame(PONG)
        + frame(CLOSE)
    )

    assert _feed(_reader(), stream) == [
        (TEXT, False, b"one"),
        (PING, True, b"?"),
        (CONTINUATION, True, b"two"),
        (PONG, True, b""),
        (CLOSE, True, b""),
    ]


@pytest.mark.usefixtures("way")
def test_frame_over_the_limit_is_refused_when_its_length_is_known() -> None:
    head = frame(TEXT, claimed_bytes=LIMIT_BYTES + 1)[:10]

    with pytest.raises(MessageTooLarge):
        _feed(_reader(), head)


@pytest.mark.usefixtures("way")
def test_server_may_not_mask() -> None:
    with pytest.raises(ProtocolViolation, match="a frame is masked"):
        _feed(_reader(is_masked=False), frame(TEXT, b"x"))


def test_large_message_is_not_copied_and_a_small_one_is() -> None:
    reader = _reader()
    stream = frame(TEXT, b"s") + frame(TEXT, b"l" * LARGE_BYTES)
    reader.space(len(stream))[:] = stream
    reader.fill(len(stream))

    assert [type(message) for message in reader.take_messages(100)] == [bytes, memoryview]


def test_no_more_messages_are_taken_than_asked_for() -> None:
    reader = _reader()
    stream = frame(TEXT, b"x") * 3
    reader.space(len(stream))[:] = stream
    reader.fill(len(stream))

    assert [len(reader.take_messages(limit)) for limit in (0, 2, 2)] == [0, 2, 1]


def test_buffer_of_a_long_frame_is_given_back() -> None:
    reader = FrameReader(is_masked=True, max_frame_bytes=1 << 24)
    _feed(reader, frame(TEXT, b"x" * (1 << 22)))
    assert len(reader._view) == 0


def test_buffer_is_given_up_on_demand_but_not_with_half_a_frame_in_it() -> None:
    reader = _reader()
    first, second = frame(TEXT, b"first"), frame(TEXT, b"second")
    _feed(reader, first + second[:4])
    reader.let_go()
    assert _feed(reader, second[4:]) == [(TEXT, True, b"second")]

    reader.let_go()
    assert len(reader._view) == 0


def test_space_shrinks_again_when_less_is_asked_for() -> None:
    reader = _reader()
    reader.space(1 << 20)

    assert len(reader.space(1 << 10)) == 1 << 10
    assert len(reader._view) <= 1 << 12


FRAMES = st.builds(
    frame,
    st.sampled_from([CONTINUATION, TEXT, TEXT, BINARY, PING, CLOSE, 0x3]),
    st.one_of(st.binary(max_size=130), st.integers(0, 70_000).map(bytes)),
    is_final=st.sampled_from([True, True, False]),
    reserved=st.sampled_from([0, 0, 0, 0, 4]),
    is_masked=st.sampled_from([True, True, True, False]),
)


@settings(deadline=None)
@given(
    st.lists(FRAMES, max_size=8).map(b"".join) | st.binary(max_size=300),
    st.lists(st.integers(0, 1 << 20)),
    st.booleans(),
)
def test_both_ways_read_any_stream_alike_however_it_is_cut(
    stream: bytes, cuts: list[int], is_masked: bool
) -> None:
    outcomes = []
    for way in WAYS:
        for pieces in ([], cuts):
            with pytest.MonkeyPatch.context() as patch:
                _choose(patch, way)
                outcomes.append(_outcome(stream, pieces, is_masked=is_masked))

    assert all(outcome == outcomes[0] for outcome in outcomes)


@given(st.binary(max_size=300), st.binary(min_size=4, max_size=4), st.integers(0, 300))
def test_both_ways_mask_alike(data: bytes, key: bytes, begin: int) -> None:
    compiled, ordinary = bytearray(data), bytearray(data)
    _frames.apply_mask(memoryview(compiled)[begin:], key)
    frames._apply_mask(memoryview(ordinary)[begin:], key)

    assert compiled == ordinary


@pytest.mark.parametrize(("begin", "end"), [(-1, 2), (3, 2), (0, 5)])
def test_places_outside_the_buffer_are_refused(begin: int, end: int) -> None:
    with pytest.raises(ValueError, match="the places are not in the view"):
        _frames.take_plain(memoryview(bytearray(4)), begin, end, True, LIMIT_BYTES, LARGE_BYTES, 100)


# ---------------------------------------------------------------- out


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536])
@pytest.mark.parametrize("key", [None, b"\x01\x80\xff\x00"])
def test_another_implementation_reads_what_is_written(size: int, key: bytes | None) -> None:
    payload = bytes(at * 7 % 256 for at in range(size))
    written = frame_head(TEXT, size) + payload if key is None else bytes(masked_frame(TEXT, payload, key))
    reader = StreamReader()
    reader.feed_data(written)
    with pytest.raises(StopIteration) as parsed:
        next(ForeignFrame.parse(reader.read_exact, mask=key is not None))

    found = parsed.value.value
    assert (found.opcode, found.fin, bytes(found.data), bytes(reader.buffer)) == (
        Opcode.TEXT,
        True,
        payload,
        b"",
    )


# ---------------------------------------------------------------- the reason to close


def test_close_frame_tells_code_and_reason() -> None:
    assert read_close(b"") == (1005, "")
    assert read_close(b"\x03\xe8") == (1000, "")
    assert read_close(b"\x0f\xa0" + "späť".encode()) == (4000, "späť")


@pytest.mark.parametrize("payload", [b"\x03", b"\x03\xe7", b"\x03\xed", b"\x13\x88", b"\x03\xe8\xff"])
def test_close_frame_that_means_nothing_is_refused(payload: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        read_close(payload)
