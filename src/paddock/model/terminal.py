"""The size of a terminal window."""

from __future__ import annotations

from msgspec import Struct

MAX_CELLS = 0xFFFF
"""struct winsize holds unsigned shorts (ioctl_tty(2))."""


class TerminalSize(Struct, frozen=True):
    """Rows and columns of a window; both are at least 1."""

    rows: int
    cols: int

    def __post_init__(self) -> None:
        for name, cells in (("rows", self.rows), ("cols", self.cols)):
            if not 1 <= cells <= MAX_CELLS:
                raise ValueError(f"{name} is {cells}; it must be between 1 and {MAX_CELLS}")


DEFAULT_TERMINAL_SIZE = TerminalSize(rows=24, cols=80)
