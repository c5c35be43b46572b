"""Finds what else must be denied on this host because of what a profile denies.

A pattern denies the files that it matches, and directories as a whole; for a symbolic link it denies the
target. The search does not follow links to directories. A file that is denied, by a pattern, by its path or
with its directory, is also denied under its other names in the project roots and where the patterns search. A
directory there that can't be searched is denied as a whole if the command could get into it, for example by
changing its mode.

The result is a snapshot without files that are created later. The scanner remembers trees, even for the next
process, and reads a directory again only when its change time differs. A command can set back a modification
time but not a change time. So a large tree costs one stat for each directory.

If ripgrep is installed, it lists the files of a large tree that is not remembered, while our own walk finds
everything else. With 100 000 files in 10 000 directories our process then took two thirds of the processor
time of the walk alone; on a fully loaded machine, which ripgrep has to share, the search took as long as
without it.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from paddock import own_program
from paddock.errors import ProfileRefused
from paddock.model.profile import Access
from paddock.sandbox.host import question, ripgrep
from paddock.sandbox.host.hard_link import FileId, file_id, files_with_several_names
from paddock.sandbox.host.lookup_record import LookupRecord
from paddock.sandbox.host.tree_memory import Tree, TreeMemory
from paddock.sandbox.host.tree_search import Bounds, TreeSearch
from paddock.sandbox.profile.access import Grants
from paddock.sandbox.profile.glob import Matcher, deepest_match
from paddock.sandbox.profile.path import PROC, ROOT, ancestors, is_within, join

MATCH_LIMIT: Final = 1000
"""Matches of one profile. Each is a mount, and bubblewrap reads the whole table of mounts for each: a
thousand take some seconds, and the time grows with the square."""


NOTED_DIRECTORIES: Final = 2000
"""Directories to note of one search. To look at them again takes as long as to plan."""


class Scanner:
    """Searches, and remembers. May be used from any thread.

    With `memory_file`, in a directory that no command can write, the next process remembers too.
    `search_path` says where to look for ripgrep; the default is PATH.
    """

    def __init__(self, memory_file: Path | None = None, search_path: str | None = None) -> None:
        self._memory = TreeMemory(memory_file)
        self._search_path = own_program.search_path() if search_path is None else search_path

    def matches(
        self,
        grants: Grants,
        project_roots: Sequence[str] = (),
        max_depth: int | None = None,
        closed: Iterable[str] = (),
    ) -> tuple[str, ...]:
        """Return the resolved paths to deny besides those that the profile names, sorted.

        Searches for patterns down to `max_depth`, and for other names everywhere below the resolved project
        roots and where the patterns search, except in what is `closed` anyway and in /proc, of which a
        command sees its own. Raises ProfileRefused when there is more than can be denied, or when the
        search's own root would be denied.
        """
        closed = {*closed, PROC}
        denied = _paths(grants, Access.DENY)
        writable = _paths(grants, Access.WRITE)
        granted = (writable | _paths(grants, Access.READ)) - denied
        passages = frozenset(passed for path in granted for passed in (path, *ancestors(path)))
        rests: dict[str, list[str]] = {}
        for pattern in grants.denied_patterns:
            rests.setdefault(os.path.realpath(pattern.base), []).append(pattern.rest)
        roots = _outermost((*rests, *project_roots))
        found: set[str] = set()
        for top, those in rests.items():
            bounds = Bounds(top, _depth(those, max_depth), denied.union(closed) - passages, passages)
            found |= self._named_by(those, bounds, workspaces=writable.union(roots))
        files = files_with_several_names((*sorted(found), *sorted(denied)), granted)
        if files:
            passed_over = denied.union(found, closed) - passages
            for root in roots:
                found |= self._names_of(files, Bounds(root, None, passed_over, passages))
        self._memory.save()
        _refuse_too_many(found)
        return tuple(sorted(found))

    def names_in_grants(
        self,
        files: frozenset[FileId],
        grants: Grants,
        own: Iterable[str],
        temporary: Iterable[str],
        lookups: LookupRecord | None = None,
    ) -> tuple[str, ...]:
        """Return the names that files have where the command may write, besides those in `own`.

        Includes directories there that can't be searched. It does not search `temporary` directories, and
        searches nothing if everything is granted. The directories that it searched go to `lookups`.
        """
        writable = _outermost(_paths(grants, Access.WRITE).difference(temporary))
        if not files or ROOT in writable:
            return ()
        closed = frozenset((*own, *_paths(grants, Access.DENY))).difference(writable)
        found: set[str] = set()
        for top in writable:
            if os.path.isdir(top):
                found |= self._names_of(files, Bounds(top, None, closed, frozenset()), lookups)
            elif file_id(top) in files:
                found.add(top)
        self._memory.save()
        if lookups is not None:
            # What is not a directory, and what can't be searched, was looked at besides.
            lookups.is_complete &= not found and all(map(os.path.isdir, writable))
        return tuple(sorted(found))

    def _named_by(self, rests: Sequence[str], bounds: Bounds, workspaces: Iterable[str]) -> set[str]:
        matcher = Matcher(rests)
        key = f"{bounds.top} {rests} {bounds.max_depth}"
        search = TreeSearch(
            bounds,
            lambda path, _: matcher.matches(path),
            self._memory.recall(key),
            partial(self._list_files, rests, bounds, workspaces),
        )
        targets = {_target(path, bounds.top) for path in self._hits(key, search, bounds.top)}
        return {target for target in targets if _may_exist(target, bounds.top)}.union(
            _unseen(search, bounds.top)
        )

    def _names_of(
        self, files: frozenset[FileId], bounds: Bounds, lookups: LookupRecord | None = None
    ) -> set[str]:
        inodes = {inode for _, inode in files}
        key = f"{bounds.top} {hashlib.sha256(repr(sorted(files)).encode()).hexdigest()}"
        search = TreeSearch(bounds, lambda _, entry: entry.inode() in inodes, self._memory.recall(key))
        hits = list(self._hits(key, search, bounds.top))
        if lookups is not None:
            _note_search(lookups, bounds.top, self._memory.recall(key))
        names = {path for path in hits if file_id(path) in files}
        return names.union(_unseen(search, bounds.top))

    def _hits(self, key: str, search: TreeSearch, top: str) -> Iterator[str]:
        tree = search.run()
        self._memory.remember(key, tree)
        for relative, directory in tree.items():
            yield from (os.path.join(top, relative, name) for name in directory.hits)

    def _list_files(
        self, rests: Sequence[str], bounds: Bounds, workspaces: Iterable[str]
    ) -> ripgrep.FileListing | None:
        here = []
        with suppress(OSError):
            here.append(os.getcwd())
        program = ripgrep.find(self._search_path, (*workspaces, *here))
        return None if program is None else ripgrep.list_files(program, bounds.top, rests, bounds.max_depth)


def _note_search(lookups: LookupRecord, top: str, tree: Tree) -> None:
    """Note what was found in each directory, for whoever wants to know whether it is still the same."""
    has_hits = any(directory.hits for directory in tree.values())
    if has_hits or len(lookups) + len(tree) > NOTED_DIRECTORIES:
        lookups.is_complete = False
        return
    for relative, directory in tree.items():
        path = os.path.join(top, relative) if relative else top
        stamp = (directory.inode, directory.changed_ns) if directory.is_settled else None
        lookups.note(question.own_names_in, path, (stamp, directory.directories, directory.hits))


def _paths(grants: Grants, access: Access) -> frozenset[str]:
    return frozenset(os.path.realpath(rule.path) for rule in grants.rules if rule.access is access)


def _outermost(directories: Iterable[str]) -> list[str]:
    """Return those of the directories that do not lie in another of them."""
    kept: list[str] = []
    for directory in sorted(directories):
        if not any(is_within(directory, other) for other in kept):
            kept.append(directory)
    return kept


def _depth(rests: Iterable[str], max_depth: int | None) -> int | None:
    """Return how deep to search for any of these."""
    depths = [deepest_match(rest) for rest in rests]
    bounded = [depth for depth in depths if depth is not None]
    deepest = max(bounded) if len(bounded) == len(depths) else None
    return min((depth for depth in (deepest, max_depth) if depth is not None), default=None)


def _unseen(search: TreeSearch, top: str) -> Iterator[str]:
    return (join(top, relative) if relative else top for relative in search.unseen)


def _may_exist(path: str, top: str) -> bool:
    """Return whether something of the user's may be at a path: what holds a place for a command is not."""
    found = question.status(path)
    if isinstance(found, int):
        # A path out of reach below the top is denied with its directory; elsewhere the plan judges whether
        # the command could change that.
        return found == errno.EACCES and not is_within(path, top)
    _, _, is_placeholder, _ = found
    return not is_placeholder


def _target(path: str, top: str) -> str:
    """Return what is at a path, or the target of a link there."""
    if not os.path.islink(path):
        return path
    target = os.path.realpath(path)
    if is_within(top, target):
        # An earlier command may have made the link for just this purpose.
        raise ProfileRefused(
            path, f"matches a deny pattern and leads to {target} and everything in it", "remove the link"
        )
    return target


def _refuse_too_many(found: set[str]) -> None:
    if len(found) > MATCH_LIMIT:
        raise ProfileRefused(
            "the deny patterns",
            f"match {len(found)} paths, more than the {MATCH_LIMIT} that can be denied one by one",
            "deny the directories they are in",
        )
