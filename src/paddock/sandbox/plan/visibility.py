"""Tells what can be seen on the way to a path under a set of rules.

Whoever names a path under a profile must learn nothing of it that a command under that profile could not.
So every step is held against the rules before it is looked at, through links and `..` as the kernel
would go. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

from paddock.model.profile import Access
from paddock.sandbox.host.look import LINK_LIMIT, Kind, Link, Look
from paddock.sandbox.profile.access import AccessTable
from paddock.sandbox.profile.path import ROOT, is_within, join, parent


class Visibility:
    """The names that rules make visible: those that are granted, and those that lead there.

    `links` and `named` are those by which granted paths are reached.
    """

    def __init__(self, table: AccessTable, look: Look, links: Iterable[Link], named: Iterable[str]) -> None:
        self._table = table
        self._look = look
        granted = [rule.path for rule in table.rules if rule.access is not Access.DENY]
        self._shown = [*granted, *(link.path for link in links)]
        for name in named:
            self._shown += [name, *(link.path for link in look.at(name).links)]

    def has_way_to(self, path: str) -> bool:
        """Return whether all names on the way to an absolute path, and its own, can be seen.

        Behind a name that can be seen and is missing, or is no directory, there are no others.
        """
        reached, names, link_count = ROOT, path.split("/")[::-1], 0
        while names:
            name = names.pop()
            if name in ("", "."):
                continue
            if name == "..":
                reached = parent(reached)
                continue
            reached = join(reached, name)
            if not self._is_seen(reached):
                return False
            fact = self._look.at(reached)
            if fact.links:
                link_count += 1
                if link_count > LINK_LIMIT:
                    return True
                target = fact.links[0].target
                reached = ROOT if target.startswith("/") else parent(reached)
                names += target.split("/")[::-1]
            elif fact.kind is not Kind.DIRECTORY:
                return True
        return self._is_seen(reached)

    def _is_seen(self, path: str) -> bool:
        return self._table.access_of(path) is not Access.DENY or any(
            is_within(shown, path) for shown in self._shown
        )
