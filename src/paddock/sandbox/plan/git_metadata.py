"""Protects what git obeys in a directory besides its `.git`.

Git takes a directory itself for a repository without a working tree ("bare") if it holds the right names and
no `.git`. It reads the configuration and hooks of a linked worktree from the repository that the worktree
belongs to. And it looks into every submodule that the index names, or that is in a directory which a sparse
index names. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from paddock.errors import ProfileRefused
from paddock.model.profile import Access
from paddock.sandbox.host.look import Kind, Look, PathFact
from paddock.sandbox.profile.access import AccessTable, Rule
from paddock.sandbox.profile.path import ancestors, is_within, join

GIT: Final = ".git"
ORIGIN: Final = "protected metadata"

HEAD: Final = "HEAD"

_IMPOSSIBLE_WITHOUT: Final = ((HEAD,), ("refs", "commondir"), ("objects", "commondir"))
"""Each of these, as empty files or sockets, makes a bare repository impossible: git wants a HEAD with
content, and searchable `refs` and `objects`, there or where `commondir` says."""

REPOSITORY_NAMES: Final = frozenset(name for names in _IMPOSSIBLE_WITHOUT for name in names)
"""What a directory holds that git takes for a repository."""

NESTING_LIMIT: Final = 8
"""Limit for submodules in submodules."""


def bare_repository(directory: str, look: Look) -> Iterator[Rule]:
    """Yield rules that keep a directory without `.git` from becoming a repository, or that protect it."""
    # Where git finds a repository further up, a file named HEAD would make that word ambiguous.
    is_in_repository = any(
        look.at(join(above, GIT)).kind is not Kind.MISSING for above in ancestors(directory)
    )
    first, *others = _IMPOSSIBLE_WITHOUT
    for names in (*others, first) if is_in_repository else _IMPOSSIBLE_WITHOUT:
        facts = [look.at(join(directory, name)) for name in names]
        if all(fact.kind is Kind.MISSING and not fact.links for fact in facts):
            for name in names:
                # Tools would take a directory for a package, and git would add a file to the repository
                # around it. Neither sees a socket, but a socket needs a placeholder `.git` beside it.
                yield replace(
                    _read_only(join(directory, name)),
                    stands_as_socket=is_in_repository and look.at(join(directory, GIT)).kind is Kind.MISSING,
                    stands_as_file=True,
                )
            return
    # It is a repository, or nearly. Placeholders for all names that git obeys would break it for everybody.
    yield _read_only(directory)


def repositories_around(directory: str, look: Look) -> Iterator[str]:
    """Return the directories above one whose `.git` git would find."""
    return (above for above in ancestors(directory) if has_repository(above, look))


def ends_search(directory: str, look: Look) -> bool:
    """Return whether git certainly looks no further than the `.git` of a directory.

    Git looks past a damaged repository, such as one with an empty HEAD, at the directory itself and further
    up.
    """
    pointer = join(directory, GIT)
    kind = look.at(pointer).kind
    return kind is Kind.FILE or (kind is Kind.DIRECTORY and look.is_git_directory(pointer))


def has_repository(directory: str, look: Look) -> bool:
    """Return whether a directory's `.git` is a repository, perhaps a damaged one."""
    pointer = join(directory, GIT)
    head = look.at(join(pointer, HEAD))
    return look.at(pointer).kind is Kind.FILE or head.kind is not Kind.MISSING or bool(head.links)


def linked_repository(
    pointer: str, table: AccessTable, look: Look, *, is_trusted: bool = True
) -> Iterator[Rule]:
    """Yield rules for what a `.git` points to, as in a linked worktree or a submodule.

    Usually it is a file, but a directory may point elsewhere too, by a `commondir` in it. Unless it
    `is_trusted`, an earlier command may have written it. So these rules only take access away, and only from
    a repository: where the profile denies, or grants only reading, there is nothing to protect, and paths
    behind links are left alone. Raises ProfileRefused if the command could make it point elsewhere.
    """
    found = look.at(pointer)
    named = look.gitdir(pointer) if found.kind is Kind.FILE else None
    directory = pointer if found.kind is Kind.DIRECTORY else named
    if directory is None:
        return
    real = look.at(directory).real
    # Where a link stands in place of the `.git`, what it leads to is not protected with that.
    itself = pointer if found.links else None
    for git_directory, named_in in (
        (itself, found.real),
        (named, found.real),
        (look.commondir(real), real),
    ):
        if git_directory is None or (git_directory == pointer and itself is None):
            continue
        if (left := replaceable_by_link(git_directory, named_in, table, look)) is not None:
            if is_trusted:
                raise ProfileRefused(
                    pointer,
                    f"leads through {left}/.., and the command could replace {left} by a link",
                    "write the path without `..`",
                )
            continue
        fact = look.at(git_directory)
        if is_trusted:
            is_protected = fact.kind is not Kind.FILE or git_directory == itself
        else:
            has_head = look.at(join(git_directory, HEAD)).kind is Kind.FILE
            is_protected = fact.kind is Kind.DIRECTORY and not fact.links and has_head
        # A link that the command could replace is refused with the rule, wherever it leads now.
        decisive = (fact.real, *(link.path for link in fact.links))
        if is_protected and any(table.access_of(path) is Access.WRITE for path in decisive):
            yield Rule(git_directory, Access.READ, f"{ORIGIN}, through {pointer}", is_metadata=True)


