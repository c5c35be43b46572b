"""Strings of this host, read as UTF-8 whatever the locale.

Python decodes what it gets from the operating system, such as `os.environ`, `sys.argv` and
paths, by the locale of the process. The wire and the children of a server know bytes and
UTF-8 only: in another locale the same bytes must stay the same bytes. Bytes that are not
UTF-8 survive as lone surrogates (PEP 383).
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def utf8_text(text: str) -> str:
    """Return a string that Python has decoded by the locale, decoded as UTF-8 instead."""
    if sys.getfilesystemencoding() == "utf-8":
        return text
    return os.fsencode(text).decode("utf-8", "surrogateescape")


def local_text(text: str) -> str:
    """Return a string of UTF-8 text as Python decodes it here: the inverse of `utf8_text`."""
    if sys.getfilesystemencoding() == "utf-8":
        return text
    return os.fsdecode(text.encode("utf-8", "surrogateescape"))


def utf8_environment() -> Mapping[str, str]:
    """Return the environment of this process, decoded as UTF-8."""
    if sys.getfilesystemencoding() == "utf-8":
        return os.environ
    return {
        name.decode("utf-8", "surrogateescape"): value.decode("utf-8", "surrogateescape")
        for name, value in os.environb.items()
    }
