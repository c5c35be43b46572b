"""Finds the mounts of a plan that can be made before bubblewrap starts. Pure.

For each mount bubblewrap reads the table of all mounts, so that a thousand take seconds. Binds in a directory
that the plan shows with all that is in it can be made there, in a mount namespace in which bubblewrap then
starts: it takes them over with the directory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from paddock.sandbox.plan.mount import Bind, Mount
from paddock.sandbox.profile.path import ROOT, ancestors

EARLY_FROM: Final = 48
"""Mounts that are worth a namespace of their own, which takes as long as bubblewrap takes for about ten."""


def split(mounts: Sequence[Mount]) -> tuple[list[Bind], list[Mount]]:
    """Return what can be made early, in this order (nothing of few), and what is left to bubblewrap."""
    placed: dict[str, Mount] = {}
    early: list[Bind] = []
    left: list[Mount] = []
    for mount in mounts:
        # With what is not writable bubblewrap makes all read-only that is mounted in it; covers show nothing.
        around = next((placed[path] for path in ancestors(mount.path) if path in placed), None)
        is_carried = isinstance(around, Bind) and around.is_writable and not around.has_devices
        if isinstance(mount, Bind) and is_carried and mount.path != ROOT and not mount.has_devices:
            early.append(mount)
        else:
            left.append(mount)
        placed.setdefault(mount.path, mount)
    return (early, left) if len(early) >= EARLY_FROM else ([], list(mounts))
