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
from paddock.sandbox.look import Kind, Look
from paddock.sandbox.path import join

GIT: Final = ".git"
NAMES: Final = (GIT, ".codex", ".agents", ".aws", ".paddock")
"""Protected directly under each writable directory."""

ORIGIN: Final = "protected metadata"


def protections(table: AccessTable, project_roots: Iterable[str], look: Look) -> Iterator[Rule]:
    """Read-only rules for the metadata under each writable directory, except for what the profile opens.

    What is missing is protected under project roots only, for there alone its owner
    would take it for the workspace's own. A link can't be protected, because the command
    could replace it: under a project root it raises ProfileRefused, elsewhere it is left
    alone, for there an earlier command can make one as it likes.
    """
    roots = frozenset(project_roots)
    for rule in table.rules:
        if rule.access is not Access.WRITE or look.at(rule.path).kind is not Kind.DIRECTORY:
            continue
        for name in NAMES:
            path = join(rule.path, name)
            if path in table and table.access_of(path) is Access.WRITE:
                continue
            fact = look.at(path)
            if fact.links:
                if rule.path not in roots:
                    continue
                raise ProfileRefused(
                    path,
                    "is protected but a symlink, which the command could replace",
                    f"replace it by a directory, or grant write access to {path}",
                )
            if fact.kind is not Kind.MISSING or rule.path in roots:
                yield Rule(path, Access.READ, ORIGIN, is_metadata=True)
            if name == GIT and fact.kind is Kind.FILE:
                yield from _linked_git_directory(path, table, look)


def _linked_git_directory(pointer: str, table: AccessTable, look: Look) -> Iterator[Rule]:
    """What a `.git` file points to, as in a linked worktree or a submodule.

    An earlier command may have written the file, so this may only take away: where the
    profile denies, or grants no more than reading, there is nothing to protect.
    """
    directory = look.gitdir(pointer)
    if directory is None:
        return
    fact = look.at(directory)
    if fact.kind is Kind.DIRECTORY and table.access_of(fact.real) is Access.WRITE:
        yield Rule(directory, Access.READ, f"{ORIGIN}, through {pointer}")
