"""What git would obey in a directory besides its `.git`.

Git takes a directory itself for a repository without a working tree ("bare") if it holds the right
names and no `.git`; it reads the configuration and the hooks of a linked worktree from the repository
that this belongs to; and it looks into every submodule that the index names. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from paddock.errors import ProfileRefused
from paddock.model.profile import Access
from paddock.sandbox.access import AccessTable, Rule
from paddock.sandbox.look import Kind, Look
from paddock.sandbox.path import ancestors, is_within, join

GIT: Final = ".git"
ORIGIN: Final = "protected metadata"

HEAD: Final = "HEAD"

_IMPOSSIBLE_WITHOUT: Final = ((HEAD,), ("refs", "commondir"), ("objects", "commondir"))
"""Each of these makes a bare repository impossible where they are empty files: git wants a HEAD that says
something, and `refs` and `objects` that can be searched, there or where `commondir` says."""

NESTING_LIMIT: Final = 8
"""Of submodules in submodules."""


def bare_repository(directory: str, look: Look) -> Iterator[Rule]:
    """Rules that keep a directory without `.git` from becoming a repository, or protect what it is."""
    # Where git finds a repository further up, a file of the name HEAD would make that word ambiguous.
    is_in_repository = any(
        look.at(join(place, GIT)).kind is not Kind.MISSING for place in ancestors(directory)
    )
    first, *others = _IMPOSSIBLE_WITHOUT
    for names in (*others, first) if is_in_repository else _IMPOSSIBLE_WITHOUT:
        facts = [look.at(join(directory, name)) for name in names]
        if all(fact.kind is Kind.MISSING and not fact.links for fact in facts):
            for name in names:
                # Tools take a directory for a package, and git adds a file to the repository around it.
                yield replace(_read_only(join(directory, name)), stands_as_file=not is_in_repository)
            return
    # It is one, or nearly. A place for each name that git would obey there would break it for everybody.
    yield _read_only(directory)


def repositories_around(directory: str, look: Look) -> Iterator[str]:
    """Return the directories above one, from which git would find a repository by their `.git`."""
    for place in ancestors(directory):
        pointer = look.at(join(place, GIT))
        if pointer.kind is Kind.FILE or look.at(join(join(place, GIT), HEAD)).kind is not Kind.MISSING:
            yield place


def linked_repository(
    pointer: str, table: AccessTable, look: Look, *, is_trusted: bool = True
) -> Iterator[Rule]:
    """Rules for what a `.git` file points to, as in a linked worktree or a submodule.

    If it is not `is_trusted`, an earlier command may have written the file. So this may only take away, and
    nothing but a repository: where the profile denies, or grants no more than reading, there is nothing to
    protect, and what lies behind links is left alone.
    """
    directory = look.gitdir(pointer)
    if directory is None:
        return
    for place in (directory, look.commondir(directory)):
        if place is None:
            continue
        fact = look.at(place)
        if is_trusted:
            is_protected = fact.kind is not Kind.FILE
        else:
            has_head = look.at(join(place, HEAD)).kind is Kind.FILE
            is_protected = fact.kind is Kind.DIRECTORY and not fact.links and has_head
        if is_protected and table.access_of(fact.real) is Access.WRITE:
            yield Rule(place, Access.READ, f"{ORIGIN}, through {pointer}", is_metadata=True)


def submodules(directory: str, table: AccessTable, look: Look, nesting: int = 0) -> Iterator[Rule]:
    """Rules for the `.git` of every submodule that the repository of a directory names, if it can be written.

    An empty directory, where a submodule is not checked out, is protected as a whole. Raises ProfileRefused
    for one behind a link that the command could replace.
    """
    repository = join(directory, GIT)
    if look.at(repository).kind is Kind.FILE:
        repository = look.gitdir(repository) or repository
    for name in look.gitlinks(repository) if nesting < NESTING_LIMIT else ():
        place = join(directory, name)
        pointer = join(place, GIT)
        fact = look.at(pointer)
        for link in fact.links:
            if table.access_of(link.path) is Access.WRITE:
                raise ProfileRefused(
                    pointer,
                    f"is a submodule's but behind the symlink {link.path}, which the command could replace",
                    "replace the link by a directory",
                )
        if fact.links:
            continue
        if table.access_of(pointer) is Access.WRITE and pointer not in table:
            yield from _submodule(place, pointer, fact.kind, table, look)
        if fact.kind is not Kind.MISSING and _is_anything_writable(place, table):
            yield from submodules(place, table, look, nesting + 1)


def _submodule(place: str, pointer: str, kind: Kind, table: AccessTable, look: Look) -> Iterator[Rule]:
    is_missing = kind is Kind.MISSING
    file = next((each for each in (place, *ancestors(place)) if look.at(each).kind is Kind.FILE), None)
    if file is not None:
        # In place of the submodule, or of a directory above it.
        yield _read_only(file)
        return
    if is_missing and look.at(place).kind is Kind.DIRECTORY and place not in table and look.is_empty(place):
        yield _read_only(place)
        return
    yield _read_only(pointer)
    if kind is Kind.FILE:
        yield from linked_repository(pointer, table, look)


def _is_anything_writable(place: str, table: AccessTable) -> bool:
    return table.access_of(place) is Access.WRITE or any(
        rule.access is Access.WRITE and is_within(rule.path, place) for rule in table.rules
    )


def _read_only(path: str) -> Rule:
    return Rule(path, Access.READ, ORIGIN, is_metadata=True)
