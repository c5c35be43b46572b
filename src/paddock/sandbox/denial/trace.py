"""Keeps a bounded record of what a traced command was refused. Pure."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from paddock.model.denial import Denial, Trace
from paddock.sandbox.denial.policy import with_wider_grant

DENIALS_LIMIT: Final = 100
"""Denials noted for one command; with paths of at most 4 KiB, half a megabyte."""


class Notes:
    """Collects denials."""

    def __init__(self) -> None:
        self._denials: dict[Denial, Denial] = {}
        self._more = 0

    def add(self, denial: Denial) -> None:
        """Note one more denial; one that is already noted gets a grant that is enough for both."""
        key = replace(denial, grant=None)
        known = self._denials.get(key)
        if known is not None:
            self._denials[key] = with_wider_grant(known, denial)
        elif len(self._denials) < DENIALS_LIMIT:
            self._denials[key] = denial
        else:
            self._more += 1

    def trace(self) -> Trace:
        """Return what the tracer has noted so far."""
        return Trace(tuple(self._denials.values()), self._more)
