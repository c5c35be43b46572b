"""The chain: every line of the log names the hash of the line before. Pure.

A line is one JSON object and its line end. Its hash is SHA-256 over exactly these bytes,
so that `sed -n 17p SEGMENT | sha256sum` gives what the next line names as `prev`. This module
does not know the content of a line; see `event`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

NO_HASH = "0" * 64
"""The `prev` of the first line of a log."""

Hash = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]


class Anchor(Struct, frozen=True):
    """A record by its number and hash: it proves whether anything up to that record has changed."""

    seq: Annotated[int, Meta(ge=0)]
    sha256: Hash

    def __str__(self) -> str:
        return f"{self.seq}:{self.sha256}"


ORIGIN = Anchor(0, NO_HASH)
"""The anchor before the first record."""


class Torn(Struct, frozen=True):
    """Bytes of an unfinished line. They stay where they are."""

    size_bytes: Annotated[int, Meta(ge=1)]
    sha256: Hash


class Link(Struct, frozen=True):
    """The parts of a line that make it part of the chain."""

    seq: Annotated[int, Meta(ge=1)]
    prev: Hash
    segment: int | None = None
    """The number of the segment that the line begins."""
    torn: Torn | None = None
    """The unfinished line before this one."""
    expected: Anchor | None = None
    tip_lost: bool = False


def hash_of(line: bytes) -> str:
    """Return the hash of a line, its line end included."""
    import hashlib

    return hashlib.sha256(line).hexdigest()


def seal(
    previous: Anchor, time_ns: int, body: bytes, *, segment: int | None = None, torn: Torn | None = None
) -> tuple[bytes, Anchor]:
    """Return the line that follows `previous` and carries `body`, a JSON object with at least one member.

    The first line of a segment has the segment's number; `torn` is an unfinished line before this
    one.
    """
    seq = previous.seq + 1
    members = body[1:-1]
    if segment is not None:
        members += b',"segment":%d' % segment
    if torn is not None:
        members += b',"torn":' + msgspec.json.encode(torn)
    moment = time_text(time_ns).encode()
    line = b'{"seq":%d,"time":"%s",%s,"prev":"%s"}\n' % (seq, moment, members, previous.sha256.encode())
    return line, Anchor(seq, hash_of(line))


def link_of(line: bytes) -> Link | None:
    """Return the link of a line, with or without its line end; None if it is not a record."""
    try:
        return msgspec.json.decode(line, type=Link)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def time_text(time_ns: int) -> str:
    """Format a time as records do: UTC, in microseconds."""
    moment = datetime.fromtimestamp(time_ns // 1_000_000_000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{time_ns // 1000 % 1_000_000:06d}Z"


def parse_anchor(text: str) -> Anchor | None:
    """Parse an anchor in its printed form, `SEQ:HASH`; None if the text is not an anchor."""
    seq, _, sha256 = text.strip().partition(":")
    if not (seq.isascii() and seq.isdigit()):
        return None
    try:
        return msgspec.convert({"seq": int(seq), "sha256": sha256.lower()}, Anchor)
    except (msgspec.ValidationError, ValueError):
        return None
