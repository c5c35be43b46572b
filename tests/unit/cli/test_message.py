"""What people are told beside the output."""

from __future__ import annotations

from paddock.cli.message import line


def test_a_message_keeps_its_lines_and_nothing_else_that_a_terminal_obeys() -> None:
    told = line("a server says \x1b]52;c;eA==\x07\r\x9b2J\u202e\nand more", "cp")
    assert told == "paddock cp: a server says \\u001b]52;c;eA==\\u0007\\r\\u009b2J\\u202e\nand more\n"
