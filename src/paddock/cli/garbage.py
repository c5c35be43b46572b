"""Chooses when the interpreter of a command line looks for garbage.

Importing makes many objects and hardly any garbage. With the interpreter's own threshold, a sixth of the time
until a command runs would be spent looking.
"""

from __future__ import annotations

import gc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

STARTING_THRESHOLD: Final = 100_000
"""New objects before a look, for verbs that end soon: they take some MiB, and the longest of them run on."""

_USUAL_THRESHOLDS: Final = gc.get_threshold()


def postpone() -> None:
    """Look seldom from now on."""
    gc.set_threshold(STARTING_THRESHOLD)


def resume() -> None:
    """Look as often as usual from now on, as a server does, but never again at what is there by now."""
    gc.freeze()
    gc.set_threshold(*_USUAL_THRESHOLDS)
