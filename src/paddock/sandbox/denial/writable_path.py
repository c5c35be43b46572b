"""Tells whether a command under a plan may write a file of the host, or decide what a path leads to.

Places that commands under other plans may write count as well, if the caller names them: what an earlier
command left there is no better than what this one writes.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Final, NamedTuple

from paddock.errors import ProfileRefused
from paddock.model.profile import Access
from paddock.sandbox.host import question
from paddock.sandbox.host.facts import FileFacts
from paddock.sandbox.host.look import Kind
from paddock.sandbox.host.mount_alias import aliases_in, devices_below, is_of_processes
from paddock.sandbox.host.propagation import TABLE
from paddock.sandbox.host.written_place import WrittenPlaces
from paddock.sandbox.plan.plan import Plan
from paddock.sandbox.profile.access import AccessTable
from paddock.sandbox.profile.path import ancestors, clean

LOOKUPS_LIMIT: Final = 256
"""Answers to verify with a new look instead of finding them again: about 3 µs each."""

IsWritable = Callable[[str], bool]


class WritablePaths:
    """The paths that a plan lets a command write, and the `distrusted` ones. May be used from any thread."""

    def __init__(self, plan: Plan, distrusted: Iterable[str] = ()) -> None:
        self._table = AccessTable(plan.rules)
        named = tuple(map(clean, distrusted))
        self._distrusted = frozenset((*named, *map(os.path.realpath, named)))
        granted = (rule.path for rule in plan.rules if rule.access is Access.WRITE)
        self._granted = (*granted, *self._distrusted)
        self._last = threading.local()

    def now(self) -> IsWritable:
        """Return a function that tells of an absolute path whether the command may write there: the file by
        any name, or what is in the directory.

        The function looks at each file once, so take a new one for each decision, in its own thread. It
        follows links, and each counts by itself. A path that can't be examined counts as writable, and so
        does one through /proc: `/proc/self/cwd` and `/dev/fd/9` depend on who looks, and the command chooses
        the working directory and the descriptors of a program that is let out.
        """
        known: tuple[FileFacts, IsWritable] | None = getattr(self._last, "known", None)
        if known is not None and len(known[0].lookups) <= LOOKUPS_LIMIT and known[0].lookups.still_holds():
            return known[1]
        facts = FileFacts()
        places = WrittenPlaces(self._granted, facts.lookups.ask)
        is_writable = cache(partial(self._is_writable, facts, places))
        self._last.known = facts, is_writable
        return is_writable

    def _is_writable(self, facts: FileFacts, places: WrittenPlaces, path: str) -> bool:
        try:
            fact = facts.at(path)
            paths = {path, fact.real, *(link.path for link in fact.links)}
            # Read once for all paths of a decision: with many mounts it takes longer than everything else.
            table = facts.lookups.ask(question.mount_table, TABLE)
            if any(is_of_processes(each, table) for each in paths):
                return True
            aliases = aliases_in(table, (fact.real,))
            paths.update(alias for _, alias in aliases if facts.lookups.ask(os.path.lexists, alias))
            if any(self._table.access_of(each) is Access.WRITE for each in paths):
                return True
            # Whatever the plan says of a path in there: it did not confine those who may have written it.
            if any(not self._distrusted.isdisjoint((each, *ancestors(each))) for each in paths):
                return True
            if any(map(places.may_hold, paths)):
                return True
            return fact.kind is Kind.FILE and self._has_other_name(facts, fact.real)
        except (OSError, ProfileRefused):
            return True

    def _has_other_name(self, facts: FileFacts, path: str) -> bool:
        """Return whether a file may have another name where the command can write it."""
        names = facts.lookups.ask(_names, path)
        if names is None or not names.may_become_writable:
            # Nothing exists there, or nothing that this user could write.
            return False
        return any(names.device in facts.lookups.ask(devices_below, granted) for granted in self._granted)


class _Names(NamedTuple):
    """The names of a file that has several."""

    device: int
    may_become_writable: bool
    """Whether this user may write it, perhaps after changing its mode."""


def _names(path: str) -> _Names | None:
    try:
        status = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode) or status.st_nlink < 2:
        return None
    is_open = bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
    return _Names(status.st_dev, is_open or status.st_uid == os.geteuid())
