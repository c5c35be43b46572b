"""The four policies that came before profiles, and where the two are equivalent.

A legacy policy always has a profile. A profile has a legacy policy only if that means
exactly the same; `to_legacy` gives None for all others. Pure.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Struct, field

from paddock.errors import InvalidProfile
from paddock.model.legacy_policy import (
    DangerFullAccess,
    ExternalSandbox,
    LegacyPolicy,
    ReadOnly,
    WorkspaceWrite,
)
from paddock.model.profile import (
    Access,
    AccessEntry,
    DisabledProfile,
    ExactPath,
    ExternalProfile,
    Limits,
    ManagedProfile,
    NamedPath,
    NetworkMode,
    Profile,
    ProjectRoots,
    RestrictedFileSystem,
    RootPath,
    SlashTmp,
    SpecialPath,
    TemporaryDirectory,
    UnrestrictedFileSystem,
)
from paddock.sandbox.metadata import NAMES

LEGACY_TYPES: Final = frozenset(("read-only", "workspace-write", "danger-full-access", "external-sandbox"))

MODE_KEY: Final = "sandbox_mode"
TABLE_KEY: Final = "sandbox_workspace_write"
"""The two keys by which a TOML file says the same."""


class _Mode(Struct, forbid_unknown_fields=True):
    sandbox_mode: str
    sandbox_workspace_write: dict[str, Any] = field(default_factory=dict)


def parse_legacy(value: Any) -> Profile:
    """The profile of a legacy policy written as an object with a `type`. Raises msgspec.DecodeError."""
    policy = msgspec.convert(value, type=LegacyPolicy)
    try:
        return from_legacy(policy)
    except ValueError as error:
        raise msgspec.ValidationError(str(error)) from error


def parse_legacy_table(table: dict[str, Any], origin: str) -> Profile:
    """The profile of `sandbox_mode` and `[sandbox_workspace_write]` of a TOML file. Raises InvalidProfile."""
    try:
        written = msgspec.convert(table, type=_Mode)
        settings = written.sandbox_workspace_write if written.sandbox_mode == "workspace-write" else {}
        return parse_legacy({"type": written.sandbox_mode, **settings})
    except msgspec.ValidationError as error:
        raise InvalidProfile(origin, str(error)) from error


def from_legacy(policy: LegacyPolicy) -> Profile:
    """The profile that means the same. Raises ValueError for a root that is no path."""
    match policy:
        case DangerFullAccess():
            return DisabledProfile()
        case ExternalSandbox(network_access=network):
            return ExternalProfile(network=network)
        case ReadOnly(network_access=has_network):
            return _managed([_special(RootPath(), Access.READ)], has_network)
        case WorkspaceWrite(network_access=has_network):
            return _managed(_workspace_entries(policy), has_network)


def to_legacy(profile: Profile) -> LegacyPolicy | None:
    """The legacy policy that means exactly the same; None if there is none."""
    match profile:
        case DisabledProfile():
            return DangerFullAccess()
        case ExternalProfile(network=NetworkMode.RESTRICTED | NetworkMode.ENABLED as network):
            return ExternalSandbox(network_access=network)
        case ManagedProfile(file_system=UnrestrictedFileSystem(), network=network, limits=limits):
            # Not that of `external-sandbox`: nobody outside was said to confine anything.
            is_open = network is NetworkMode.ENABLED and limits == Limits()
            return DangerFullAccess() if is_open else None
        case ManagedProfile(file_system=RestrictedFileSystem(entries=entries), network=network):
            return next((policy for policy in _guesses(entries, network) if _same(policy, profile)), None)
        case _:
            return None


def _guesses(entries: tuple[AccessEntry, ...], network: NetworkMode) -> list[LegacyPolicy]:
    """The policies that a profile could be equivalent to, by what it makes writable."""
    has_network = network is NetworkMode.ENABLED
    places = [entry.path for entry in entries if entry.access is Access.WRITE]
    specials = [place.value for place in places if isinstance(place, NamedPath)]
    return [
        ReadOnly(network_access=has_network),
        WorkspaceWrite(
            writable_roots=tuple(place.path for place in places if isinstance(place, ExactPath)),
            network_access=has_network,
            exclude_tmpdir_env_var=TemporaryDirectory() not in specials,
            exclude_slash_tmp=SlashTmp() not in specials,
        ),
    ]


def _same(policy: LegacyPolicy, profile: ManagedProfile) -> bool:
    """Whether a policy means what a profile says.

    The order of entries means nothing, and to protect what is protected anyway neither.
    """
    expected = from_legacy(policy)
    if not isinstance(expected, ManagedProfile) or profile.limits != Limits():
        return False
    return expected.network is profile.network and _meaning(expected) == _meaning(profile)


def _meaning(profile: ManagedProfile) -> frozenset[tuple[object, Access]]:
    assert isinstance(profile.file_system, RestrictedFileSystem)
    protected = {ProjectRoots(subpath=name) for name in NAMES}
    return frozenset(
        (entry.path, entry.access)
        for entry in profile.file_system.entries
        if not (
            isinstance(entry.path, NamedPath)
            and entry.path.value in protected
            and entry.access is Access.READ
        )
    )


def _workspace_entries(policy: WorkspaceWrite) -> list[AccessEntry]:
    entries = [_special(RootPath(), Access.READ), _special(ProjectRoots(), Access.WRITE)]
    if not policy.exclude_slash_tmp:
        entries.append(_special(SlashTmp(), Access.WRITE))
    if not policy.exclude_tmpdir_env_var:
        entries.append(_special(TemporaryDirectory(), Access.WRITE))
    entries += [AccessEntry(path=ExactPath(path=root), access=Access.WRITE) for root in policy.writable_roots]
    return entries + [
        _special(ProjectRoots(subpath=name), Access.READ, missing_path_behavior="skip") for name in NAMES
    ]


def _special(value: SpecialPath, access: Access, **options: Any) -> AccessEntry:
    return AccessEntry(path=NamedPath(value=value), access=access, **options)


def _managed(entries: list[AccessEntry], has_network: bool) -> ManagedProfile:
    return ManagedProfile(
        file_system=RestrictedFileSystem(entries=tuple(entries)),
        network=NetworkMode.ENABLED if has_network else NetworkMode.RESTRICTED,
    )
