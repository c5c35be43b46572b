"""Reads and writes profiles in JSON.

Reads the tagged form, the older untagged form of the reference and the legacy policies, and gives the one
form in which the rest of Paddock knows profiles. Anything else is an error. Pure.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from paddock.errors import InvalidProfile
from paddock.model.profile import (
    Access,
    AccessEntry,
    ExactPath,
    Grant,
    ManagedProfile,
    NamedPath,
    NetworkMode,
    Profile,
    RestrictedFileSystem,
    RootPath,
)
from paddock.sandbox.profile.legacy import LEGACY_TYPES, parse_legacy
from paddock.sandbox.profile.path import ROOT


class _Switch(Grant, frozen=True, kw_only=True):
    enabled: bool | None = None


class _PathLists(Grant, frozen=True, kw_only=True):
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    entries: tuple[AccessEntry, ...] = ()
    glob_scan_max_depth: Annotated[int, Meta(gt=0)] | None = None


class _Untagged(Grant, frozen=True, kw_only=True):
    """The older form: a switch for the network, lists of paths."""

    network: _Switch = _Switch()
    file_system: _PathLists = _PathLists()


class _Tagged(Struct):
    type: str | UnsetType = UNSET


def parse_profile(text: str | bytes, origin: str) -> Profile:
    """Read a profile from JSON; `origin` names it in messages. Raises InvalidProfile."""
    try:
        kind = msgspec.json.decode(text, type=_Tagged).type
        if kind is UNSET:
            return _from_untagged(msgspec.json.decode(text, type=_Untagged))
        if kind in LEGACY_TYPES:
            return parse_legacy(msgspec.json.decode(text))
        profile: Profile = msgspec.json.decode(text, type=Profile)
        return profile
    except ValueError as error:
        raise InvalidProfile(origin, _sentence(error)) from error


def profile_of(value: Any, origin: str) -> Profile:
    """Make a profile from decoded JSON or TOML, as `parse_profile` does."""
    return parse_profile(msgspec.json.encode(value), origin)


def encode_profile(profile: Profile) -> bytes:
    """Encode a profile as JSON for `parse_profile` and, as far as possible, for other implementations."""
    written = msgspec.to_builtins(profile)
    if not written.get("limits", True):
        del written["limits"]
    return msgspec.json.encode(written)


def digest_of(profile: Profile) -> str:
    """Return a digest that no other profile has."""
    import hashlib

    return f"sha256:{hashlib.sha256(encode_profile(profile)).hexdigest()}"


def _from_untagged(written: _Untagged) -> ManagedProfile:
    lists = written.file_system
    entries = list(lists.entries)
    for access, paths in ((Access.READ, lists.read), (Access.WRITE, lists.write)):
        entries += [AccessEntry(path=_exact_path(path), access=access) for path in paths]
    return ManagedProfile(
        file_system=RestrictedFileSystem(
            entries=tuple(entries), glob_scan_max_depth=lists.glob_scan_max_depth
        ),
        network=NetworkMode.ENABLED if written.network.enabled else NetworkMode.RESTRICTED,
    )


_THE_ROOT: Final = NamedPath(value=RootPath())


def _exact_path(path: str) -> ExactPath | NamedPath:
    return _THE_ROOT if path == ROOT else ExactPath(path=path)


def _sentence(error: Exception) -> str:
    text = str(error)
    return text[:1].lower() + text[1:]
