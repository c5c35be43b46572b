"""Translates the four policies that came before profiles into profiles. Pure."""

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
)
from paddock.sandbox.profile.access import METADATA_NAMES

LEGACY_TYPES: Final = frozenset(("read-only", "workspace-write", "danger-full-access", "external-sandbox"))

MODE_KEY: Final = "sandbox_mode"
TABLE_KEY: Final = "sandbox_workspace_write"
"""The two keys by which a TOML file names such a policy."""


class _Mode(Struct, forbid_unknown_fields=True):
    sandbox_mode: str
    sandbox_workspace_write: dict[str, Any] = field(default_factory=dict)


def parse_legacy(value: Any) -> Profile:
    """Parse a legacy policy written as an object with a `type` into a profile. Raises msgspec.DecodeError."""
    policy = msgspec.convert(value, type=LegacyPolicy)
    try:
        return from_legacy(policy)
    except ValueError as error:
        raise msgspec.ValidationError(str(error)) from error


def parse_legacy_table(table: dict[str, Any], origin: str) -> Profile:
    """Parse `sandbox_mode` and `[sandbox_workspace_write]` of a TOML file. Raises InvalidProfile."""
    try:
        written = msgspec.convert(table, type=_Mode)
        settings = written.sandbox_workspace_write if written.sandbox_mode == "workspace-write" else {}
        return parse_legacy({"type": written.sandbox_mode, **settings})
    except msgspec.ValidationError as error:
        raise InvalidProfile(origin, str(error)) from error


def from_legacy(policy: LegacyPolicy) -> Profile:
    """Return the profile that means the same. Raises ValueError for a root that is not a path."""
    match policy:
        case DangerFullAccess():
            return DisabledProfile()
        case ExternalSandbox(network_access=network):
            return ExternalProfile(network=network)
        case ReadOnly(network_access=has_network):
            return _managed([_special(RootPath(), Access.READ)], has_network)
        case WorkspaceWrite(network_access=has_network):
            return _managed(_workspace_entries(policy), has_network)


def _workspace_entries(policy: WorkspaceWrite) -> list[AccessEntry]:
    entries = [_special(RootPath(), Access.READ), _special(ProjectRoots(), Access.WRITE)]
    if not policy.exclude_slash_tmp:
        entries.append(_special(SlashTmp(), Access.WRITE))
    if not policy.exclude_tmpdir_env_var:
        entries.append(_special(TemporaryDirectory(), Access.WRITE))
    entries += [AccessEntry(path=ExactPath(path=root), access=Access.WRITE) for root in policy.writable_roots]
    return entries + [
        _special(ProjectRoots(subpath=name), Access.READ, missing_path_behavior="skip")
        for name in METADATA_NAMES
    ]


def _special(value: SpecialPath, access: Access, **options: Any) -> AccessEntry:
    return AccessEntry(path=NamedPath(value=value), access=access, **options)


def _managed(entries: list[AccessEntry], has_network: bool) -> ManagedProfile:
    return ManagedProfile(
        file_system=RestrictedFileSystem(entries=tuple(entries)),
        network=NetworkMode.ENABLED if has_network else NetworkMode.RESTRICTED,
    )
