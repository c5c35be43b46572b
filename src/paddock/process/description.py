"""Describes how a process was started."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from paddock.excerpt import excerpt

KEPT_CHARS: Final = 4096
"""Characters kept of all arguments and the directory while the process is known: 8 MiB for 1024 processes.
Linux takes 2 MiB of arguments by default."""

WORD_CHARS: Final = 16
"""What a word counts in addition to its length, so that there are at most 256 words."""


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
        room = KEPT_CHARS
        for word in self.argv:
            if room <= 0:
                break
            kept.append(excerpt(word, room))
            room -= len(word) + WORD_CHARS
        omitted = len(self.argv) - len(kept)
        if omitted:
            kept.append(f"… (+{omitted} more)")
            # The note is a word itself.
            omitted -= 1
        return replace(self, argv=tuple(kept), cwd=excerpt(self.cwd, KEPT_CHARS), omitted=omitted)
