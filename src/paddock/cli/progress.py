"""Shows how far a long transfer is: one line on a terminal, redrawn in place; nothing anywhere else."""

from __future__ import annotations

import shutil
import time
import unicodedata
from collections.abc import Callable
from typing import TextIO

from paddock.cli.rendering import size_text

REDRAW_S = 0.1
"""Faster than this nobody reads, and a slow terminal would hold the transfer up."""

BAR_CELLS = 24

_CLEAR_LINE = "\r\x1b[K"


def progress_line(name: str, done: int, total: int | None, elapsed_s: float) -> str:
    """Return what the line says. Pure."""
    rate = f"{size_text(int(done / elapsed_s))}/s" if elapsed_s > 0 else ""
    if not total:
        return f"{name}  {size_text(done)}  {rate}".rstrip()
    share = min(done / total, 1.0)
    filled = int(share * BAR_CELLS)
    bar = "#" * filled + "." * (BAR_CELLS - filled)
    return f"{name}  [{bar}] {share:4.0%}  {size_text(done)} of {size_text(total)}  {rate}".rstrip()


def fitted(line: str, columns: int) -> str:
    """Cut a line where it would wrap; the numbers at its end stay, and the name gives way. Pure.

    A character of East Asia takes two columns, and one that is put on another none.
    """
    if _width(line) <= columns:
        return line
    name, gap, rest = line.partition("  ")
    for end in range(len(name), -1, -1):
        shorter = f"{name[:end]}…{gap}{rest}"
        if _width(shorter) <= columns:
            return shorter
    while line and _width(line) > columns:
        line = line[:-1]
    return line


def _width(text: str) -> int:
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


class ProgressBar:
    """Shows a transfer on a terminal; on anything else it stays silent. Use it with `with`."""

    def __init__(
        self,
        stream: TextIO,
        name: str,
        *,
        is_wanted: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream if is_wanted and stream.isatty() else None
        self._name = name
        self._clock = clock
        self._began_s = self._drawn_s = clock()

    def update(self, done: int, total: int | None) -> None:
        """Tell how many bytes are done, and of how many."""
        if self._stream is None:
            return
        now = self._clock()
        if now - self._drawn_s >= REDRAW_S:
            self._drawn_s = now
            line = progress_line(self._name, done, total, now - self._began_s)
            self._stream.write(_CLEAR_LINE + fitted(line, shutil.get_terminal_size().columns - 1))
            self._stream.flush()

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *_: object) -> None:
        # Whatever comes next, an error too, begins on a clean line.
        if self._stream is not None:
            self._stream.write(_CLEAR_LINE)
            self._stream.flush()
