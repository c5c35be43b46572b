"""The script of a plan whose placeholders exist: made, verified and kept until it is assembled.

The janitor makes placeholders while the script is written and everything else that is to be mounted is
looked up once more, because other programs may have exchanged it since the plan was made. Whether another
plan is made then is decided elsewhere.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from paddock.errors import ProfileRefused
from paddock.sandbox.enforce.assembly import Script
from paddock.sandbox.enforce.janitor import Janitor, locate, lock
from paddock.sandbox.enforce.mount_source import mounted_files, shown_placeholders, verify_directories
from paddock.sandbox.host.mounted_file import MountedFile
from paddock.sandbox.host.placeholder import LocatedPlaceholder
from paddock.sandbox.plan.plan import Plan

COVERED_LIMIT: Final = 100
"""Places of one command that are not in sight, so that its first process inherits the descriptor of each; the
spawner passes on 128."""


class HeldScript(Struct, frozen=True):
    """The script of a plan whose placeholders exist, and what keeps them. Assemble or `discard` it."""

    script: Script
    janitor: Janitor
    placeholders: Sequence[LocatedPlaceholder]
    found: Sequence[MountedFile]
    """The other host files that it mounts."""
    shown: Sequence[MountedFile]
    """Those of the placeholders that are in sight of its first process."""
    locks: Sequence[int]
    """Descriptors on the others."""

    @property
    def made_placeholders(self) -> list[MountedFile]:
        """The placeholders that were made for it, and what they are."""
        covered = zip(self.script.plan.covered_places, map(os.fstat, self.locks), strict=True)
        return [*self.shown, *(MountedFile(path, at.st_dev, at.st_ino) for path, at in covered)]

    @property
    def mounted(self) -> list[MountedFile]:
        """Return what of the host's files its mounts must be of."""
        return [*self.found, *self.shown]

    def discard(self) -> None:
        """Let go of everything; nothing was started with it."""
        for file in self.locks:
            os.close(file)
        self.janitor.release(self.placeholders, was_killed=False)


def hold_script(plan: Plan, janitor: Janitor, write: Callable[[], Script]) -> HeldScript:
    """Have the placeholders of a plan made while `write` puts it into words.

    Raises PlaceholderTaken or FileMoved when files are not as planned any more; nothing is held then. Raises
    ProfileRefused when there are too many placeholders that are not in sight.
    """
    _refuse_many_denials(plan)
    located = locate(plan.placeholders)
    with janitor.holding(located):
        script = write()
        found = mounted_files(plan)
        verify_directories(located, found)
    try:
        covered = set(plan.covered_places)
        locks = lock([place for place in located if place.path in covered])
        return HeldScript(script, janitor, located, found, shown_placeholders(plan), locks)
    except BaseException:
        janitor.release(located, was_killed=False)
        raise


def _refuse_many_denials(plan: Plan) -> None:
    covered = len(plan.covered_places)
    if covered > COVERED_LIMIT:
        raise ProfileRefused(
            f"the profile with {covered} denied paths that are missing",
            f"has more than {COVERED_LIMIT} of them",
            "deny the directories that they would be in",
        )
