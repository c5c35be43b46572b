"""Plans that were made lately, for as long as what they follow from is the same.

A plan is a pure function of profile, scene and what is found on looking at the host's files. A remembered
one is given again only after every look that it was made from has been repeated and has found the same: to
look takes a fraction of the time that the deciding takes.
"""

from __future__ import annotations

import os
import threading
from typing import Final

from paddock.sandbox.host.facts import FileFacts
from paddock.sandbox.host.lookup_record import LookupRecord
from paddock.sandbox.plan.plan import Plan, Scene, confine
from paddock.sandbox.profile.enforced import EnforcedProfile

SCENE_COUNT: Final = 32
"""Scenes that are remembered: as many as there are workers for file operations. The oldest is forgotten."""

VARIANT_COUNT: Final = 2
"""Plans for one scene: without and with the placeholders that other commands hold there."""

PATH_CHARS: Final = 256 * 1024
"""Limit of the paths that a remembered plan depends on: 16 MiB for all scenes. Most plans have some KiB."""

_Known = tuple[Plan, LookupRecord]


class PlanMemory:
    """Makes plans. May be used from any thread."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, EnforcedProfile, Scene], tuple[_Known, ...]] = {}
        self._lock = threading.Lock()

    def confine(self, profile: EnforcedProfile, scene: Scene) -> Plan:
        """Return what `plan.confine` makes of them now. Raises as that does."""
        key = os.geteuid(), profile, scene
        known = self._known.get(key, ())
        for plan, lookups in known:
            if lookups.still_holds():
                return plan
        look = FileFacts()
        plan = confine(profile, scene, look)
        if look.lookups.path_chars <= PATH_CHARS:
            with self._lock:
                self._known.pop(key, None)
                while len(self._known) >= SCENE_COUNT:
                    self._known.pop(next(iter(self._known)))
                self._known[key] = ((plan, look.lookups), *known[: VARIANT_COUNT - 1])
        return plan
