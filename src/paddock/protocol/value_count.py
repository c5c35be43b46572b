"""Counts the values of a JSON document before anything makes objects of them.

A document of a few megabytes can hold millions of values, each of which costs more memory than its bytes,
and time in which the server serves nobody else. A compiled function counts, if there is one, and stops at
the first value over the limit.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_TOKEN = rb"""(?sx)
      "(?:[^"\\]++|\\.)*+"?          # a string
    | [\[{][\ \t\r\n]*+[\]}]?       # the beginning of a container, or all of an empty one
    | ,
    """

CountStrings = Callable[[bytes, int], int | None]
"""Returns the number of strings in a document, keys included; None if it has more values than the limit.

In bytes that are not JSON it counts at least what a parser could have made up to the first fault.
"""


def count_slowly(message: bytes, max_values: int, /) -> int | None:
    """Count where the compiled function is missing."""
    values, strings = 1, 0
    for token in re.finditer(_TOKEN, message):
        text = token[0][:1]
        if text == b'"':
            strings += 1
        elif text == b"," or token[0][-1:] not in b"]}":
            values += 1
        if values > max_values or strings > 2 * max_values:
            # Each string is a value or the key of one.
            return None
    return strings if values <= max_values else None


count_strings: CountStrings
try:
    from paddock.protocol import _scanner
except ImportError:
    count_strings = count_slowly
else:
    count_strings = _scanner.count_strings
