"""What a sandbox on this host would let a command do with a path, for tools that run outside of it.

A profile alone does not say it: every sandbox also protects Paddock's own programs, hides its directories,
and protects the metadata of repositories as they are on the host at that moment. So this asks for the plan of
a command, and starts none. It judges a path under every name that its file system may take it for.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Final

from paddock.agent.permission import METADATA_NAMES, Reach
from paddock.model.profile import Access, Profile
from paddock.sandbox.enforce.command import Command
from paddock.sandbox.host.spelling import spellings
from paddock.sandbox.profile.access import AccessTable
from paddock.sandbox.profile.enforced import is_enforced, restricted_files
from paddock.sandbox.profile.path import ROOT, ancestors, clean, parent
from paddock.transport import runtime_directory

if TYPE_CHECKING:
    from paddock.sandbox.planner import Planner


OWN_PLACES: Final = ("/dev", "/proc", "/sys")
"""What every sandbox has of its own, or shows in parts. Outside, other programs' variables are there."""


def is_own_place(path: str) -> bool:
    """Return whether an absolute path is another file for a command in a sandbox."""
    return f"{path}/".startswith(tuple(f"{place}/" for place in OWN_PLACES))


class PlannedAccess:
    """Answers for a profile whose workspace is a directory without links. May be used from any thread.

    `reach` is what the profile grants. Files of the `kept` names are not written wherever they are below what
    it grants, nor are those in directories of these names.
    """

    def __init__(self, profile: Profile, directory: str, reach: Reach, kept: Collection[str] = ()) -> None:
        self._profile = profile
        self._command = Command((), directory, (directory,), {})
        self._reach = reach
        self._kept = frozenset(kept)

    def grants(self, path: str, wanted: Access) -> bool:
        """Return whether a command that starts now could read, or write, at a path without links.

        Blocks while it looks at files. Raises ProfileRefused and ListenError where no command could start.
        """
        table = self._table()
        if table is None:
            return self._reach.grants(path, wanted)
        return all(
            self._reach.grants(each, wanted)
            and not (wanted is Access.WRITE and self._is_kept(each))
            and _grants(table, each, wanted)
            for each in self._names(path, table, wanted)
        )

    def grants_tree(self, path: str) -> bool:
        """Return whether such a command could read at a path without links, and everywhere below it.

        Blocks and raises as `grants`.
        """
        table = self._table()
        if table is None:
            return self._reach.grants_tree(path)
        return all(
            self._reach.grants_tree(each) and _grants_tree(table, each)
            for each in self._names(path, table, Access.READ)
        )

    def _is_kept(self, path: str) -> bool:
        rule = None if self._reach.table is None else self._reach.table.rule_of(path)
        # A profile that names such a file opens it.
        return rule is not None and not self._kept.isdisjoint(path[len(rule.path) :].split("/"))

    def _names(self, path: str, table: AccessTable, wanted: Access) -> Iterable[str]:
        """Return the names by which a command might find a file, as far as it could do less under them."""
        closed = [rule.path for rule in table.rules if rule.access not in (wanted, Access.WRITE)]
        names: dict[str, set[str]] = {}
        for each in (above for rule in closed for above in (rule, *ancestors(rule)) if above != ROOT):
            names.setdefault(parent(each), set()).add(each.rpartition("/")[2])
        always = {*METADATA_NAMES, *self._kept}
        found = spellings(path, lambda directory: always | names.get(directory, set()))
        files = {file: rule for rule in closed if (file := _file_at(rule)) is not None}
        for each in found:
            yield each
            for above in (each, *ancestors(each)):
                file = _file_at(above)
                if file is not None and (rule := files.get(file)) is not None:
                    yield clean(f"{rule}/{each[len(above) :]}")

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


def _grants_tree(table: AccessTable, path: str) -> bool:
    top = path.rstrip("/") + "/"
    hidden = (rule.path for rule in table.rules if rule.access is Access.DENY)
    is_hidden = any(each.startswith(top) for each in (*OWN_PLACES, *hidden))
    return _grants(table, path, Access.READ) and not is_hidden


def _file_at(path: str) -> tuple[int, int] | None:
    """Return device and inode of a file; None if there is none that this user can reach."""
    try:
        found = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return found.st_dev, found.st_ino
