"""Converts a profile between the wire and the model, which differ in how they write a path.

The wire has what the caller wrote, an absolute path or a `file:` URI; the model has the path
of the host. The caller of a conversion says how to convert a path. Nothing else may change
on the way, because a profile grants access: so this module names only fields that hold a path.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from msgspec import Struct, structs

from paddock.model import profile as model
from paddock.protocol import sandbox as wire
from paddock.protocol.path import HostPath


class _Form(NamedTuple):
    """The types of a profile that hold a path."""

    profile: type[Any]
    files: type[Any]
    entry: type[Any]
    path: type[Any]


_MODEL = _Form(model.ManagedProfile, model.RestrictedFileSystem, model.AccessEntry, model.ExactPath)
_WIRE = _Form(wire.ManagedProfile, wire.RestrictedFileSystem, wire.AccessEntry, wire.ExactPath)


def profile_from_wire(
    permissions: wire.PermissionProfile, path_of: Callable[[HostPath], str]
) -> model.Profile:
    """Return the profile that a request asks for."""
    profile: model.Profile = _convert(permissions, _WIRE, _MODEL, path_of)
    return profile


def profile_to_wire(profile: model.Profile, path_of: Callable[[str], HostPath]) -> wire.PermissionProfile:
    """Return the profile to put in a request."""
    permissions: wire.PermissionProfile = _convert(profile, _MODEL, _WIRE, path_of)
    return permissions


def _convert(profile: Any, given: _Form, wanted: _Form, path_of: Callable[[Any], Any]) -> Any:
    def convert_path(path: Any) -> Any:
        return _like(path, wanted.path, path=path_of(path.path)) if type(path) is given.path else path

    if type(profile) is not given.profile:
        return profile
    files = profile.file_system
    if type(files) is given.files:
        entries = (_like(entry, wanted.entry, path=convert_path(entry.path)) for entry in files.entries)
        files = _like(files, wanted.files, entries=tuple(entries))
    return _like(profile, wanted.profile, file_system=files)


def _like(value: Struct, kind: type[Struct], **changes: Any) -> Struct:
    """Return a `kind` with the fields of a value, except for the changes."""
    return kind(**(structs.asdict(value) | changes))
