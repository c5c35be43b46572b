from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    GlobPath,
    Limits,
    ManagedProfile,
    NamedPath,
    NetworkMode,
    Profile,
    ProjectRoots,
    RestrictedFileSystem,
    RootPath,
    SlashTmp,
    TemporaryDirectory,
)
from paddock.sandbox.profile.codec import encode_profile, parse_profile, profile_of
from paddock.sandbox.profile.legacy import from_legacy
from paddock.sandbox.profile.source import read_profile
from paddock.sandbox.profile.table import BUILT_IN, built_in, parse_table

POLICIES: st.SearchStrategy[LegacyPolicy] = st.one_of(
    st.builds(ReadOnly, network_access=st.booleans()),
    st.builds(
        WorkspaceWrite,
        writable_roots=st.lists(st.sampled_from(["/a", "/b/c"]), unique=True).map(tuple),
        network_access=st.booleans(),
        exclude_tmpdir_env_var=st.booleans(),
        exclude_slash_tmp=st.booleans(),
    ),
    st.just(DangerFullAccess()),
    st.builds(ExternalSandbox, network_access=st.sampled_from([NetworkMode.RESTRICTED, NetworkMode.ENABLED])),
)


def _managed(*entries: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "managed", "file_system": {"type": "restricted", "entries": list(entries)}, **more}


def _path(path: str, access: str) -> dict[str, Any]:
    return {"path": {"type": "path", "path": path}, "access": access}


# --- JSON ---------------------------------------------------------------------


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_built_in_profile_is_what_a_file_that_only_extends_it_says(name: str) -> None:
    table = {"permissions": {"mine": {"extends": name}}}
    assert built_in(name) == parse_table(table, "mine.toml", "/", "mine").profile


def test_profile_is_read_and_written_back_alike() -> None:
    text = json.dumps(
        _managed(
            {"path": {"type": "special", "value": {"kind": "root"}}, "access": "read"},
            {"path": {"type": "glob_pattern", "pattern": "/w/**/*.env"}, "access": "none"},
            _path("/w", "write"),
            network="loopback",
            limits={"memoryBytes": 1000, "wallSeconds": 5},
        )
    )
    profile = parse_profile(text, "test")
    assert isinstance(profile, ManagedProfile)
    assert profile.limits == Limits(memory_bytes=1000, wall_seconds=5)
    assert profile.network is NetworkMode.LOOPBACK
    assert parse_profile(encode_profile(profile), "test") == profile
    assert b'"deny"' in encode_profile(profile)


def test_network_is_restricted_unless_said_otherwise() -> None:
    profile = profile_of({"type": "managed", "file_system": {"type": "unrestricted"}}, "test")
    assert isinstance(profile, ManagedProfile)
    assert profile.network is NetworkMode.RESTRICTED


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"type": "managed"}, "file_system"),
        ({"type": "nonsense"}, "nonsense"),
        (_managed(_path("relative", "read")), "not absolute"),
        (_managed(_path("/a", "execute")), "execute"),
        (_managed({**_path("/a", "read"), "extra": 1}), "extra"),
        (_managed(network="everything"), "everything"),
        (_managed(limits={"memory": 1}), "memory"),
        (_managed(limits={"memoryBytes": 0}), "int"),
        (_managed({"path": {"type": "special", "value": {"kind": "moon"}}, "access": "read"}), "moon"),
        (
            {
                "type": "managed",
                "file_system": {"type": "restricted", "entries": [], "glob_scan_max_depth": 0},
            },
            "1",
        ),
        ({"network": {"enabled": True}, "files": {}}, "files"),
        ({"type": "workspace-write", "roots": []}, "roots"),
    ],
)
def test_what_is_not_understood_is_an_error_that_names_it(value: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidProfile, match=told):
        profile_of(value, "test")


