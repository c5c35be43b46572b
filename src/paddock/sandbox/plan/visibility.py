"""Tells which names a set of rules makes visible on the way to a path.

Whoever names a path under a profile must learn nothing about it that a command under that profile could not.
So each step is checked against the rules before anything looks at it, through links and `..` as the kernel
goes. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

from paddock.model.profile import Access
from paddock.sandbox.host.look import LINK_LIMIT, Kind, Link, Look
from paddock.sandbox.profile.access import AccessTable
from paddock.sandbox.profile.path import ROOT, is_within, join, parent


class Visibility:
    """The names that rules make visible: granted paths, and those that lead to them.

    `links` and `named` are the names that lead to granted paths.
    """

    def __init__(self, table: AccessTable, look: Look, links: Iterable[Link], named: Iterable[str]) -> None:
        self._table = table
        self._look = look
        granted = [rule.path for rule in table.rules if rule.access is not Access.DENY]
        self._shown = [*granted, *(link.path for link in links)]
        for name in named:
            self._shown += [name, *(link.path for link in look.at(name).links)]

    def has_way_to(self, path: str) -> bool:
        """Return whether every name on the way to an absolute path, and its own, is visible.

        No names follow a visible name that is missing or is not a directory.
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
