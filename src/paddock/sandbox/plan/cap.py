"""Bounds what any command may be granted, and what it may even name. Pure.

A client can name paths: project roots, and the entries of a profile of its own. If Paddock followed links in
a directory that the client can't read, the grant or refusal would tell the client what is there.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from paddock.errors import ProfileExceeded
from paddock.model.profile import (
    Access,
    AccessEntry,
    ExactPath,
    GlobPath,
    ManagedProfile,
)
from paddock.sandbox.plan.extent import Extent, exceeds
from paddock.sandbox.plan.visibility import Visibility
from paddock.sandbox.profile.enforced import EnforcedProfile, entries_of, restricted_files
from paddock.sandbox.profile.glob import parse_pattern
from paddock.sandbox.profile.path import clean, parent


class Cap(Struct, frozen=True):
    """The most that any command may be granted, and what its special paths refer to."""

    name: str
    profile: EnforcedProfile
    project_roots: tuple[str, ...]


class Ceiling(Struct, frozen=True):
    """A cap, applied to the files as they are at one moment."""

    cap: Cap
    extent: Extent
    visibility: Visibility

    def admit(self, wanted: Extent) -> None:
        """Raise ProfileExceeded for anything beyond the cap."""
        if excess := exceeds(wanted, self.extent):
            raise ProfileExceeded(excess, self.cap.name)

    def admit_names(self, paths: Iterable[str]) -> None:
        """Raise ProfileExceeded for a path that the client can't see, whatever is there."""
        for path in paths:
            if not self.visibility.has_way_to(path):
                raise ProfileExceeded(f"access to {path}, where the most is none", self.cap.name)

    def visible_part(self, profile: EnforcedProfile) -> EnforcedProfile:
        """Leave out denials below what the client can't see, which add nothing, and refuse grants there.

        The cap's own entries stay as they are.
        """
        own = entries_of(self.cap.profile)
        named = [entry for entry in entries_of(profile) if entry not in own]
        hidden = [entry for entry in named if entry.access is Access.DENY and not self._is_seen(entry)]
        self.admit_names(
            clean(entry.path.path)
            for entry in named
            if entry.access is not Access.DENY and isinstance(entry.path, ExactPath)
        )
        if not hidden:
            return profile
        files = restricted_files(profile)
        assert isinstance(profile, ManagedProfile)
        assert files is not None
        left = tuple(entry for entry in files.entries if entry not in hidden)
        return replace(profile, file_system=replace(files, entries=left))

    def _is_seen(self, entry: AccessEntry) -> bool:
        """Return whether the client can see the directory of a denied path, if not the path itself."""
        match entry.path:
            case ExactPath(path=path):
                return self.visibility.has_way_to(parent(clean(path)))
            case GlobPath(pattern=pattern) if pattern.startswith("/"):
                return self.visibility.has_way_to(parse_pattern(pattern).base)
            case _:
                return True
