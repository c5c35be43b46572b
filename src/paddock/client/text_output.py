"""Output of a process as text: whole characters, whole lines, and up to a pattern. Pure.

Output comes in pieces that end anywhere, in the middle of a character too, and stdout and stderr take turns.
These classes keep the beginning of a character or a line until the rest has arrived, separately for each
stream. Bytes that are not UTF-8 become U+FFFD.
"""

from __future__ import annotations

import codecs
import re
from collections import deque
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from paddock.model.stream import Stream

LINE_LIMIT_BYTES: Final = 1024 * 1024
"""A longer line comes in parts of this length: a process that never ends a line takes no more memory."""

MATCH_LIMIT_BYTES: Final = 1024 * 1024
"""How much output a search for a pattern examines: as much as a server keeps of a process."""


class TextDecoder:
    """Turns pieces of stdout and stderr into text."""

    def __init__(self) -> None:
        self._decoders: dict[Stream, codecs.IncrementalDecoder] = {}

    def feed(self, stream: Stream, data: bytes) -> str:
        """Return the characters that `data` completes."""
        decoder = self._decoders.get(stream)
        if decoder is None:
            decoder = self._decoders[stream] = codecs.getincrementaldecoder("utf-8")("replace")
        return decoder.decode(data)

    def finish(self) -> str:
        """Return the replacements for characters that were never completed."""
        return "".join(decoder.decode(b"", final=True) for decoder in self._decoders.values())


class Line(Struct, frozen=True):
    """A line of one stream as it was written, with its line end if it had one."""

    stream: Stream
    data: bytes

    def __str__(self) -> str:
        """Return the text, without the line end of Unix or of a terminal."""
        return self.data.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", "replace")


class LineBuffer:
    """Splits pieces of stdout and stderr into lines, and keeps them until they are taken."""

    def __init__(self) -> None:
        self._lines: deque[Line] = deque()
        self._begun: dict[Stream, bytes] = {}

    def feed(self, stream: Stream, data: bytes) -> None:
        """Add a piece of output."""
        *lines, rest = (self._begun.pop(stream, b"") + data).split(b"\n")
        self._lines.extend(Line(stream, line + b"\n") for line in lines)
        while len(rest) > LINE_LIMIT_BYTES:
            cut = _character_start(rest, LINE_LIMIT_BYTES)
            self._lines.append(Line(stream, rest[:cut]))
            rest = rest[cut:]
        if rest:
            self._begun[stream] = rest

    def take(self) -> Line | None:
        """Return the oldest line that is complete, or None."""
        return self._lines.popleft() if self._lines else None

    def finish(self) -> None:
        """Treat lines without an end as complete: nothing more will arrive."""
        self._lines.extend(Line(stream, data) for stream, data in self._begun.items())
        self._begun.clear()

    def take_all(self) -> Iterator[Line]:
        """Yield everything that was not taken, including unfinished lines, and leave the buffer empty."""
        self.finish()
        while self._lines:
            yield self._lines.popleft()


class PatternSearch:
    """Looks for a regular expression in output, and counts the bytes after the match."""

    def __init__(self, pattern: str | re.Pattern[str]) -> None:
        self.pattern: Final = re.compile(pattern)
        # Undecodable bytes are lone surrogates here (PEP 383), so that text turns back into the same bytes.
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._seen = ""
        self.size_bytes = 0
        """The number of bytes examined."""

    def feed(self, data: bytes) -> tuple[str, int] | None:
        """Return the text up to the end of the first match and the number of bytes after it, or None."""
        self.size_bytes += len(data)
        self._seen += self._decoder.decode(data)
        match = self.pattern.search(self._seen)
        if match is None:
            return None
        end = len(self._seen[: match.end()].encode("utf-8", "surrogateescape"))
        return _printable(self._seen[: match.end()]), self.size_bytes - end

    @property
    def seen(self) -> str:
        """Return the text examined so far."""
        return _printable(self._seen)


def _printable(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _character_start(data: bytes, position: int) -> int:
    """Return the start of the UTF-8 character at `position`; a character has at most four bytes."""
    for start in range(position, position - 4, -1):
        if data[start] & 0xC0 != 0x80:
            return start
    return position
