"""What a sandbox on this host would let a command do with a path, for tools that run outside of it.

A profile alone does not say it: every sandbox also protects Paddock's own programs, hides its directories,
and protects the metadata of repositories as they are on the host at that moment. So this asks for the plan of
a command, and starts none.
"""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING, Final

from paddock.model.profile import Access, Profile
from paddock.sandbox.enforce.command import Command
from paddock.sandbox.profile.access import AccessTable
from paddock.sandbox.profile.enforced import is_enforced, restricted_files
from paddock.transport import runtime_directory

if TYPE_CHECKING:
    from paddock.sandbox.planner import Planner


OWN_PLACES: Final = ("/dev", "/proc", "/sys")
"""What every sandbox has of its own, or shows in parts. Outside, other programs' variables are there."""


def is_own_place(path: str) -> bool:
    """Return whether an absolute path is another file for a command in a sandbox."""
    return f"{path}/".startswith(tuple(f"{place}/" for place in OWN_PLACES))


class PlannedAccess:
    """Answers for a profile whose workspace is a directory without links. May be used from any thread."""

    def __init__(self, profile: Profile, directory: str) -> None:
        self._profile = profile
        self._command = Command((), directory, (directory,), {})

    def grants(self, path: str, wanted: Access) -> bool:
        """Return whether a command that starts now could read, or write, at a path without links.

        Blocks while it looks at files. Raises ProfileRefused and ListenError where no command could start.
        """
        table = self._table()
        return table is None or _grants(table, path, wanted)

    def grants_tree(self, path: str) -> bool:
        """Return whether such a command could read at a path without links, and everywhere below it.

        Blocks and raises as `grants`.
        """
        table = self._table()
        if table is None:
            return True
        top = path.rstrip("/") + "/"
        hidden = (rule.path for rule in table.rules if rule.access is Access.DENY)
        is_hidden = any(each.startswith(top) for each in (*OWN_PLACES, *hidden))
        return _grants(table, path, Access.READ) and not is_hidden

    def _table(self) -> AccessTable | None:
        """Return what is planned; None where nothing is restricted."""
        profile = self._profile
        if not is_enforced(profile) or restricted_files(profile) is None:
            return None
        return AccessTable(self._planner.plan(profile, self._command).rules)

    @cached_property
    def _planner(self) -> Planner:
        # It takes a while to load, and a program may use no tool that needs it.
        from paddock.sandbox.host import probe
        from paddock.sandbox.planner import Planner

        user = os.getuid()
        directory = runtime_directory.provide(runtime_directory.candidates(os.environ, user), user)
        private = runtime_directory.everywhere(os.environ, user)
        return Planner(probe.host(memory_directory=directory), directory, private)


def _grants(table: AccessTable, path: str, wanted: Access) -> bool:
    rule = table.rule_of(path)
    # A profile may name what lies in such a place, such as a project in /dev/shm.
    is_shown = rule is not None and is_own_place(path) <= is_own_place(rule.path)
    return is_shown and table.access_of(path) in (wanted, Access.WRITE)
