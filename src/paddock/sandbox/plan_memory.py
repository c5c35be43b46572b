"""Remembers recent plans for as long as the facts behind them stay the same.

A plan is a pure function of the profile, the input and what the host's files look like. A remembered plan is
used again only after every look that it was made from has been repeated with the same result: looking takes a
fraction of the time of planning.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from functools import partial
from typing import Final

from paddock.sandbox.host import question
from paddock.sandbox.host.facts import FileFacts
from paddock.sandbox.host.lookup_record import LookupRecord
from paddock.sandbox.plan.plan import Plan, PlanInput, confine
from paddock.sandbox.profile.enforced import EnforcedProfile

SCENE_COUNT: Final = 32
"""Scenes to remember: as many as there are workers for file operations. The oldest is forgotten."""

VARIANT_COUNT: Final = 2
"""Plans for one input: without and with the placeholders that other commands hold there."""

PATH_CHARS: Final = 256 * 1024
"""Limit on the paths that a remembered plan depends on: 16 MiB for all scenes. Most plans have a few KiB."""

_Known = tuple[Plan, LookupRecord, Mapping[str, str]]
"""A plan, the looks that it was made from, and its own placeholders."""


class PlanMemory:
    """Makes plans. May be used from any thread."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, EnforcedProfile, PlanInput], tuple[_Known, ...]] = {}
        self._lock = threading.Lock()

    def confine(
        self, profile: EnforcedProfile, given: PlanInput, lookups: LookupRecord | None = None
    ) -> Plan:
        """Return the plan that `plan.confine` would make now. Raises as it does.

        With `lookups` it is made anew, and they get everything that it looked at.
        """
        if lookups is not None:
            return confine(profile, given, FileFacts(lookups))
        key = os.geteuid(), profile, given
        known = self._known.get(key, ())
        for plan, lookups, own in known:
            if lookups.still_holds(partial(_is_same_to, own)):
                return plan
        look = FileFacts()
        plan = confine(profile, given, look)
        if look.lookups.path_chars <= PATH_CHARS:
            with self._lock:
                self._known.pop(key, None)
                while len(self._known) >= SCENE_COUNT:
                    self._known.pop(next(iter(self._known)))
                self._known[key] = ((plan, look.lookups, plan.own_placeholders), *known[: VARIANT_COUNT - 1])
        return plan


def _is_same_to(own: Mapping[str, str], path: str, answer: object, found: object) -> bool:
    """Return whether a plan stays the same although something else was found at a path.

    Where it needs a placeholder of its own, another command may have one by now, or no longer.
    """
    kind = own.get(path)
    return kind is not None and question.is_vacant(kind, answer) and question.is_vacant(kind, found)
