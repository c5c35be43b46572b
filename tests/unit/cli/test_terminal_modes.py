"""What puts a terminal back after a program that did not."""

from __future__ import annotations

import pytest

from paddock.cli.terminal_modes import TerminalModes

CASES = {
    "nothing": (b"plain \x1b[31mred\x1b[0m", b""),
    "vim": (
        b"\x1b[?1049h\x1b[?1h\x1b=\x1b[?25l\x1b[?2004h",
        b"\x1b[?2004l\x1b[?25h\x1b[?1l\x1b[?1049l\x1b>\x1b[0m",
    ),
    "vim that has ended": (
        b"\x1b[?1049h\x1b[?1h\x1b=\x1b[?25l\x1b[?25h\x1b[?1l\x1b>\x1b[?1049l",
        b"",
    ),
    "mouse": (b"\x1b[?1000;1006h", b"\x1b[?1006l\x1b[?1000l\x1b[0m"),
    "hidden cursor": (b"\x1b[?25l", b"\x1b[?25h\x1b[0m"),
    "reset": (b"\x1b[?1049h\x1b[?25l\x1bc", b""),
    "unknown modes": (b"\x1b[?9999h\x1b[?12l", b""),
}


@pytest.mark.parametrize(("output", "restoring"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_what_is_left_on_is_switched_off(output: bytes, restoring: bytes, size: int) -> None:
    modes = TerminalModes()
    for start in range(0, len(output), size):
        modes.feed(output[start : start + size])
    assert modes.restoring() == restoring
