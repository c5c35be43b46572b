"""What a WebSocket must do with frames, good and bad: the catalogue of Autobahn|Testsuite as data.

The numbers are the catalogue's, so that a case can be looked up there; the wording and the code are ours.
Groups 12 and 13 are about compression, which neither of our ends negotiates. Cases of group 9, which
measures, are bounded: the same shapes in a sixteenth of the size or a tenth of the rounds, except for single
messages, which go up to the largest frame that a server takes.

A case is a list of turns: frames that are sent together, whole or in pieces, and what the other end, which
echoes messages, must have answered before the next turn. Then it must close the connection with one of
`codes`, or just drop it if `may_drop`. Frames have no mask here: it depends on who sends them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

CONTINUATION: Final = 0x0
TEXT: Final = 0x1
BINARY: Final = 0x2
CLOSE: Final = 0x8
PING: Final = 0x9
PONG: Final = 0xA

NORMAL: Final = 1000
PROTOCOL_ERROR: Final = 1002
NOT_UTF8: Final = 1007


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame, which may be against the rules."""

    opcode: int
    payload: bytes = b""
    is_final: bool = True
    reserved: int = 0
    """The three reserved bits."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole message (TEXT or BINARY) or a PONG."""

    opcode: int
    payload: bytes


Chop = Callable[[Sequence[bytes]], Sequence[bytes]]
"""Makes the pieces that are sent, each by itself, from whole frames."""


def all_at_once(frames: Sequence[bytes]) -> Sequence[bytes]:
    """Send everything in one piece."""
    return [b"".join(frames)]


def by_frame(frames: Sequence[bytes]) -> Sequence[bytes]:
    """Send frame by frame."""
    return frames


def in_pieces_of(size: int) -> Chop:
    """Send pieces of so many bytes."""

    def chop(frames: Sequence[bytes]) -> Sequence[bytes]:
        data = b"".join(frames)
        return [data[begin : begin + size] for begin in range(0, len(data), size)]

    return chop


by_octet: Final = in_pieces_of(1)

_WAYS: Final[tuple[Chop, ...]] = (all_at_once, by_frame, by_octet)


def cut_before_end(*distances: int) -> Chop:
    """Cut so many bytes before the end, where the length of the head does not matter."""

    def chop(frames: Sequence[bytes]) -> Sequence[bytes]:
        data = b"".join(frames)
        places = [0, *(len(data) - distance for distance in distances), len(data)]
        return [data[begin:end] for begin, end in pairwise(places)]

    return chop


@dataclass(frozen=True, slots=True)
class Turn:
    """What is sent, and what must come back before the next turn."""

    frames: tuple[Frame, ...]
    answers: tuple[Answer, ...] = ()
    chop: Chop = all_at_once


@dataclass(frozen=True, slots=True)
class Case:
    """One conversation and how it ends."""

    number: str
    turns: tuple[Turn, ...]
    codes: frozenset[int] = frozenset((NORMAL,))
    may_drop: bool = False

    @property
    def answers(self) -> tuple[Answer, ...]:
        """All that must come back, in order."""
        return tuple(answer for turn in self.turns for answer in turn.answers)

    def __str__(self) -> str:
        return self.number


# ---------------------------------------------------------------- kinds of cases


def close_frame(code: int, reason: bytes = b"") -> Frame:
    """Make a close frame with any code."""
    return Frame(CLOSE, code.to_bytes(2, "big") + reason)


_BYE: Final = Turn((close_frame(NORMAL),))


def _text(payload: bytes) -> Frame:
    return Frame(TEXT, payload)


def _echo(payload: bytes, opcode: int = TEXT) -> Answer:
    return Answer(opcode, payload)


def _pong(payload: bytes = b"") -> Answer:
    return Answer(PONG, payload)


def _accepted(
    number: str,
    frames: Iterable[Frame],
    answers: Iterable[Answer] = (),
    chop: Chop = all_at_once,
) -> Case:
    """Make a case in which all is well; this end closes afterwards."""
    return Case(number, (Turn(tuple(frames), tuple(answers), chop), _BYE))


