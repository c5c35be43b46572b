"""Remembers recent plans for as long as the facts behind them stay the same.

A plan is a pure function of the profile, the input and what the host's files look like. A remembered plan is
used again only after every look that it was made from has been repeated with the same result: looking takes a
fraction of the time of planning.
"""

from __future__ import annotations

import os
import threading
from functools import partial
from typing import Final

from paddock.sandbox.host.facts import FileFacts, is_vacant
from paddock.sandbox.host.lookup_record import LookupRecord
from paddock.sandbox.plan.plan import Plan, PlanInput, confine
from paddock.sandbox.profile.enforced import EnforcedProfile

SCENE_COUNT: Final = 32
"""Scenes to remember: as many as there are workers for file operations. The oldest is forgotten."""

VARIANT_COUNT: Final = 2
"""Plans for one input: without and with the placeholders that other commands hold there."""

PATH_CHARS: Final = 256 * 1024
"""Limit on the paths that a remembered plan depends on: 16 MiB for all scenes. Most plans have a few KiB."""

_Known = tuple[Plan, LookupRecord]


class PlanMemory:
    """Makes plans. May be used from any thread."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, EnforcedProfile, PlanInput], tuple[_Known, ...]] = {}
        self._lock = threading.Lock()

    def confine(self, profile: EnforcedProfile, given: PlanInput) -> Plan:
        """Return the plan that `plan.confine` would make now. Raises as it does."""
        key = os.geteuid(), profile, given
        known = self._known.get(key, ())
        for plan, lookups in known:
            if lookups.still_holds(partial(_is_same_to, plan)):
                return plan
        look = FileFacts()
        plan = confine(profile, given, look)
        if look.lookups.path_chars <= PATH_CHARS:
            with self._lock:
                self._known.pop(key, None)
                while len(self._known) >= SCENE_COUNT:
                    self._known.pop(next(iter(self._known)))
                self._known[key] = ((plan, look.lookups), *known[: VARIANT_COUNT - 1])
        return plan


def _is_same_to(plan: Plan, path: str, answer: object, found: object) -> bool:
    """Return whether a plan stays the same although something else was found at a path.

    Where it needs a placeholder of its own, another command may have one by now, or no longer.
    """
    kind = next((each.kind for each in plan.placeholders if each.path == path), None)
    # Other placeholders are needed only as long as other commands have them (plan/view.py).
    is_masked = any(mask.path == path for mask in plan.masks)
    return kind is not None and is_masked and is_vacant(kind, answer) and is_vacant(kind, found)
