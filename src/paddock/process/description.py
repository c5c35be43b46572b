"""Describes how a process was started."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from paddock.excerpt import excerpt

KEPT_BYTES: Final = 4096
"""Bytes kept of all arguments, and of the directory, while the process is known: 8 MiB for 1024 processes.
They count as they are written in JSON, where a control character has six: a list of processes repeats them.
Linux takes 2 MiB of arguments by default."""

WORD_CHARS: Final = 16
"""What a word counts in addition to its length, so that there are at most 256 words."""

_ESCAPES: Final = dict.fromkeys(range(32), "\\u0000") | {ord(char): "\\" + char for char in '\b\t\n\f\r"\\'}


class Description(Struct, frozen=True):
    """The program, arguments and directory that a process was started with."""

    process_id: str
    argv: Sequence[str]
    cwd: str
    is_terminal: bool
    has_stdin: bool = False
    is_kept_alive: bool = False
    omitted: int = 0
    """Number of arguments missing from `argv`, whose last word then says so."""

    @property
    def arguments(self) -> int:
        """Return the number of arguments, without the program."""
        return len(self.argv) - 1 + self.omitted

    def shortened(self) -> Description:
        """Return the part to keep while the process is known."""
        kept: list[str] = []
        room = KEPT_BYTES
        for word in self.argv:
            if room <= 0:
                break
            kept.append(_beginning(word, room))
            room -= _written_bytes(kept[-1]) + WORD_CHARS
        omitted = len(self.argv) - len(kept)
        if omitted:
            kept.append(f"… (+{omitted} more)")
            # The note is a word itself.
            omitted -= 1
        return replace(self, argv=tuple(kept), cwd=_beginning(self.cwd, KEPT_BYTES), omitted=omitted)


def _beginning(text: str, room_bytes: int) -> str:
    """Return the text, or as much of its beginning as has room, and how many characters are missing."""
    # None takes less than a byte.
    fitting = text[:room_bytes]
    if _written_bytes(fitting) > room_bytes:
        ends = range(1, len(fitting) + 1)
        fitting = fitting[: bisect_right(ends, room_bytes, key=lambda end: _written_bytes(fitting[:end]))]
    return excerpt(text, len(fitting))


def _written_bytes(text: str) -> int:
    """Return the size of a text in JSON, without its quotes."""
    return len(text.translate(_ESCAPES).encode("utf-8", "surrogatepass"))
