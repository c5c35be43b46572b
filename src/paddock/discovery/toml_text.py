"""Reads TOML that somebody else may have written. Pure.

The library takes time by the square of the number of parts of a key (`a.a.a = 1`), and looks at all parts of
a table's name for each line below it: a mebibyte can take hours. So a key, or whatever else is in a line,
may have few dots. Strings and comments may have any number of them.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any, Final

DOTS_LIMIT: Final = 64
"""Dots in one line outside of strings and comments. Keys that people write have five parts at most."""

_OPAQUE: Final = re.compile(
    r"'{3}.*?(?:'{3,5}|\Z)|'[^'\n]*'?"
    r'|"{3}[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*(?:"{3,5}|\Z)|"[^"\\\n]*(?:\\.[^"\\\n]*)*"?'
    r"|#[^\n]*",
    re.DOTALL,
)
"""Strings and comments, as the library reads them up to its first error. It ends what is not closed with the
line or the text, so that no part of the text is looked at twice."""


def parse_toml(text: str) -> dict[str, Any]:
    """Return the table. Raises ValueError, also for keys that would take long to read, and RecursionError."""
    # Match by match, so that other threads get their turn.
    plain, end = "", 0
    for opaque in _OPAQUE.finditer(text):
        plain += text[end : opaque.start()]
        end = opaque.end()
    plain += text[end:]
    if any(line.count(".") > DOTS_LIMIT for line in plain.split("\n")):
        raise ValueError(f"a line has more than {DOTS_LIMIT} dots outside of strings")
    return tomllib.loads(text)
