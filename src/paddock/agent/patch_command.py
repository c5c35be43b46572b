"""A patch that a model hands to a shell instead of the tool: `apply_patch <<'EOF'`. Pure.

Models were taught that there is such a program. What is nothing but that is done by the tool; any other line
is left to the shell, which says that there is no such program.
"""

from __future__ import annotations

import re
import shlex
from typing import Final

from msgspec import Struct

from paddock.agent.patch import BEGIN

NAMES: Final = ("apply_patch", "applypatch")

_HERE_DOCUMENT: Final = re.compile(
    r"\s*(?:cd\s+(?P<directory>'[^']*'|\"[^\"$`\\]*\"|[\w./@%+,:=-]+)\s*&&\s*)?"
    rf"(?:{'|'.join(NAMES)})\s*<<-?\s*(?P<quote>['\"]?)(?P<word>\w+)(?P=quote)[ \t]*\n"
    r"(?P<patch>.*?)\n(?P=word)\s*",
    re.DOTALL,
)
_QUOTE: Final = "'\"'\"'"
"""A single quote within single quotes, as `shlex.quote` writes it."""

_ARGUMENT: Final = re.compile(
    # Within double quotes a shell would read more than the patch; in single quotes it is what is written.
    rf"\s*(?:{'|'.join(NAMES)})\s+(?P<quoted>'[^']*'(?:\"'\"'[^']*')*)\s*"
)


class PatchCommand(Struct, frozen=True):
    """A patch, and the directory that it is to be applied in; empty for that of the call."""

    patch: str
    directory: str = ""


def patch_command(line: str) -> PatchCommand | None:
    """Return the patch if the line applies one and does nothing else."""
    if not any(name in line for name in NAMES) or BEGIN not in line:
        return None
    if found := _HERE_DOCUMENT.fullmatch(line):
        directory = found["directory"] or ""
        return PatchCommand(found["patch"], shlex.split(directory)[0] if directory else "")
    if found := _ARGUMENT.fullmatch(line):
        return PatchCommand(found["quoted"][1:-1].replace(_QUOTE, "'"))
    return None