def replaceable_by_link(path: str, named_in: str, table: AccessTable, look: Look) -> str | None:
    """Return a directory that a path enters and leaves by `..`, and that the command could replace by a link.

    Returns None if there is none. What holds the file that names the path is protected with it.
    """
    names = path.split("/")
    entered = ("/".join(names[:place]) for place, name in enumerate(names) if name == "..")
    for directory in (look.at(each).real for each in entered):
        if table.access_around(directory) is Access.WRITE and not is_within(named_in, directory):
            return directory
    return None


def submodules(directory: str, table: AccessTable, look: Look, nesting: int = 0) -> Iterator[Rule]:
    """Yield rules for the `.git` of every submodule that a directory's repository names, if it is writable.

    An empty directory, where a submodule is not checked out, is protected as a whole, and so is one in which
    only git could tell where submodules are. Raises ProfileRefused for one behind a link that the command
    could replace.
    """
    repository = join(directory, GIT)
    if look.at(repository).kind is Kind.FILE:
        # Without the `..` by which git writes it: whether the command could lead that elsewhere is a question
        # about the pointer, and `linked_repository` asks it.
        repository = look.at(look.gitdir(repository) or repository).real
    names, sparse = look.gitlinks(repository), look.sparse_directories(repository)
    if nesting >= NESTING_LIMIT and (names or sparse):
        raise ProfileRefused(
            repository,
            f"names submodules of a submodule that is {NESTING_LIMIT} deep in others",
            "run the command in one of these",
        )
    trees = tuple(_working_trees(directory, repository, table, look)) if names or sparse else ()
    for unread in (join(tree, name) for tree in trees for name in sparse):
        yield from _sparse_directory(unread, table, look)
    for submodule in (join(tree, name) for tree in trees for name in names):
        pointer = join(submodule, GIT)
        fact = look.at(pointer)
        _refuse_replaceable(pointer, "is a submodule's", fact, table)
        if fact.links:
            continue
        is_writable = table.access_of(pointer) is Access.WRITE
        if is_writable and pointer not in table:
            yield from _submodule(submodule, pointer, fact.kind, table, look)
        # A pointer that only others can write may still lead to a place that the command can.
        if fact.kind is not Kind.MISSING and not (is_writable and pointer in table):
            yield from linked_repository(pointer, table, look)
        if fact.kind is not Kind.MISSING and _is_anything_writable(submodule, table):
            yield from submodules(submodule, table, look, nesting + 1)


def _sparse_directory(directory: str, table: AccessTable, look: Look) -> Iterator[Rule]:
    """Yield a rule that closes a directory of a sparse index, if it is writable.

    Git reads its tree as soon as the directory is there, and then obeys what is in place of a submodule.
    Raises ProfileRefused if the profile grants something in it.
    """
    fact = look.at(directory)
    _refuse_replaceable(directory, "may hold submodules", fact, table)
    if fact.links:
        return
    for rule in table.rules:
        if rule.access is Access.WRITE and is_within(rule.path, directory):
            raise ProfileRefused(
                f"write access to {rule.path}",
                "would let the command make what git takes for a submodule: the repository's index is sparse,"
                f" and does not tell where there are any in {directory}",
                "run `git sparse-checkout reapply --no-sparse-index`",
            )
    if table.access_of(directory) is Access.WRITE:
        yield _read_only(_file_at(directory, look) or directory)


def _refuse_replaceable(path: str, problem: str, fact: PathFact, table: AccessTable) -> None:
    """Refuse a path behind a link that the command could replace by a directory."""
    for link in fact.links:
        if table.access_of(link.path) is Access.WRITE:
            raise ProfileRefused(
                path,
                f"{problem} but behind the symlink {link.path}, which the command could replace",
                "replace the link by a directory",
            )


def _file_at(directory: str, look: Look) -> str | None:
    """Return the file or link that stands in place of a directory, or of one above it; None if none does."""
    return next(
        (each for each in (directory, *ancestors(directory)) if look.at(each).kind is Kind.FILE), None
    )


def _working_trees(directory: str, repository: str, table: AccessTable, look: Look) -> Iterator[str]:
    """Yield a repository's directory, and others where its settings say that its working tree is.

    Raises ProfileRefused if the command could make the settings lead elsewhere.
    """
    seen = {directory}
    yield directory
    real = look.at(repository).real
    for path in look.worktrees(repository):
        fact = look.at(path)
        links = (link.path for link in fact.links if table.access_of(link.path) is Access.WRITE)
        left = replaceable_by_link(path, real, table, look) or next(links, None)
        if left is not None:
            raise ProfileRefused(
                repository,
                f"has its working tree behind {left}, which the command could replace by a link",
                "write the path in core.worktree without links and `..`",
            )
        if fact.real not in seen:
            seen.add(fact.real)
            yield fact.real


def _submodule(submodule: str, pointer: str, kind: Kind, table: AccessTable, look: Look) -> Iterator[Rule]:
    is_missing = kind is Kind.MISSING
    file = _file_at(submodule, look)
    if file is not None:
        yield _read_only(file)
        return
    if (
        is_missing
        and look.at(submodule).kind is Kind.DIRECTORY
        and submodule not in table
        and look.is_empty(submodule)
    ):
        yield _read_only(submodule)
        return
    yield _read_only(pointer)


def _is_anything_writable(directory: str, table: AccessTable) -> bool:
    return table.access_of(directory) is Access.WRITE or any(
        rule.access is Access.WRITE and is_within(rule.path, directory) for rule in table.rules
    )


def _read_only(path: str) -> Rule:
    return Rule(path, Access.READ, ORIGIN, is_metadata=True)