def test_older_form_with_lists_of_paths_is_understood() -> None:
    profile = profile_of(
        {"network": {"enabled": True}, "file_system": {"read": ["/"], "write": ["/w"]}}, "test"
    )
    assert profile == ManagedProfile(
        file_system=RestrictedFileSystem(
            entries=(
                AccessEntry(path=NamedPath(value=RootPath()), access=Access.READ),
                AccessEntry(path=ExactPath(path="/w"), access=Access.WRITE),
            )
        ),
        network=NetworkMode.ENABLED,
    )


# --- legacy policies ------------------------------------------------------------


@given(POLICIES)
def test_profile_of_a_legacy_policy_grants_what_the_policy_does(policy: LegacyPolicy) -> None:
    profile = from_legacy(policy)
    match policy:
        case DangerFullAccess():
            assert profile == DisabledProfile()
        case ExternalSandbox(network_access=network):
            assert profile == ExternalProfile(network=network)
        case ReadOnly() | WorkspaceWrite():
            assert isinstance(profile, ManagedProfile)
            assert isinstance(profile.file_system, RestrictedFileSystem)
            assert (profile.network is NetworkMode.ENABLED) == policy.network_access
            entries = profile.file_system.entries
            assert AccessEntry(path=NamedPath(value=RootPath()), access=Access.READ) in entries
            written = [entry.path for entry in entries if entry.access is Access.WRITE]
            assert sorted(map(str, written)) == sorted(map(str, _written_by(policy)))


def _written_by(policy: ReadOnly | WorkspaceWrite) -> list[ExactPath | NamedPath]:
    if isinstance(policy, ReadOnly):
        return []
    places: list[ExactPath | NamedPath] = [ExactPath(path=root) for root in policy.writable_roots]
    places.append(NamedPath(value=ProjectRoots()))
    if not policy.exclude_slash_tmp:
        places.append(NamedPath(value=SlashTmp()))
    if not policy.exclude_tmpdir_env_var:
        places.append(NamedPath(value=TemporaryDirectory()))
    return places


def test_legacy_policies_are_read_in_both_spellings() -> None:
    as_json = profile_of(
        {"type": "workspace-write", "writable_roots": ["/x"], "network_access": True}, "test"
    )
    table = {
        "sandbox_mode": "workspace-write",
        "sandbox_workspace_write": {"writable_roots": ["/x"], "network_access": True},
    }
    assert parse_table(table, "test", "/home").profile == as_json
    assert profile_of({"type": "danger-full-access"}, "test") == DisabledProfile()
    assert profile_of({"type": "external-sandbox", "network_access": "enabled"}, "test") == ExternalProfile(
        network=NetworkMode.ENABLED
    )


# --- TOML -----------------------------------------------------------------------


def test_built_in_profiles_are_the_legacy_policies() -> None:
    assert _granted(built_in(":workspace")) == _granted(from_legacy(WorkspaceWrite()))
    assert _granted(built_in(":read-only")) == _granted(from_legacy(ReadOnly()))
    assert built_in(":danger-full-access") == from_legacy(DangerFullAccess())


def _granted(profile: Profile) -> set[tuple[object, Access]]:
    """What is granted; a legacy policy says in addition what is protected anyway."""
    assert isinstance(profile, ManagedProfile)
    assert isinstance(profile.file_system, RestrictedFileSystem)
    assert profile.network is NetworkMode.RESTRICTED
    return {
        (entry.path, entry.access)
        for entry in profile.file_system.entries
        if entry.missing_path_behavior != "skip"
    }


