"""Which variables look like secrets by their names, so that no command inherits them unasked. Pure.

The reference protocol leaves out every name that has KEY, SECRET or TOKEN in it, and KEYBOARD with them.
These patterns match whole words, and compounds that people write as one word. They ignore case.
"""

from __future__ import annotations

from functools import cache

from paddock.wildcard import SimpleWildcard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

SECRET_NAMES: Final = (
    "KEY",
    "*_KEY",
    "*_KEY_*",
    "*APIKEY*",
    "*ACCESSKEY*",
    "*PRIVATEKEY*",
    "*SECRET*",
    "*TOKEN",
    "*_TOKEN_*",
    "*PASSWORD*",
    "*PASSWD*",
)

_WORDS: Final = ("key", "secret", "token", "password", "passwd")
"""Each pattern contains one of these words. Few names do, so most need no pattern."""

SECRETS_HELP: Final = (
    "variables whose names look like secrets (KEY, SECRET, TOKEN or PASSWORD as a word) are left out"
)


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables whose names do not look like secrets."""
    return {name: value for name, value in environment.items() if not _is_secret(name)}


def _is_secret(name: str) -> bool:
    # Patterns that ignore case match a long s as an s; so does `casefold`.
    folded = name.casefold()
    if not any(word in folded for word in _WORDS):
        return False
    return any(pattern.matches(name) for pattern in _patterns())


@cache
def _patterns() -> tuple[SimpleWildcard, ...]:
    return tuple(map(SimpleWildcard, SECRET_NAMES))
