"""Decides which paths a pattern like those of `pathlib` matches. Pure.

`*`, `?` and `[...]` stand for parts of one name, and `**` for any number of directories. Names that begin
with a dot are not special.
"""

from __future__ import annotations

import re
from fnmatch import translate
from functools import lru_cache


class GlobPattern:
    """A relative pattern. Raises ValueError for any other."""

    def __init__(self, pattern: str) -> None:
        if not pattern or pattern.startswith("/"):
            raise ValueError(
                f"pattern {pattern!r} is not relative to the directory; write it without the slash"
            )
        self._parts = [part for part in pattern.split("/") if part not in ("", ".")]
        if ".." in self._parts or not self._parts:
            raise ValueError(f"pattern {pattern!r} leads out of the directory, or nowhere")

    @property
    def depth(self) -> int | None:
        """Return how many directories can lie between the first one and a match; None if unlimited."""
        return None if "**" in self._parts else len(self._parts) - 1

    def fits(self, names: tuple[str, ...]) -> bool:
        """Return whether a relative path, given by its names, matches."""
        # The parts of the pattern that may come next, after each name.
        states = self._reach({0})
        for name in names:
            states = self._reach(self._step(states, name))
        return len(self._parts) in states

    def _step(self, states: set[int], name: str) -> set[int]:
        following = set()
        for state in states:
            if state == len(self._parts):
                continue
            if self._parts[state] == "**":
                following.add(state)
            elif _expression(self._parts[state]).match(name):
                following.add(state + 1)
        return following

    def _reach(self, states: set[int]) -> set[int]:
        """Add the parts that follow where `**` stands for no directory at all."""
        for state in sorted(states):
            while state < len(self._parts) and self._parts[state] == "**":
                state += 1
                states.add(state)
        return states


@lru_cache(256)
def _expression(part: str) -> re.Pattern[str]:
    return re.compile(translate(part))
