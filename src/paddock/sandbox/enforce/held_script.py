"""Holds the script of a plan whose placeholders exist, until it is assembled.

While the janitor makes the placeholders, this module writes the script and looks up every other mount source
once more, because other programs may have replaced one since the plan was made. It does not decide whether to
plan again.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from paddock.errors import ProfileRefused
from paddock.sandbox.enforce.assembly import Script
from paddock.sandbox.enforce.janitor import Janitor, locate, lock
from paddock.sandbox.enforce.mount_source import mounted_files, shown_placeholders, verify_directories
from paddock.sandbox.host.letter_case import refuse_other_spellings
from paddock.sandbox.host.lookup_record import LookupRecord
from paddock.sandbox.host.mounted_file import MountedFile
from paddock.sandbox.host.placeholder import LocatedPlaceholder
from paddock.sandbox.plan.plan import Plan

COVERED_LIMIT: Final = 100
"""Most placeholders of one command that are out of its sight. Its first process inherits a descriptor of
each, and the spawner passes on 128."""


class HeldScript(Struct, frozen=True):
    """The script of a plan whose placeholders exist, and what keeps them. Assemble or `discard` it."""

    script: Script
    janitor: Janitor
    placeholders: Sequence[LocatedPlaceholder]
    found: Sequence[MountedFile]
    """The other host files that the plan mounts."""
    shown: Sequence[MountedFile]
    """The placeholders that the sandbox's first process can see."""
    locks: Sequence[int]
    """Descriptors of the others."""

    @property
    def made_placeholders(self) -> list[MountedFile]:
        """Return the placeholders made for the plan, and what each is."""
        covered = zip(self.script.plan.covered_placeholders, map(os.fstat, self.locks), strict=True)
        return [*self.shown, *(MountedFile(path, at.st_dev, at.st_ino) for path, at in covered)]

    @property
    def mounted(self) -> list[MountedFile]:
        """Return the host files that the mounts must show."""
        return [*self.found, *self.shown]

    def discard(self) -> None:
        """Release everything; nothing was started with it."""
        for file in self.locks:
            os.close(file)
        self.janitor.release(self.placeholders, was_killed=False)


class Groundwork:
    """What the sandbox of a command was made from, for whoever wants to make the same one again."""

    def __init__(self) -> None:
        self.lookups = LookupRecord()
        """Everything that the plan looked at."""
        self.held: HeldScript | None = None
        self.program: str | None = None
        """The path of the bubblewrap, if it is not part of the package."""
        self.is_whole = False
        """Whether the host can enforce everything."""


def hold_script(plan: Plan, janitor: Janitor, write: Callable[[], Script]) -> HeldScript:
    """Have the janitor make a plan's placeholders while `write` writes its script.

    Raises PlaceholderTaken or FileMoved when files are no longer as planned; nothing is held then. Raises
    ProfileRefused when too many placeholders are out of sight, or when a command could get around something.
    """
    _refuse_many_denials(plan)
    located = locate(plan.placeholders)
    with janitor.holding(located):
        script = write()
        found = mounted_files(plan)
        verify_directories(located, found)
    with contextlib.ExitStack() as undone:
        undone.callback(janitor.release, located, was_killed=False)
        refuse_other_spellings(plan.uncertain_paths)
        covered = set(plan.covered_placeholders)
        locks = lock([placeholder for placeholder in located if placeholder.path in covered])
        for file in locks:
            undone.callback(os.close, file)
        held = HeldScript(script, janitor, located, found, shown_placeholders(plan), locks)
        undone.pop_all()
    return held


def _refuse_many_denials(plan: Plan) -> None:
    covered = len(plan.covered_placeholders)
    if covered > COVERED_LIMIT:
        raise ProfileRefused(
            f"the profile with {covered} denied paths that are missing",
            f"has more than {COVERED_LIMIT} of them",
            "deny the directories that they would be in",
        )