def test_table_has_what_it_extends_and_its_own_keys_win() -> None:
    table = {
        "default_permissions": "strict",
        "permissions": {
            "dev": {
                "extends": ":workspace",
                "workspace_roots": {"/other": True, "/not-this": False},
                "filesystem": {":workspace_roots": {"docs": "read", "**/*.env": "none"}, "~/.ssh": "deny"},
                "network": "loopback",
            },
            "strict": {
                "extends": "dev",
                "filesystem": {":slash_tmp": "read", "glob_scan_max_depth": 3},
                "limits": {"processes": 10},
            },
        },
    }
    written = parse_table(table, "test", "/home/me")
    assert written.workspace_roots == ("/other",)
    profile = written.profile
    assert isinstance(profile, ManagedProfile)
    assert isinstance(profile.file_system, RestrictedFileSystem)
    assert profile.network is NetworkMode.LOOPBACK
    assert profile.limits == Limits(processes=10)
    assert profile.file_system.glob_scan_max_depth == 3
    entries = {entry.path: entry.access for entry in profile.file_system.entries}
    assert entries[NamedPath(value=SlashTmp())] is Access.READ
    assert entries[NamedPath(value=ProjectRoots())] is Access.WRITE
    assert entries[NamedPath(value=ProjectRoots(subpath="docs"))] is Access.READ
    assert entries[GlobPath(pattern="**/*.env")] is Access.DENY
    assert entries[ExactPath(path="/home/me/.ssh")] is Access.DENY


def _filesystem(**files: Any) -> dict[str, Any]:
    return {"default_permissions": "x", "permissions": {"x": {"filesystem": files}}}


def test_subtree_pattern_grants_the_directory() -> None:
    profile = parse_table(_filesystem(**{"/a/**": "write"}), "test", "/home").profile
    assert isinstance(profile, ManagedProfile)
    assert isinstance(profile.file_system, RestrictedFileSystem)
    assert profile.file_system.entries == (AccessEntry(path=ExactPath(path="/a"), access=Access.WRITE),)


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({"permissions": {}}, "default_permissions"),
        ({"default_permissions": "x", "permissions": {}}, "no profile of this name"),
        ({"default_permissions": "x", "permissions": {"x": {"extends": "x"}}}, "extends itself"),
        ({"default_permissions": "x", "permissions": {"x": {"extends": ":danger-full-access"}}}, "extended"),
        ({"default_permissions": "x", "permissions": {":x": {}}}, "colon"),
        ({"default_permissions": "x", "permissions": {"x": {"files": {}}}}, "files"),
        ({"default_permission": "x"}, "default_permission"),
        (_filesystem(**{"/a/*.txt": "read"}), "can only be denied"),
        (_filesystem(**{":moon": "read"}), "not a special name"),
        (_filesystem(**{":tmpdir": {"x": "read"}}), "one access word"),
        (_filesystem(relative="read"), "absolute"),
        (_filesystem(**{":workspace_roots": {"../x": "read"}}), "plain path"),
        (_filesystem(**{"/a": "execute"}), "execute"),
        (_filesystem(**{"/a": 3}), "access word"),
        (_filesystem(glob_scan_max_depth=0), "1"),
        ({"sandbox_mode": "workspace-write", "extra": 1}, "extra"),
        ({"sandbox_mode": "nonsense"}, "nonsense"),
    ],
)
def test_mistake_in_a_table_is_an_error_that_names_it(table: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidProfile, match=told):
        parse_table(table, "test", "/home")


def test_profile_is_found_by_name_in_json_and_in_files(tmp_path: Path) -> None:
    toml = tmp_path / "p.toml"
    toml.write_text('default_permissions = ":read-only"\n[permissions.dev]\nextends = ":workspace"\n')
    assert read_profile(str(toml)).profile == read_profile(":read-only").profile
    assert read_profile(f"{toml}#dev").profile == read_profile(":workspace").profile
    (tmp_path / "p.json").write_text('{"type": "disabled"}')
    assert read_profile(str(tmp_path / "p.json")).profile == read_profile('{"type": "disabled"}').profile


@pytest.mark.parametrize("text", ["no-such-file", ":no-such-name", "{", "{}}", "/dev/null/x"])
def test_profile_that_can_not_be_read_is_an_error(text: str) -> None:
    with pytest.raises(InvalidProfile):
        read_profile(text)
