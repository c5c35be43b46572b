"""What in a workspace steers the programs of its owner, and therefore is not the command's to change.

Git runs hooks, agents and cloud tools read instructions and credentials: a command that could write there
would act later, outside the sandbox. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from paddock.errors import ProfileRefused
from paddock.model.profile import Access
from paddock.sandbox.access import AccessTable, Rule
from paddock.sandbox.git_metadata import (
    GIT,
    HEAD,
    ORIGIN,
    bare_repository,
    linked_repository,
    repositories_around,
    submodules,
)
from paddock.sandbox.look import Kind, Look, PathFact
from paddock.sandbox.path import ROOT, is_within, join, parent
from paddock.sandbox.view import DEV, KERNEL_OBJECTS, PROC

NAMES: Final = (GIT, ".codex", ".agents", ".aws", ".paddock")
"""Protected directly under each writable directory."""

OTHER_REPOSITORIES: Final = (".hg", ".jj")
"""Of Mercurial and Jujutsu, whose configuration runs programs, too: protected where they exist."""


class Protection:
    """Read-only rules for the metadata under each writable directory, except for what the profile opens.

    What is missing is protected under project roots, for there its owner would take it for the
    workspace's own; of git's also under other directories that the profile names, but not under
    `temporary` ones: every program makes what it likes there. A link can't be protected, because
    the command could replace it: where what is missing would be protected it raises ProfileRefused, elsewhere
    it is left alone, for there an earlier command can make one as it likes.
    """

    def __init__(
        self, table: AccessTable, look: Look, project_roots: Iterable[str], temporary: Iterable[str] = ()
    ) -> None:
        self._table = table
        self._look = look
        self._roots = frozenset(project_roots)
        self._temporary = frozenset(temporary)

    def rules(self) -> Iterator[Rule]:
        """All of them."""
        looked_at: set[str] = set()
        around: set[str] = set()
        for rule in self._table.rules:
            if rule.access is Access.WRITE and self._look.at(rule.path).kind is Kind.DIRECTORY:
                yield from self._below(rule)
                around.update(repositories_around(rule.path, self._look))
                if self._is_workspace(rule):
                    looked_at.add(rule.path)
        for place in sorted(around - looked_at):
            if self._is_owners(place):
                yield from self._around(place)

    def _around(self, place: str) -> Iterator[Rule]:
        """What can be written of a repository in which a writable directory lies."""
        pointer = join(place, GIT)
        if self._look.at(pointer).kind is Kind.FILE:
            yield from linked_repository(pointer, self._table, self._look)
        yield from submodules(place, self._table, self._look)

    def _below(self, rule: Rule) -> Iterator[Rule]:
        is_workspace = self._is_workspace(rule)
        for name in (*NAMES, *OTHER_REPOSITORIES):
            path = join(rule.path, name)
            if not self._is_open(path):
                is_kept = name in NAMES and (rule.path in self._roots or (is_workspace and name == GIT))
                yield from self._metadata(path, is_kept)
        git = join(rule.path, GIT)
        if not self._is_open(git):
            yield from self._git(git, self._look.at(git), is_workspace)

    def _metadata(self, path: str, is_kept: bool) -> Iterator[Rule]:
        """`is_kept` says whether it must not be made either."""
        fact = self._look.at(path)
        if fact.links and is_kept:
            raise ProfileRefused(
                path,
                "is protected but a symlink, which the command could replace",
                f"replace it by a directory, or grant write access to {path}",
            )
        if not fact.links and (fact.kind is not Kind.MISSING or is_kept):
            yield Rule(path, Access.READ, ORIGIN, is_metadata=True)

    def _git(self, path: str, fact: PathFact, is_workspace: bool) -> Iterator[Rule]:
        if not fact.links and fact.kind is Kind.FILE:
            is_trusted = is_workspace and self._is_owners(parent(path))
            if is_trusted or parent(path) not in self._temporary:
                yield from linked_repository(path, self._table, self._look, is_trusted=is_trusted)
        if not is_workspace:
            return
        # Git looks past a `.git` that is an empty directory, not past a file.
        head = self._look.at(join(path, HEAD))
        if fact.kind is Kind.FILE or head.kind is not Kind.MISSING or head.links:
            yield from submodules(parent(path), self._table, self._look)
        else:
            yield from bare_repository(parent(path), self._look)

    def _is_open(self, path: str) -> bool:
        """Return whether the profile itself lets it be written."""
        return path in self._table and self._table.access_of(path) is Access.WRITE

    def _is_owners(self, place: str) -> bool:
        """Return whether no earlier command and no other user can have made a repository there."""
        if place in self._roots:
            return True
        writable = (*self._roots, *self._temporary)
        return not any(is_within(place, other) for other in writable) and not self._look.is_open(place)

    def _is_workspace(self, rule: Rule) -> bool:
        """Return whether the owner may run git there: in a project root, or the top of another grant."""
        if rule.path in self._roots:
            return True
        around = self._table.rule_of(parent(rule.path)) if rule.path != ROOT else rule
        is_within_another = any(is_within(rule.path, root) for root in self._roots) or (
            around is not None and around.access is Access.WRITE and around.path not in self._temporary
        )
        is_metadata = any(name in NAMES for name in rule.path.split("/"))
        is_kernels = any(is_within(rule.path, place) for place in (DEV, PROC, KERNEL_OBJECTS))
        return not (is_within_another or is_metadata or is_kernels or rule.path in self._temporary)
