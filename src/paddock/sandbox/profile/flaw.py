"""Says what is wrong with a profile in TOML: the key, the way out and the table that has it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from paddock.errors import InvalidProfile
from paddock.toml_flaw import Flaw, flaw_of, instead

PERMISSIONS: Final = "permissions"


def invalid_file(message: str, origin: str, known: Sequence[str]) -> InvalidProfile:
    """Return the error for a file whose outermost keys msgspec has refused with this message."""
    flaw = flaw_of(message)
    key = (flaw.key.partition("[")[0], flaw.unknown_key or "")
    return InvalidProfile(origin, _sentence(flaw, known, ()), tuple(part for part in key if part))


def invalid_table(
    message: str, name: str, known: Mapping[str, Sequence[str]], words: Mapping[str, Sequence[str]]
) -> InvalidProfile:
    """Return the error for the profile `name`, which msgspec has refused with this message.

    `known` has the keys of each table in a profile, and `words` the words that a key takes.
    """
    flaw = flaw_of(message)
    path = (*flaw.key.split("."), flaw.unknown_key or "")
    problem = _sentence(flaw, known.get(flaw.key, ()), words.get(flaw.key, ()))
    return InvalidProfile(name, problem, tuple(part for part in path if part))


def path_in_file(name: str, path: Sequence[str], tables: Mapping[str, dict[str, Any]]) -> tuple[str, ...]:
    """Return where a key of the profile `name` is: in its own table, or in that of one that it extends."""
    owner = next((owner for owner in _line(name, tables) if _has(tables[owner], path)), name)
    return (PERMISSIONS, owner, *path)


def _sentence(flaw: Flaw, known: Sequence[str], words: Sequence[str]) -> str:
    text = flaw.text
    if flaw.unknown_key is not None:
        text = f"there is no key {flaw.unknown_key!r}"
        text += f"; {instead(flaw.unknown_key, known)}" if known else ""
    elif flaw.unknown_word is not None and words:
        text = f"there is no word {flaw.unknown_word!r}; {instead(flaw.unknown_word, words)}"
    return f"{flaw.key}: {text}" if flaw.key else text


def _line(name: str, tables: Mapping[str, dict[str, Any]]) -> Iterator[str]:
    while name in tables:
        yield name
        name = tables[name].get("extends", "")


def _has(table: Any, path: Sequence[str]) -> bool:
    for part in path:
        if not isinstance(table, dict) or part not in table:
            return False
        table = table[part]
    return True
