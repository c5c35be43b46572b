"""What a traced command was refused, within bounds. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from paddock.model.denial import Denial

DENIALS_LIMIT: Final = 100
"""Noted of one command; with paths of 4 KiB at most, half a megabyte."""


@dataclass(frozen=True, slots=True)
class Trace:
    """What a command was refused, each once and in the order of the first attempt."""

    denials: tuple[Denial, ...] = ()
    more: int = 0
    """Attempts that were refused, too, for which there was no room."""


class Notes:
    """Collects denials."""

    def __init__(self) -> None:
        self._denials: dict[Denial, None] = {}
        self._more = 0

    def add(self, denial: Denial) -> None:
        """Note one more; one that is noted already changes nothing."""
        if denial in self._denials:
            return
        if len(self._denials) < DENIALS_LIMIT:
            self._denials[denial] = None
        else:
            self._more += 1

    def trace(self) -> Trace:
        """What was noted so far."""
        return Trace(tuple(self._denials), self._more)