def _failed(
    number: str,
    frames: Iterable[Frame],
    answers: Iterable[Answer] = (),
    chop: Chop = all_at_once,
    *,
    code: int = PROTOCOL_ERROR,
) -> Case:
    """Make a case in which the other end must fail the connection; how, RFC 6455 leaves open (7.1.7)."""
    turn = Turn(tuple(frames), tuple(answers), chop)
    return Case(number, (turn,), frozenset((code,)), may_drop=True)


def _closed(
    number: str, frames: Iterable[Frame], answers: Iterable[Answer] = (), codes: Iterable[int] = (NORMAL,)
) -> Case:
    """Make a case whose frames contain the close frame that must be answered."""
    return Case(number, (Turn(tuple(frames), tuple(answers)),), frozenset(codes))


def _fragments(payload: bytes, size: int, opcode: int = TEXT) -> Iterator[Frame]:
    for begin in range(0, len(payload), size):
        yield Frame(
            CONTINUATION if begin else opcode, payload[begin : begin + size], begin + size >= len(payload)
        )


def _pattern(size: int) -> bytes:
    """Make text in which a piece that is missing, or in the wrong place, shows: its period is odd."""
    return (bytes(range(0x20, 0x7F)) * (size // 0x5F + 1))[:size]


# ---------------------------------------------------------------- 1 framing, 2 pings, 3 bits, 4 opcodes

_SIZES: Final = (0, 125, 126, 127, 128, 65535, 65536)
"""Both sides of each way to write a length."""

_NO_TEXT: Final = bytes.fromhex("00fffefdfcfb00ff")
_HELLO: Final = b"Hello, World!"


def _framing() -> Iterator[Case]:
    for group, opcode in (("1.1", TEXT), ("1.2", BINARY)):
        # Bytes that are no UTF-8 are fit for a binary message.
        fill = b"*" if opcode == TEXT else b"\xfe"
        for index, size in enumerate(_SIZES, 1):
            payload = fill * size
            yield _accepted(f"{group}.{index}", [Frame(opcode, payload)], [_echo(payload, opcode)])
        payload = fill * 65536
        chopped = in_pieces_of(997)
        yield _accepted(f"{group}.8", [Frame(opcode, payload)], [_echo(payload, opcode)], chopped)


def _pings() -> Iterator[Case]:
    longest = b"\xfe" * 125
    numbered = [b"ping %d" % number for number in range(10)]
    for number, payload in (("2.1", b""), ("2.2", b"are you there?"), ("2.3", _NO_TEXT)):
        yield _accepted(number, [Frame(PING, payload)], [_pong(payload)])
    yield _accepted("2.4", [Frame(PING, longest)], [_pong(longest)])
    yield _failed("2.5", [Frame(PING, longest + b"\xfe")])
    yield _accepted("2.6", [Frame(PING, longest)], [_pong(longest)], by_octet)
    yield _accepted("2.7", [Frame(PONG)])
    yield _accepted("2.8", [Frame(PONG, b"nobody asked")])
    yield _accepted("2.9", [Frame(PONG, b"nobody asked"), Frame(PING, b"I do")], [_pong(b"I do")])
    for number, chop in (("2.10", all_at_once), ("2.11", by_octet)):
        pings = [Frame(PING, payload) for payload in numbered]
        yield _accepted(number, pings, [_pong(payload) for payload in numbered], chop)


def _reserved_bits() -> Iterator[Case]:
    yield _failed("3.1", [Frame(TEXT, _HELLO, reserved=1)])
    for reserved, chop in enumerate(_WAYS, 2):
        frames = [_text(_HELLO), Frame(TEXT, _HELLO, reserved=reserved), Frame(PING)]
        yield _failed(f"3.{reserved}", frames, [_echo(_HELLO)], chop)
    yield _failed("3.5", [Frame(BINARY, _NO_TEXT, reserved=5)])
    yield _failed("3.6", [Frame(PING, _HELLO, reserved=6)])
    yield _failed("3.7", [Frame(CLOSE, reserved=7)])


def _opcodes() -> Iterator[Case]:
    for group, first in (("4.1", 3), ("4.2", 11)):
        yield _failed(f"{group}.1", [Frame(first)])
        yield _failed(f"{group}.2", [Frame(first + 1, b"reserved")])
        for index, payload, chop in ((3, b"", all_at_once), (4, _HELLO, all_at_once), (5, _HELLO, by_octet)):
            frames = [_text(_HELLO), Frame(first + index - 1, payload), Frame(PING)]
            yield _failed(f"{group}.{index}", frames, [_echo(_HELLO)], chop)


# ---------------------------------------------------------------- 5 fragments


def _fragmentation() -> Iterator[Case]:
    one, two = Frame(TEXT, b"fragment 1", is_final=False), Frame(CONTINUATION, b"fragment 2")
    whole = [_echo(b"fragment 1fragment 2")]
    for number, opcode in (("5.1", PING), ("5.2", PONG)):
        yield _failed(number, [Frame(opcode, b"fragment 1", is_final=False), two])
    for index, chop in enumerate(_WAYS, 3):
        yield _accepted(f"5.{index}", [one, two], whole, chop)
    for index, chop in enumerate(_WAYS, 6):
        frames = [one, Frame(PING, b"between"), two]
        yield _accepted(f"5.{index}", frames, [_pong(b"between"), *whole], chop)
    for first, is_final in ((9, True), (12, False)):
        frames = [Frame(CONTINUATION, b"of nothing", is_final), _text(_HELLO)]
        for index, chop in enumerate(_WAYS, first):
            yield _failed(f"5.{index}", frames, (), chop)
    yield _failed(
        "5.15", [one, two, Frame(CONTINUATION, b"of nothing", is_final=False), _text(_HELLO)], whole
    )
    for number, is_final in (("5.16", False), ("5.17", True)):
        yield _failed(number, [Frame(CONTINUATION, b"of nothing", is_final), one, two] * 2)
    yield _failed("5.18", [one, _text(b"fragment 2")])
    yield Case("5.19", _interrupted(all_at_once))
    yield Case("5.20", _interrupted(by_frame))


def _interrupted(chop: Chop) -> tuple[Turn, ...]:
    """Make five fragments with pings between them; the first ping must be answered before the rest comes."""
    parts = [b"fragment %d" % number for number in range(1, 6)]
    first, *middle, last = (
        Frame(CONTINUATION if index else TEXT, part, index == 4) for index, part in enumerate(parts)
    )
    return (
        Turn((first, middle[0], Frame(PING, b"1")), (_pong(b"1"),), chop),
        Turn((*middle[1:], Frame(PING, b"2"), last), (_pong(b"2"), _echo(b"".join(parts))), chop),
        _BYE,
    )


# ---------------------------------------------------------------- 6 UTF-8

_GREEK: Final = bytes.fromhex("cebae1bdb9cf83cebcceb5")
"""Five letters of two and three bytes."""

_BEYOND_UNICODE: Final = bytes.fromhex("f4908080")
_SURROGATE: Final = bytes.fromhex("eda080")
_EDITED: Final = b"edited"

_INCOMPLETE: Final = "c0 e080 f08080 f8808080 fc80808080 df efbf f7bfbf fbbfbfbf fdbfbfbfbf"

_NON_CHARACTERS: Final = tuple(
    chr(plane << 16 | low).encode() for plane in range(17) for low in (0xFFFE, 0xFFFF)
)

_SEQUENCES: Final[tuple[tuple[str | bytes, ...], ...]] = (
    # 6.5: one to four bytes for a character, and all of a word.
    (b"hello$world", "hello¢world", "hello€world", "hello\U00024b62world", _GREEK),
    # 6.6: every beginning of it.
    tuple(_GREEK[:length] for length in range(1, len(_GREEK) + 1)),
    # 6.7 to 6.11: the first and the last of each length, those that are too long, and borders between.
    ("00", "c280", "e0a080", "f0908080"),
    ("f888808080", "fc8480808080"),
    ("7f", "dfbf", "efbfbf", "f48fbfbf"),
    ("f7bfbfbf", "fbbfbfbfbf", "fdbfbfbfbfbf"),
    ("ed9fbf", "ee8080", "efbfbd", "f48fbfbf", "f4908080"),
    # 6.12: continuation bytes that continue nothing.
    (*("80", "bf"), *("80bf80bf80bf"[: 2 * length] for length in range(2, 7)), bytes(range(0x80, 0xBF))),
    # 6.13: beginnings alone, each followed by a space.
    tuple(
        b"".join(bytes((byte, 0x20)) for byte in range(*span))
        for span in ((0xC0, 0xDF), (0xE0, 0xEF), (0xF0, 0xF7), (0xF8, 0xFB), (0xFC, 0xFD))
    ),
    # 6.14, 6.15: the last byte is missing; all of these together.
    tuple(_INCOMPLETE.split()),
    (_INCOMPLETE.replace(" ", ""),),
    # 6.16: bytes that occur nowhere.
    ("fe", "ff", "fefeffff"),
    # 6.17 to 6.19: a slash, the greatest and NUL in more bytes than they need.
    ("c0af", "e080af", "f08080af", "f8808080af", "fc80808080af"),
    ("c1bf", "e09fbf", "f08fbfbf", "f887bfbfbf", "fc83bfbfbfbf"),
    ("c080", "e08080", "f0808080", "f880808080", "fc8080808080"),
    # 6.20, 6.21: halves of UTF-16, alone and in pairs.
    ("eda080", "edadbf", "edae80", "edafbf", "edb080", "edbe80", "edbfbf"),
    tuple(high + low for high in ("eda080", "edadbf", "edae80", "edafbf") for low in ("edb080", "edbfbf")),
    # 6.22, 6.23: code points that are no characters, and specials; both may be sent.
    _NON_CHARACTERS,
    ("efbfb9", "efbfba", "efbfbb", "efbfbc", "efbfbd", "efbfbe", "efbfbf"),
)


def _payload(sequence: str | bytes) -> bytes:
    if isinstance(sequence, bytes):
        return sequence
    return sequence.encode() if sequence.startswith("hello") else bytes.fromhex(sequence)


def _is_utf8(payload: bytes) -> bool:
    try:
        payload.decode()
    except UnicodeDecodeError:
        return False
    return True


def _utf8() -> Iterator[Case]:
    yield _accepted("6.1.1", [_text(b"")], [_echo(b"")])
    for number, middle in (("6.1.2", b""), ("6.1.3", b"middle")):
        frames = [Frame(TEXT, b"", False), Frame(CONTINUATION, middle, False), Frame(CONTINUATION)]
        yield _accepted(number, frames, [_echo(middle)])
    mixed = "Hello-µ@ßöäüàá-UTF-8!!".encode()
    yield _accepted("6.2.1", [_text(mixed)], [_echo(mixed)])
    half = len("Hello-µ@ßöä".encode())
    frames = [Frame(TEXT, mixed[:half], False), Frame(CONTINUATION, mixed[half:])]
    yield _accepted("6.2.2", frames, [_echo(mixed)])
    for number, payload in (("6.2.3", mixed), ("6.2.4", _GREEK)):
        yield _accepted(number, _fragments(payload, 1), [_echo(payload)])
    bad = _GREEK + _SURROGATE + _EDITED
    yield _failed("6.3.1", [_text(bad)], code=NOT_UTF8)
    yield _failed("6.3.2", _fragments(bad, 1), code=NOT_UTF8)
    # To fail as early as possible is not required; to fail at the end of the message is.
    late = _GREEK + _BEYOND_UNICODE + _EDITED
    for index, cuts in enumerate(((11, 15), (12, 13)), 1):
        parts = (late[: cuts[0]], late[cuts[0] : cuts[1]], late[cuts[1] :])
        frames = [
            Frame(opcode, part, is_final)
            for opcode, part, is_final in zip((TEXT, 0, 0), parts, (False, False, True), strict=True)
        ]
        yield _failed(f"6.4.{index}", frames, (), by_frame, code=NOT_UTF8)
        chopped = cut_before_end(*(len(late) - cut for cut in cuts))
        yield _failed(f"6.4.{index + 2}", [_text(late)], (), chopped, code=NOT_UTF8)
    for group, sequences in enumerate(_SEQUENCES, 5):
        for index, payload in enumerate(map(_payload, sequences), 1):
            number = f"6.{group}.{index}"
            if _is_utf8(payload):
                yield _accepted(number, [_text(payload)], [_echo(payload)])
            else:
                yield _failed(number, [_text(payload)], code=NOT_UTF8)


# ---------------------------------------------------------------- 7 close

_VALID_CODES: Final = (1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999)
_INVALID_CODES: Final = (0, 999, 1004, 1005, 1006, 1016, 1100, 2000, 2999)
_UNDEFINED_CODES: Final = (5000, 65535)


def _closing() -> Iterator[Case]:
    bye = close_frame(NORMAL)
    yield _closed("7.1.1", [_text(_HELLO), bye], [_echo(_HELLO)])
    yield _closed("7.1.2", [bye, bye])
    yield _closed("7.1.3", [bye, Frame(PING)])
    yield _closed("7.1.4", [bye, _text(_HELLO)])
    yield _closed("7.1.5", [Frame(TEXT, b"fragment 1", False), bye, Frame(CONTINUATION, b"fragment 2")])
    large = _pattern(256 * KIB)
    yield _closed("7.1.6", [_text(large), _text(_HELLO), bye, Frame(PING)], [_echo(large), _echo(_HELLO)])
    yield _closed("7.3.1", [Frame(CLOSE)])
    yield _failed("7.3.2", [Frame(CLOSE, b"a")])
    yield _closed("7.3.3", [bye])
    yield _closed("7.3.4", [close_frame(NORMAL, _HELLO)])
    yield _closed("7.3.5", [close_frame(NORMAL, b"*" * 123)])
    yield _failed("7.3.6", [close_frame(NORMAL, b"*" * 124)])
    reason = close_frame(NORMAL, _GREEK + _SURROGATE + _EDITED)
    yield Case("7.5.1", (Turn((reason,)),), frozenset((PROTOCOL_ERROR, NOT_UTF8)), may_drop=True)
    for index, code in enumerate(_VALID_CODES, 1):
        yield _closed(f"7.7.{index}", [close_frame(code)], codes=(NORMAL, code))
    for index, code in enumerate(_INVALID_CODES, 1):
        yield _failed(f"7.9.{index}", [close_frame(code)])
    for index, code in enumerate(_UNDEFINED_CODES, 1):
        codes = frozenset((NORMAL, code, PROTOCOL_ERROR))
        yield Case(f"7.13.{index}", (Turn((close_frame(code),)),), codes, may_drop=True)


# ---------------------------------------------------------------- 9 limits, 10 fragments of a sender's own

KIB: Final = 1024
_MESSAGE_SIZES: Final = (64 * KIB, 256 * KIB, 1024 * KIB, 4096 * KIB, 8192 * KIB, 16384 * KIB)
_FRAGMENTED_BYTES: Final = 4096 * KIB // 16
_FRAGMENT_SIZES: Final = (64, 256, KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, 1024 * KIB, 4096 * KIB)
_CHOPPED_BYTES: Final = 1024 * KIB // 16
_CHOP_SIZES: Final = (64, 128, 256, 512, KIB, 2 * KIB)
_ROUND_SIZES: Final = (0, 16, 64, 256, KIB, 4 * KIB)
_ROUNDS: Final = 1000 // 10


def _limits() -> Iterator[Case]:
    for shift, opcode in enumerate((TEXT, BINARY)):
        for index, size in enumerate(_MESSAGE_SIZES, 1):
            payload = _pattern(size)
            yield _accepted(f"9.{1 + shift}.{index}", [Frame(opcode, payload)], [_echo(payload, opcode)])
        payload = _pattern(_FRAGMENTED_BYTES)
        for index, size in enumerate(_FRAGMENT_SIZES, 1):
            frames = _fragments(payload, size, opcode)
            yield _accepted(f"9.{3 + shift}.{index}", frames, [_echo(payload, opcode)])
        payload = _pattern(_CHOPPED_BYTES)
        for index, size in enumerate(_CHOP_SIZES, 1):
            chop = in_pieces_of(size)
            yield _accepted(
                f"9.{5 + shift}.{index}", [Frame(opcode, payload)], [_echo(payload, opcode)], chop
            )
        for index, size in enumerate(_ROUND_SIZES, 1):
            payload = _pattern(size)
            turn = Turn((Frame(opcode, payload),), (_echo(payload, opcode),))
            yield Case(f"9.{7 + shift}.{index}", (*[turn] * _ROUNDS, _BYE))


def _automatic_fragments() -> Iterator[Case]:
    payload = _pattern(64 * KIB)
    yield _accepted("10.1.1", _fragments(payload, 1300), [_echo(payload)])


CASES: Final = tuple(
    case
    for group in (
        _framing,
        _pings,
        _reserved_bits,
        _opcodes,
        _fragmentation,
        _utf8,
        _closing,
        _limits,
        _automatic_fragments,
    )
    for case in group()
)
