"""Protects repositories of Mercurial and Jujutsu that other working copies belong to.

`hg share` and `jj workspace add` make a working copy whose `.hg` or `.jj` names the repository elsewhere, and
these programs obey its configuration. An earlier command may have written such a name. So the rules only take
access away, and only from what has the name and the content of a repository, and nothing is refused. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

from paddock.errors import ProfileRefused
from paddock.model.profile import Access
from paddock.sandbox.host.look import Kind, Look
from paddock.sandbox.plan.git_metadata import HEAD, ORIGIN
from paddock.sandbox.profile.access import AccessTable, Rule
from paddock.sandbox.profile.path import join

_REPOSITORIES: Final = (("/.hg", "requires"), ("/.jj/repo", "store"), (".git", HEAD))
"""How the path of a repository ends, and what is in it. Jujutsu keeps commits in one of git's."""


def shared_repositories(metadata: str, table: AccessTable, look: Look) -> Iterator[Rule]:
    """Yield rules for the repositories that a `.hg` or `.jj` names."""
    repository = join(metadata, "repo")
    named = _named_in(repository, look.jujutsu_target, look)
    store = join(named or repository, "store")
    for path in (
        named,
        _named_in(join(metadata, "sharedpath"), look.mercurial_share, look),
        _named_in(join(store, "git_target"), look.jujutsu_target, look),
    ):
        if path is not None and table.access_of(path) is Access.WRITE:
            yield Rule(path, Access.READ, f"{ORIGIN}, through {metadata}", is_metadata=True)


def _named_in(file: str, written_in: Callable[[str], str | None], look: Look) -> str | None:
    """Return the repository that a file names; None if it names none, or one that can't be looked at."""
    with suppress(ProfileRefused):
        path = written_in(file)
        fact = None if path is None else look.at(path)
        if fact is not None and not fact.links:
            for ending, content in _REPOSITORIES:
                there = look.at(join(fact.real, content)).kind
                if fact.real.endswith(ending) and there is not Kind.MISSING:
                    return fact.real
    return None
