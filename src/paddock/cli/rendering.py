"""Text for people: tables, sizes, ages, a little colour. Pure, but for looking at the environment.

Names and arguments come from clients and may hold anything, escape sequences too:
whatever is shown passes `journal.printable` first.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TextIO

GAP = "  "


class Colour(StrEnum):
    """SGR parameters (ECMA-48)."""

    PLAIN = "0"
    RED = "31"
    GREEN = "32"
    YELLOW = "33"
    DIM = "2"


class Palette:
    """Colours text, or leaves it as it is."""

    def __init__(self, is_coloured: bool) -> None:
        self._is_coloured = is_coloured

    @classmethod
    def of(cls, stream: TextIO, environment: Mapping[str, str] = os.environ) -> Palette:
        """Use colour for a terminal, unless NO_COLOR is set to anything, or the terminal has none."""
        is_wanted = not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"
        return cls(is_wanted and stream.isatty())

    def paint(self, text: str, colour: Colour) -> str:
        """Return the text in a colour."""
        is_plain = not self._is_coloured or colour is Colour.PLAIN
        return text if is_plain else f"\x1b[{colour}m{text}\x1b[0m"


def size_text(count_bytes: int) -> str:
    """Say about how many bytes: `812 B`, `1.2 MB`."""
    if count_bytes < 1000:
        return f"{count_bytes} B"
    value = float(count_bytes)
    for unit in ("kB", "MB", "GB"):
        value /= 1000
        if value < 999.5:
            return f"{value:.1f} {unit}" if value < 99.95 else f"{value:.0f} {unit}"
    return f"{value / 1000:.1f} TB"


def age_text(age_s: float) -> str:
    """Say about how long: `42s`, `7m`, `3h`, `12d`."""
    age = max(0, int(age_s))
    for limit, length, unit in ((120, 1, "s"), (7200, 60, "m"), (172_800, 3600, "h")):
        if age < limit:
            return f"{age // length}{unit}"
    return f"{age // 86_400}d"


def local_time(time_ms: int) -> str:
    """Show a time in milliseconds since 1970 in the local time zone; `?` for one of no year that has a name.

    File systems keep times that are too far from now, and a server may tell of any.
    """
    from datetime import UTC, datetime

    try:
        return f"{datetime.fromtimestamp(time_ms / 1000, UTC).astimezone():%Y-%m-%d %H:%M}"
    except (ValueError, OverflowError, OSError):
        return "?"


def without_columns(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    dispensable: Sequence[str],
    room: int,
    width: int | None,
) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Leave out columns, in the order in which they are `dispensable`, until the last one has its room.

    That is `room` characters, or as many as its longest cell has.
    """
    if width is None:
        return header, rows
    shown = list(range(len(header)))
    room = min(room, max(len(line[-1]) for line in (header, *rows)))
    for name in dispensable:
        taken = sum(max(len(line[column]) for line in (header, *rows)) + len(GAP) for column in shown[:-1])
        if taken + room <= width:
            break
        shown.remove(header.index(name))
    return [header[column] for column in shown], [[row[column] for column in shown] for row in rows]


def table(header: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None) -> list[str]:
    """Return lines with aligned columns, cut at a width, the header first. The last column is not padded."""
    lines = [header, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header) - 1)]
    aligned = [
        GAP.join([*(cell.ljust(wanted) for cell, wanted in zip(line, widths, strict=False)), line[-1]])
        for line in lines
    ]
    if width is not None:
        aligned = [line if len(line) <= width else f"{line[: width - 1]}…" for line in aligned]
    return [line.rstrip() for line in aligned]
