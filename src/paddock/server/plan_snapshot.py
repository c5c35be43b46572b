"""A snapshot of a sandbox that could be made now: its plan, and the files that its mounts would be on.

Two snapshots are equal if a sandbox that was made at the first moment can be used at the second. Blocks
while files are looked at. Loaded when the first sandbox is asked for.
"""

from __future__ import annotations

import os

from msgspec import Struct

from paddock.fs.read_filter import ReadFilter
from paddock.host_text import utf8_environment
from paddock.model.profile import Access
from paddock.sandbox.enforce.command import Command
from paddock.sandbox.host.letter_case import refuse_aliases, refuse_other_spellings
from paddock.sandbox.host.linkless import Identity, identity_at
from paddock.sandbox.plan.plan import Plan
from paddock.sandbox.planner import Planner
from paddock.sandbox.profile.access import AccessTable
from paddock.sandbox.profile.enforced import is_enforced
from paddock.sandbox.profile.glob import Matcher
from paddock.sandbox.profile.path import ancestors, is_within
from paddock.server.confinement import Confinement


class PlanSnapshot(Struct, frozen=True):
    """The plan of a sandbox, and what is on the host where it would mount something."""

    plan: Plan
    files: tuple[Identity, ...]
    """Device and inode at each mount point that is not a placeholder."""

    def read_filter(self) -> ReadFilter:
        """Return what such a sandbox may see, for work done outside it on a client's behalf.

        A file that a pattern names counts as denied even if it is made later: the next such sandbox denies
        it. Raises ProfileRefused if something denied may have a name that this does not know.
        """
        hidden = [rule.path for rule in self.plan.rules if rule.access is Access.DENY]
        hidden += [pattern.base for pattern in self.plan.denied_patterns]
        refuse_aliases(
            path for path in self.plan.uncertain_paths if any(is_within(each, path) for each in hidden)
        )
        table = AccessTable(self.plan.rules)
        patterns = [
            (os.path.realpath(pattern.base), Matcher([pattern.rest])) for pattern in self.plan.denied_patterns
        ]

        def may_be_seen(path: bytes) -> bool:
            name = os.fsdecode(path)
            if table.access_of(name) is Access.DENY:
                return False
            rule = table.rule_of(name)
            return not any(
                is_within(each, base)
                and each != base
                and matcher.matches(each.removeprefix(base).lstrip("/"))
                for base, matcher in patterns
                for each in (name, *ancestors(name))
                # The profile grants a path that it names inside a denied directory.
                if rule is None or not is_within(rule.path, each)
            )

        return may_be_seen


def take_snapshot(planner: Planner, wanted: Confinement) -> PlanSnapshot:
    """Plan a sandbox for nothing in particular. Raises as `Planner.plan`."""
    assert is_enforced(wanted.profile)
    plan = planner.plan(wanted.profile, Command([], "/", wanted.project_roots, utf8_environment()))
    held = {placeholder.path for placeholder in plan.placeholders}
    mount_points = dict.fromkeys(mount.path for mount in plan.mounts if mount.path not in held)
    # A sandbox that was made earlier holds only if a file system has not begun to ignore case since.
    refuse_other_spellings(plan.uncertain_paths)
    return PlanSnapshot(plan, tuple(identity_at(path) for path in mount_points))
