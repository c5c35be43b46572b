"""Reads the first line of a script as Linux does (fs/binfmt_script.c). Pure."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

HEAD_BYTES: Final = 256
"""Bytes of a file that the kernel reads (BINPRM_BUF_SIZE, since 5.1)."""

MAX_INTERPRETERS: Final = 5
"""How many scripts the kernel follows, each the interpreter of the one before, before it says ELOOP."""

_BLANKS: Final = b" \t"
_TERMINATOR: Final = re.compile(rb"[ \t\0]")


class Interpreter(Struct, frozen=True):
    """The program that a script is handed to."""

    path: bytes
    """As the line has it; a relative one is looked up from the caller's working directory."""
    argument: bytes | None = None
    """The rest of the line, which is one argument."""


def interpreter_of(head: bytes) -> Interpreter | None:
    """Return the interpreter that a file names, from its first bytes; None if it is no script.

    Also None for a first line that the kernel itself refuses (ENOEXEC).
    """
    if not head.startswith(b"#!"):
        return None
    # The kernel pads a shorter file with NUL bytes.
    head = head[:HEAD_BYTES].ljust(HEAD_BYTES, b"\0")
    line, newline, _ = head[2:].partition(b"\n")
    if not newline:
        if not _TERMINATOR.search(line.lstrip(_BLANKS)):
            # The path goes on beyond what the kernel reads.
            return None
        line = line[:-1]
    words = line.split(b"\0", 1)[0].strip(_BLANKS)
    if not words:
        return None
    path = _TERMINATOR.split(words, maxsplit=1)[0]
    return Interpreter(path, words[len(path) :].lstrip(_BLANKS) or None)
