"""A client may narrow the server's profile, and never widens it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.errors import InvalidProfile
from paddock.mcp_server.call_confinement import narrow_for_call, paths_of
from paddock.mcp_server.path_lookup import PATHS_LIMIT, Location
from paddock.mcp_server.profile_meet import Bounds, meet
from paddock.mcp_server.sandbox_state import SandboxState, parse_state
from paddock.model.profile import (
    Access,
    AccessEntry,
    DisabledProfile,
    ExactPath,
    ExternalProfile,
    Limits,
    ManagedProfile,
    NamedPath,
    Network,
    NetworkMode,
    Profile,
    ProjectRoots,
    ProxiedNetwork,
    RestrictedFileSystem,
    RootPath,
    SlashTmp,
    UnrestrictedFileSystem,
)
from paddock.sandbox.profile.access import AccessTable, Surroundings, resolve
from paddock.sandbox.profile.enforced import entries_of
from paddock.sandbox.profile.table import built_in

ORDER = (Access.DENY, Access.READ, Access.WRITE)
WORKSPACE = built_in(":workspace")
CAP = Bounds(WORKSPACE, ("/ws",), "/home/t/tmp")


def managed(**access: str) -> ManagedProfile:
    """A profile of paths in which `_` stands for a slash."""
    entries = tuple(
        AccessEntry(path=ExactPath(path=name.replace("_", "/")), access=Access(word))
        for name, word in access.items()
    )
    return ManagedProfile(file_system=RestrictedFileSystem(entries=entries))


def access(bounds: Bounds, path: str) -> Access:
    table = AccessTable(
        resolve(
            entries_of(bounds.profile), Surroundings(project_roots=bounds.roots, tmpdir=bounds.tmpdir)
        ).rules
    )
    return table.access_of(path)


def met(wanted: Profile, cwd: str = "/ws", cap: Bounds = CAP) -> Bounds:
    return Bounds(meet(cap, Bounds(wanted, (cwd,), cap.tmpdir)), (), cap.tmpdir)


paths = st.sampled_from(
    ["/", "/a", "/a/b", "/a/b/c", "/a/bb", "/d", "/d/e", "/tmp", "/tmp/x", "/ws", "/ws/sub", "/ws/sub/x"]
)
entries = st.lists(st.tuples(paths, st.sampled_from(ORDER)), max_size=6, unique_by=lambda pair: pair[0])


def profile_of(pairs: list[tuple[str, Access]]) -> ManagedProfile:
    return ManagedProfile(
        file_system=RestrictedFileSystem(
            entries=tuple(
                AccessEntry(
                    path=NamedPath(value=RootPath()) if path == "/" else ExactPath(path=path), access=access
                )
                for path, access in pairs
            )
        )
    )


@given(entries, entries, paths)
def test_every_path_has_what_the_weaker_of_both_grants(
    most: list[tuple[str, Access]], asked: list[tuple[str, Access]], path: str
) -> None:
    cap = Bounds(profile_of(most), ("/ws",))
    wanted = Bounds(profile_of(asked), ("/ws",))
    both = Bounds(meet(cap, wanted), ())
    weaker = min(access(cap, path), access(wanted, path), key=ORDER.index)
    assert access(both, path) is weaker


def test_read_only_client_writes_nowhere() -> None:
    narrowed = met(built_in(":read-only"))
    for path in ("/", "/ws", "/tmp", "/home/t/tmp"):
        assert access(narrowed, path) is Access.READ


def test_client_that_wants_everything_gets_the_cap() -> None:
    assert met(DisabledProfile()).profile == WORKSPACE
    assert met(managed(_="write")).profile != WORKSPACE
    assert access(met(managed(_="write")), "/etc") is Access.READ
    assert access(met(managed(_="write")), "/ws") is Access.WRITE


def test_workspace_of_the_client_counts_only_within_that_of_the_server() -> None:
    narrowed = met(WORKSPACE, cwd="/ws/sub")
    assert access(narrowed, "/ws/sub/file") is Access.WRITE
    assert access(narrowed, "/ws/file") is Access.READ
    elsewhere = met(WORKSPACE, cwd="/other")
    assert access(elsewhere, "/other/file") is Access.READ
    assert access(elsewhere, "/ws/file") is Access.READ


def test_metadata_that_the_server_protects_is_not_given_away_by_an_entry_of_the_client() -> None:
    narrowed = met(managed(_="read", _ws="read", **{"_ws_.git": "write", "_ws_sub": "write"}))
    assert access(narrowed, "/ws/.git/config") is Access.READ
    assert access(narrowed, "/ws/sub/x") is Access.WRITE


def test_metadata_that_the_client_protects_is_not_given_away_by_an_entry_of_the_server() -> None:
    cap = Bounds(managed(_="read", _ws="write", **{"_ws_.git": "write"}), ("/ws",))
    assert access(met(managed(_="read", _ws="write"), cap=cap), "/ws/.git/config") is Access.READ
    named = managed(_="read", _ws="write", **{"_ws_.git": "write"})
    assert access(met(named, cap=cap), "/ws/.git/config") is Access.WRITE


def test_denials_of_both_hold() -> None:
    cap = Bounds(managed(_="read", _secret="deny"), ("/ws",))
    narrowed = met(managed(_="read", _own="deny"), cap=cap)
    assert access(narrowed, "/secret/key") is Access.DENY
    assert access(narrowed, "/own/key") is Access.DENY


def test_patterns_of_both_hold_below_the_roots_of_each() -> None:
    def denying(pattern: str) -> Profile:
        return parse_state(
            {
                "sandboxCwd": "/",
                "permissionProfile": {
                    "type": "managed",
                    "file_system": {
                        "type": "restricted",
                        "entries": [
                            {"path": {"type": "special", "value": {"kind": "root"}}, "access": "read"},
                            {"path": {"type": "glob_pattern", "pattern": pattern}, "access": "deny"},
                        ],
                    },
                    "network": "restricted",
                },
            }
        ).profile

    cap = Bounds(denying("**/*.env"), ("/ws",))
    narrowed = meet(cap, Bounds(denying("*.key"), ("/client",)))
    patterns = {
        entry.path.pattern
        for entry in entries_of(narrowed)
        if not isinstance(entry.path, ExactPath | NamedPath)
    }
    assert patterns == {"/ws/**/*.env", "/client/*.key"}


@pytest.mark.parametrize(
    ("most", "asked", "both"),
    [
        (NetworkMode.ENABLED, NetworkMode.RESTRICTED, NetworkMode.RESTRICTED),
        (NetworkMode.RESTRICTED, NetworkMode.ENABLED, NetworkMode.RESTRICTED),
        (NetworkMode.LOOPBACK, NetworkMode.ENABLED, NetworkMode.LOOPBACK),
    ],
)
def test_network_is_that_of_the_stricter(most: NetworkMode, asked: NetworkMode, both: NetworkMode) -> None:
    files = UnrestrictedFileSystem()
    cap = Bounds(ManagedProfile(file_system=files, network=most), ())
    narrowed = meet(cap, Bounds(ManagedProfile(file_system=files, network=asked), ()))
    assert isinstance(narrowed, ManagedProfile)
    assert narrowed.network is both
    external = meet(cap, Bounds(ExternalProfile(network=asked), ()))
    assert isinstance(external, ManagedProfile)
    assert external.network is both


def test_limits_are_the_lower_ones() -> None:
    files = UnrestrictedFileSystem()
    cap = ManagedProfile(file_system=files, limits=Limits(memory_bytes=10, processes=5))
    asked = ManagedProfile(file_system=files, limits=Limits(memory_bytes=7, wall_seconds=3))
    narrowed = meet(Bounds(cap, ()), Bounds(asked, ()))
    assert isinstance(narrowed, ManagedProfile)
    assert narrowed.limits == Limits(memory_bytes=7, processes=5, wall_seconds=3)


def test_temporary_directories_of_the_server_keep_their_names() -> None:
    narrowed = met(WORKSPACE)
    named = [entry.path.value for entry in entries_of(narrowed.profile) if isinstance(entry.path, NamedPath)]
    assert SlashTmp() in named
    assert ProjectRoots() not in named


def test_profile_that_only_the_server_knows_is_not_narrowed_by_guessing() -> None:
    state = SandboxState(built_in(":read-only"), "/ws")
    with pytest.raises(Exception, match="only the server knows"):
        narrow_for_call("team", ("/ws",), state, None, {})
    assert narrow_for_call("team", ("/ws",), None, None, {}).profile == "team"


def test_every_writable_place_of_the_server_is_watched_for_links() -> None:
    state = SandboxState(built_in(":read-only"), "/ws/sub")
    confinement = narrow_for_call(":workspace", ("/ws",), state, "/home/t/tmp", {"/": Location("/")})
    assert confinement.roots == ("/ws",)
    caches = {"type": "workspace-write", "writable_roots": ["/cache"]}
    assert narrow_for_call(caches, ("/ws",), state, None, {"/": Location("/")}).roots == ("/ws", "/cache")
    assert confinement.cwd == "/ws/sub"


FOUND = {path: Location(path) for path in ("/", "/ws", "/real/secret", "/etc", "/usr")} | {
    "/alias/secret": Location("/real/secret"),
    "/alias/secret/key": Location("/real/secret/key"),
    "/bin": Location("/usr/bin"),
    "/lib32": Location("/lib32", is_missing=True),
}


def narrowed(cap: dict[str, str], asked: dict[str, str]) -> dict[str, str]:
    """What a narrowed profile says about paths; `minimal` is what programs need."""

    def written(entries: dict[str, str]) -> dict[str, Any]:
        kinds = {"/": "root", "minimal": "minimal"}
        return {
            "type": "managed",
            "file_system": {
                "type": "restricted",
                "entries": [
                    {
                        "path": {"type": "special", "value": {"kind": kinds[path]}}
                        if path in kinds
                        else {"type": "path", "path": path},
                        "access": access,
                    }
                    for path, access in entries.items()
                ],
            },
            "network": "restricted",
        }

    state = parse_state({"sandboxCwd": "/ws", "permissionProfile": written(asked)})
    profile = narrow_for_call(written(cap), ("/ws",), state, None, FOUND).profile
    assert not isinstance(profile, str)
    return {entry["path"].get("path", "/"): entry["access"] for entry in profile["file_system"]["entries"]}


def test_another_name_of_what_the_server_denies_grants_nothing() -> None:
    cap = {"/": "read", "/real/secret": "deny"}
    assert narrowed(cap, {"/alias/secret": "read"}) == {"/real/secret": "deny"}
    assert narrowed(cap, {"/alias/secret/key": "read"}) == {"/real/secret": "deny"}
    assert narrowed({"/": "read", "/alias/secret": "deny"}, {"/real/secret": "read"}) == {
        "/alias/secret": "deny",
        "/real/secret": "deny",
    }


def test_what_programs_need_is_granted_without_what_the_server_keeps() -> None:
    assert narrowed({"/": "write", "/usr": "read", "/etc/key": "deny"}, {"minimal": "write"}) == {
        "/usr": "read",
        "/bin": "read",
        "/usr/bin": "read",
        "/etc": "write",
        "/etc/key": "deny",
    }


def test_grant_that_is_passed_on_names_the_place_and_no_link() -> None:
    assert narrowed({"/": "read"}, {"/alias/secret": "read"}) == {"/real/secret": "read"}


@pytest.mark.parametrize("path", ["/unknown", "/proc/self/cwd/x", "/dev/fd/3"])
def test_grant_whose_place_is_not_known_is_refused(path: str) -> None:
    with pytest.raises(InvalidProfile, match=path):
        narrowed({"/": "read"}, {path: "read"})
    assert narrowed({"/": "read"}, {"/": "read", path: "deny"}) == {"/": "read", path: "deny"}


def test_more_paths_than_a_host_is_asked_about_are_refused() -> None:
    policy = {"type": "workspace-write", "writable_roots": [f"/{number}" for number in range(PATHS_LIMIT)]}
    state = parse_state({"sandboxCwd": "/ws", "sandboxPolicy": policy})
    with pytest.raises(InvalidProfile, match="paths"):
        paths_of(":workspace", ("/ws",), state, None)
    assert paths_of(":danger-full-access", ("/ws",), state, None) == ()


def test_hosts_that_only_one_of_both_names_are_those_of_the_stricter() -> None:
    files = UnrestrictedFileSystem()
    some, other = ProxiedNetwork(allow=("a.example",)), ProxiedNetwork(allow=("b.example",))

    def both(most: Network, asked: Network) -> Network:
        met = meet(
            Bounds(ManagedProfile(file_system=files, network=most), ()),
            Bounds(ManagedProfile(file_system=files, network=asked), ()),
        )
        assert isinstance(met, ManagedProfile)
        return met.network

    assert both(NetworkMode.ENABLED, some) == both(some, NetworkMode.ENABLED) == both(some, some) == some
    for network in (NetworkMode.PROXIED, NetworkMode.LOOPBACK, NetworkMode.RESTRICTED):
        assert both(some, network) is both(network, some) is network
    with pytest.raises(InvalidProfile, match="network"):
        both(some, other)


BAD_STATES: tuple[Any, ...] = (
    {},
    {"x": 1},
    {"sandboxPolicy": {"type": "read-only"}},
    {"sandboxPolicy": {"type": "read-only"}, "sandboxCwd": "rel"},
    {"sandboxPolicy": {"type": "read-only"}, "sandboxCwd": 1},
    {"sandboxPolicy": {"type": "no-such"}, "sandboxCwd": "/ws"},
    {"sandboxPolicy": "read-only", "sandboxCwd": "/ws"},
    {"sandboxCwd": "/ws"},
    {"permissionProfile": {"type": "managed", "future": True}, "sandboxCwd": "/ws"},
)


@pytest.mark.parametrize("written", BAD_STATES)
def test_state_that_cannot_be_read_is_refused(written: dict[str, Any]) -> None:
    with pytest.raises(InvalidProfile):
        parse_state(written)


@pytest.mark.parametrize(
    "network", [NetworkMode.ENABLED, NetworkMode.PROXIED, ProxiedNetwork(allow=("a.example",))]
)
def test_a_client_names_no_secret_that_the_server_does_not(network: Network) -> None:
    """A network without a proxy is wider in hosts, and has no secrets."""
    files = UnrestrictedFileSystem()
    cap = Bounds(ManagedProfile(file_system=files, network=network), ("/ws",))
    named = ProxiedNetwork(allow=("a.example",), secrets=("registry",))
    wanted = ManagedProfile(file_system=files, network=named)
    with pytest.raises(InvalidProfile, match="registry"):
        met(wanted, cap=cap)
    assert met(wanted, cap=Bounds(wanted, ("/ws",))).profile == wanted
