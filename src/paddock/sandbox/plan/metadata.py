"""Protects the files that steer the programs of a workspace's owner.

Git runs hooks; agents and cloud tools read instructions and credentials. A command that could write there
would act later, outside the sandbox. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from paddock.errors import ProfileRefused
from paddock.model.profile import Access
from paddock.sandbox.host.look import Kind, Look, PathFact
from paddock.sandbox.plan.git_metadata import (
    GIT,
    ORIGIN,
    bare_repository,
    ends_search,
    has_repository,
    linked_repository,
    repositories_around,
    submodules,
)
from paddock.sandbox.plan.shared_metadata import shared_repositories
from paddock.sandbox.profile.access import METADATA_NAMES, AccessTable, Rule
from paddock.sandbox.profile.path import DEV, KERNEL_OBJECTS, PROC, ROOT, ancestors, is_within, join, parent

OTHER_REPOSITORIES: Final = (".hg", ".jj")
"""Directories of Mercurial and Jujutsu, whose configuration runs programs too: protected where they exist."""


class Protection:
    """Read-only rules for the metadata under each writable directory, except for what the profile opens.

    A project root in such a directory counts as one too, and so do the directories between the two in which
    git would look for the project's repository. Of a project root that the command can't write, this protects
    the repositories elsewhere that its metadata leads to.

    Metadata that does not exist is protected under project roots, where the owner would take it for the
    workspace's own. Git's is also protected under other directories that the profile names, but not under
    `temporary` ones, where every program makes what it likes. An empty directory there counts as missing:
    other sandboxes make such in /tmp for as long as a command runs, and a mask on one would be lost with it.
    A link can't be protected, because the command could replace it. In project roots, and where missing
    metadata would be protected, a link raises ProfileRefused; elsewhere it is left alone, since an earlier
    command could make one there anyway.
    """

    def __init__(
        self, table: AccessTable, look: Look, project_roots: Iterable[str], temporary: Iterable[str] = ()
    ) -> None:
        self._table = table
        self._look = look
        self._roots = frozenset(project_roots)
        self._temporary = frozenset(temporary)

    def rules(self) -> Iterator[Rule]:
        """Yield the rules of all writable directories."""
        workspaces: set[str] = set()
        around: set[str] = set()
        for directory in self._writable():
            is_workspace = self._is_workspace(directory)
            yield from self._below(directory, is_workspace)
            around.update(repositories_around(directory, self._look))
            if is_workspace:
                workspaces.add(directory)
        for root in self._read_only_roots():
            around.update((root, *repositories_around(root, self._look)))
        above = {directory for root in self._roots for directory in self._above(root)}
        for directory in sorted(above - workspaces):
            yield from self._below(directory, is_workspace=True)
        for directory in sorted(around - above - workspaces):
            if self._is_owners(directory):
                yield from self._around(directory)

    def _writable(self) -> list[str]:
        """Return the directories that rules open, and the project roots in these."""
        named = [rule.path for rule in self._table.rules if rule.access is Access.WRITE]
        inner = [root for root in sorted(self._roots) if self._table.access_of(root) is Access.WRITE]
        return [
            path for path in dict.fromkeys([*named, *inner]) if self._look.at(path).kind is Kind.DIRECTORY
        ]

    def _read_only_roots(self) -> list[str]:
        """Return the project roots that a command can't write, if it may write where their repository is."""
        is_granted = any(
            rule.access is Access.WRITE and rule.path not in self._temporary for rule in self._table.rules
        )
        if not is_granted:
            return []
        return [root for root in sorted(self._roots) if self._table.access_of(root) is not Access.WRITE]

    def _above(self, root: str) -> Iterator[str]:
        """Yield the writable directories above a project root in which git would look for its repository.

        A command that may write everything may write the owner's own git configuration, so there only what
        exists counts. In another root around this one an earlier command may have made a repository, which is
        protected but not trusted.
        """
        others = [other for other in self._roots if other != root]
        for directory in (root, *ancestors(root)):
            is_repository = has_repository(directory, self._look)
            rule = self._table.rule_of(directory)
            if directory != root and rule is not None and rule.access is Access.WRITE:
                is_looked_after = is_repository or rule.path != ROOT
                is_in_project = any(is_within(directory, other) for other in others)
                is_owners = is_in_project or self._is_owners(directory)
                if is_looked_after and rule.path not in self._temporary and is_owners:
                    yield directory
            if ends_search(directory, self._look):
                return

    def _around(self, directory: str) -> Iterator[Rule]:
        """Yield rules for the writable parts of a repository that contains a writable directory."""
        pointer = join(directory, GIT)
        if self._look.at(pointer).kind is not Kind.MISSING:
            yield from linked_repository(pointer, self._table, self._look)
        yield from submodules(directory, self._table, self._look)

    def _below(self, directory: str, is_workspace: bool) -> Iterator[Rule]:
        for name in (*METADATA_NAMES, *OTHER_REPOSITORIES):
            path = join(directory, name)
            if not self._is_open(path) and not self._is_somebodys(path):
                is_kept = name in METADATA_NAMES and (
                    directory in self._roots or (is_workspace and name == GIT)
                )
                yield from self._metadata(path, is_kept)
        for path in (join(directory, name) for name in OTHER_REPOSITORIES):
            is_there = self._look.at(path).kind is Kind.DIRECTORY
            if is_there and directory not in self._temporary and not self._is_open(path):
                yield from shared_repositories(path, self._table, self._look)
        git = join(directory, GIT)
        if not self._is_open(git):
            yield from self._git(git, self._look.at(git), is_workspace)

    def _metadata(self, path: str, is_kept: bool) -> Iterator[Rule]:
        """Yield rules for metadata at a path. With `is_kept` the command may not create it either."""
        fact = self._look.at(path)
        # Wherever it leads: what is there may be hidden from whoever learns of the refusal.
        if fact.links and (is_kept or parent(path) in self._roots):
            raise ProfileRefused(
                path,
                "is protected but a symlink, which the command could replace",
                "replace it by what it leads to, or remove it",
            )
        if not fact.links and (fact.kind is not Kind.MISSING or is_kept):
            yield Rule(path, Access.READ, ORIGIN, is_metadata=True)

    def _git(self, path: str, fact: PathFact, is_workspace: bool) -> Iterator[Rule]:
        if not fact.links and fact.kind is not Kind.MISSING:
            is_trusted = is_workspace and self._is_owners(parent(path))
            if is_trusted or parent(path) not in self._temporary:
                yield from linked_repository(path, self._table, self._look, is_trusted=is_trusted)
        if not is_workspace:
            return
        if has_repository(parent(path), self._look):
            yield from submodules(parent(path), self._table, self._look)
        # Git looks past a `.git` that is an empty directory, but not past a file.
        if not ends_search(parent(path), self._look):
            yield from bare_repository(parent(path), self._look)

    def _is_somebodys(self, path: str) -> bool:
        """Return whether metadata may be another program's, which will remove it, and nobody obeys it."""
        directory = parent(path)
        return (
            directory in self._temporary
            and directory not in self._roots
            and self._look.at(path).kind is Kind.DIRECTORY
            and self._look.is_empty(path)
        )

    def _is_open(self, path: str) -> bool:
        """Return whether the profile itself lets the command write it."""
        return path in self._table and self._table.access_of(path) is Access.WRITE

    def _is_owners(self, directory: str) -> bool:
        """Return whether neither an earlier command nor another user can have made a repository there."""
        if directory in self._roots:
            return True
        writable = (*self._roots, *self._temporary)
        return not any(is_within(directory, other) for other in writable) and not self._look.is_open(
            directory
        )

    def _is_workspace(self, directory: str) -> bool:
        """Return whether the owner may run git there: in a project root, or the top of another grant."""
        if directory in self._roots:
            return True
        around = self._table.rule_of(parent(directory))
        is_within_another = any(
            is_within(directory, root) and self._table.access_of(root) is Access.WRITE for root in self._roots
        ) or (around is not None and around.access is Access.WRITE and around.path not in self._temporary)
        is_metadata = any(name in METADATA_NAMES for name in directory.split("/"))
        is_kernels = any(is_within(directory, tree) for tree in (DEV, PROC, KERNEL_OBJECTS))
        return not (is_within_another or is_metadata or is_kernels or directory in self._temporary)
