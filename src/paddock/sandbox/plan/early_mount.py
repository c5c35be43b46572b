"""Finds the mounts of a plan that can be made before bubblewrap starts. Pure.

bubblewrap reads the table of all mounts for each mount that it makes, so a thousand take seconds. Binds below
a directory that the plan shows as a whole can be made earlier, in the mount namespace in which bubblewrap
then starts: bubblewrap takes them over with the directory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from paddock.sandbox.plan.mount import Bind, Mount
from paddock.sandbox.profile.path import ancestors

EARLY_FROM: Final = 48
"""Number of mounts that is worth a namespace, which costs as much as about ten mounts by bubblewrap."""


def split(mounts: Sequence[Mount]) -> tuple[list[Bind], list[Mount]]:
    """Return the mounts to make early, in order (none if there are few), and those left to bubblewrap."""
    writable = {mount.path for mount in mounts if isinstance(mount, Bind) and mount.is_writable}
    around_writable = {above for path in writable for above in ancestors(path)}
    placed: dict[str, Mount] = {}
    early: list[Bind] = []
    left: list[Mount] = []
    for mount in mounts:
        # bubblewrap makes everything mounted below a read-only directory read-only too; covers show nothing.
        around = next((placed[path] for path in ancestors(mount.path) if path in placed), None)
        is_carried = isinstance(around, Bind) and around.is_writable and not around.has_devices
        # A mount of bubblewrap has the flags of its source: nothing in a read-only early one can be writable.
        is_closing = isinstance(mount, Bind) and not mount.is_writable and mount.path in around_writable
        if isinstance(mount, Bind) and is_carried and not is_closing and not mount.has_devices:
            early.append(mount)
        else:
            left.append(mount)
        placed.setdefault(mount.path, mount)
    return (early, left) if len(early) >= EARLY_FROM else ([], list(mounts))
