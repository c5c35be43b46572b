"""A sandbox with more permissions than the profile of an agent, exactly as a question says it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from paddock.agent.path_grant import PathGrant, read_grant, replacement_grant, write_grant
from paddock.agent.permission import Confinement, Permissions
from paddock.agent.place import Place, Places
from paddock.client.confinement import Sandbox
from paddock.sandbox.profile.path import is_within


class OpenedFile(Struct, frozen=True):
    """A file that a tool may use beyond the profile."""

    path: str
    """Where it is, without links: no operation on it may follow one."""
    sandbox: Sandbox
    """What shows this file alone, for operations on nothing else."""


class Widening(Struct, frozen=True):
    """A wider sandbox, and what is wider about it."""

    sandbox: Sandbox
    """With everything that is added."""
    added: Permissions
    changes: tuple[str, ...]
    """The changes that this makes, one sentence each."""
    refusal: str | None = None
    """Why nobody can have it, even after a yes."""
    files: tuple[tuple[str, OpenedFile], ...] = ()
    """For a tool that works on files: each path as it was asked for, and the file."""

    def covers(self, other: Widening) -> bool:
        """Return whether another, for the same permissions, is about the same files and no wider.

        What was missing may have been made meanwhile, by another call that was approved. Then the nearest
        directory that exists is another one, below that of before.
        """
        named, again = ([(asked, file.path) for asked, file in each.files] for each in (self, other))
        return (
            named == again
            and other.refusal is None
            and _are_within(other.added.write, self.added.write)
            and _are_within(other.added.read, (*self.added.read, *self.added.write))
        )


class Widener:
    """Widens the sandbox of one agent."""

    def __init__(self, confinement: Confinement, places: Places, sandbox: Sandbox | None) -> None:
        self._confinement = confinement
        self._places = places
        self._sandbox = sandbox

    async def widened(self, permissions: Permissions, *, for_files: bool = False) -> Widening | None:
        """Return a sandbox with more permissions; None where that can't be had. Raises RequestError.

        `for_files` is for a tool that reads and replaces these files, and nothing else.
        """
        if self._sandbox is None:
            return None
        if (permissions.read or permissions.write) and self._confinement.has_denied_paths:
            # An entry about a longer path wins: below what the profile denies, it would open that.
            return None
        written = [await self._places.find(path) for path in permissions.write]
        read = [await self._places.find(path) for path in permissions.read]
        writes = [replacement_grant(place) if for_files else write_grant(place) for place in written]
        reads = [read_grant(place) for place in read]
        added = Permissions(_paths(reads), _paths(writes), permissions.has_network, permissions.hosts)
        sandbox = self._with(added)
        if sandbox is None:
            return None
        files: list[tuple[str, OpenedFile]] = []
        if for_files:
            for place, grant in zip(written, writes, strict=True):
                self._open(files, place, Permissions(write=grant.paths))
            for place, grant in zip(read, reads, strict=True):
                self._open(files, place, Permissions(read=grant.paths))
        refusals = (grant.refusal for grant in (*writes, *reads) if grant.refusal is not None)
        return Widening(
            sandbox, added, _changes(permissions, writes, reads), next(refusals, None), tuple(files)
        )

    def _open(self, files: list[tuple[str, OpenedFile]], place: Place, added: Permissions) -> None:
        if (sandbox := self._with(added)) is not None:
            files.append((place.asked, OpenedFile(place.real, sandbox)))

    def _with(self, added: Permissions) -> Sandbox | None:
        profile = self._confinement.widened(added)
        return None if profile is None or self._sandbox is None else replace(self._sandbox, profile=profile)


def _are_within(paths: Iterable[str], directories: Sequence[str]) -> bool:
    return all(any(is_within(path, each) for each in directories) for path in paths)


def _paths(grants: Iterable[PathGrant]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(path for grant in grants for path in grant.paths))


def _changes(
    permissions: Permissions, writes: Sequence[PathGrant], reads: Sequence[PathGrant]
) -> tuple[str, ...]:
    changes = [grant.change for grant in (*writes, *reads)]
    if permissions.has_network:
        changes.append("It may use the network of the host.")
    elif permissions.hosts:
        changes += [f"It may reach {host}." for host in permissions.hosts]
    changes.append("Everything else stays as the profile says.")
    return tuple(changes)
