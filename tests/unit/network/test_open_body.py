"""Bodies of unknown length, cut into any pieces: what passes is what h11 would have read."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import pairwise

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.network import open_body
from paddock.network.open_body import ChunkedBody, LastBody

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
OPEN_HEAD = b"HTTP/1.1 200 OK\r\n\r\n"


class Pieces:
    """A stream that has these pieces to receive, and keeps what is sent."""

    def __init__(self, pieces: Iterable[bytes] = ()) -> None:
        self._pieces = deque(pieces)
        self.sent = b""
        self.turns = 0
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def is_at_end(self) -> bool:
        return not self._pieces

    async def turn(self) -> None:
        self.turns += 1

    async def receive(self) -> bytes:
        return self._pieces.popleft() if self._pieces else b""

    def unread(self, data: bytes) -> None:
        if data:
            self._pieces.appendleft(data)

    async def send(self, data: bytes) -> None:
        self.sent += data

    def end(self) -> None: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...


def reader(said: bytes) -> h11.Connection:
    """A connection whose next event is what follows the head."""
    messages = h11.Connection(h11.CLIENT)
    messages.send(h11.Request(method="GET", target="/", headers=[("Host", "a.test")]))
    messages.send(h11.EndOfMessage())
    messages.receive_data(said)
    assert isinstance(messages.next_event(), h11.Response)
    return messages


def read(said: bytes) -> tuple[bytes, bytes]:
    """What h11 makes of a whole answer: its body, and what comes behind it."""
    messages = reader(said)
    body = b""
    while not isinstance(event := messages.next_event(), h11.EndOfMessage):
        if event is h11.NEED_DATA:
            messages.receive_data(b"")
            continue
        assert isinstance(event, h11.Data)
        body += event.data
    return body, messages.trailing_data[0]


async def passed(head: bytes, first: bytes, pieces: Sequence[bytes]) -> tuple[bytes, bytes, Pieces]:
    """What comes out of an answer, what stays behind it, and the stream that got it."""
    messages = reader(head + first)
    source, onward = Pieces(pieces), Pieces()
    body = (
        ChunkedBody(source, onward, messages.trailing_data[0]) if head is HEAD else LastBody(source, onward)
    )
    while not isinstance(event := messages.next_event(), h11.EndOfMessage):
        if event is h11.NEED_DATA:
            messages.receive_data(await body.receive())
            continue
        assert isinstance(event, h11.Data)
        await onward.send(b"%x\r\n%b\r\n" % (len(event.data), event.data))
    await onward.send(b"0\r\n\r\n")
    return onward.sent, messages.trailing_data[0] + b"".join(source._pieces), onward


def chunk(data: bytes, form: str) -> bytes:
    size = {"plain": "{:x}", "upper": "{:X}", "zeros": "00{:x}", "extended": "{:x};a=b", "spaced": "{:x} "}
    return size[form].format(len(data)).encode() + b"\r\n" + data + b"\r\n"


def cut(data: bytes, at: Iterable[int]) -> list[bytes]:
    """The same in pieces, each of which has something."""
    places = sorted({place % (len(data) + 1) for place in at} | {0, len(data)})
    return [data[one:other] for one, other in pairwise(places)]


CHUNKS = st.lists(
    st.tuples(
        st.binary(min_size=1, max_size=40), st.sampled_from(["plain", "plain", "upper", "zeros", "extended"])
    ),
    max_size=12,
)
PLACES = st.lists(st.integers(0, 2000), max_size=12)
ENDS = st.sampled_from([b"0\r\n\r\n", b"000\r\n\r\n", b"0\r\nTrailer: x\r\n\r\n", b"0;x\r\n\r\n"])


@given(CHUNKS, ENDS, PLACES, st.sampled_from([b"", b"HTTP/1.1 200 OK\r\n\r\n", b"5\r\nhello\r\n"]))
def test_body_that_passes_is_the_one_that_h11_reads(
    chunks: list[tuple[bytes, str]], end: bytes, places: list[int], behind: bytes
) -> None:
    whole = b"".join(chunk(data, form) for data, form in chunks) + end + behind
    first, *pieces = [*cut(whole, places), b""]
    sent, rest, _ = asyncio.run(passed(HEAD, first, [piece for piece in pieces if piece]))
    body = b"".join(data for data, _ in chunks)
    assert read(HEAD + sent) == (body, b"")
    assert read(HEAD + whole) == (body, behind)
    # What comes behind the body is not taken for a part of it.
    assert rest == behind


@given(CHUNKS, PLACES, st.integers(0, 10_000), st.sampled_from([None, *b"\r\n0;xfF "]))
def test_damaged_body_is_never_taken_for_another(
    chunks: list[tuple[bytes, str]], places: list[int], at: int, byte: int | None
) -> None:
    whole = bytearray(b"".join(chunk(data, form) for data, form in chunks) + b"0\r\n\r\n")
    if byte is None:
        del whole[at % len(whole)]
    else:
        whole[at % len(whole)] = byte
    first, *pieces = [*cut(bytes(whole), places), b""]
    try:
        wanted = read(HEAD + bytes(whole))
    except h11.RemoteProtocolError:
        wanted = None
    try:
        sent, rest, _ = asyncio.run(passed(HEAD, first, [piece for piece in pieces if piece]))
        got = read(HEAD + sent)[0], rest
    except h11.RemoteProtocolError:
        got = None
    assert got == wanted


@pytest.mark.parametrize(
    "whole", [b"5\r\nhello", b"5\r\nhello\r", b"5\r\nhello\r\n", b"5\r\nhelloX\n0\r\n\r\n", b"5\r\nhel"]
)
@pytest.mark.parametrize("at", [0, 1, 3, 5, 8])
async def test_body_that_is_cut_off_or_has_another_length_has_no_end(whole: bytes, at: int) -> None:
    with pytest.raises(h11.RemoteProtocolError):
        await passed(HEAD, whole[:at], [whole[at:]])


async def test_plain_chunks_pass_as_they_are_and_others_written_anew() -> None:
    plain, odd = chunk(b"a" * 300, "plain"), chunk(b"b" * 300, "extended")
    sent, _, _ = await passed(HEAD, b"", [plain + odd + plain + b"0\r\n\r\n"])
    assert sent == plain + chunk(b"b" * 300, "plain") + plain + b"0\r\n\r\n"


async def test_many_small_chunks_take_several_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_body, "CHUNKS_PER_TURN", 8)
    whole = chunk(b"x", "plain") * 100
    sent, _, onward = await passed(HEAD, b"", [whole + b"0\r\n\r\n"])
    assert sent == whole + b"0\r\n\r\n"
    assert onward.turns >= 100 // 8


@given(st.binary(max_size=100), PLACES)
def test_body_that_ends_with_its_connection_gets_an_end(data: bytes, places: list[int]) -> None:
    first, *pieces = [*cut(data, places), b""]
    sent, rest, _ = asyncio.run(passed(OPEN_HEAD, first, [piece for piece in pieces if piece]))
    assert read(HEAD + sent) == (data, b"")
    assert rest == b""
