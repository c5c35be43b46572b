"""What a profile leaves to enforce."""

from __future__ import annotations

import pytest

from paddock.errors import InvalidProfile
from paddock.model.profile import (
    Access,
    AccessEntry,
    DisabledProfile,
    ExactPath,
    ExternalProfile,
    Limits,
    ManagedProfile,
    NetworkMode,
    Profile,
    ProxiedNetwork,
    RestrictedFileSystem,
    UnrestrictedFileSystem,
)
from paddock.sandbox.profile.enforced import (
    entries_of,
    is_about_network_alone,
    is_enforced,
    limited,
    limits_of,
    managed_profile,
    proxied_network,
    restricted_files,
)

ENTRY = AccessEntry(path=ExactPath(path="/w"), access=Access.WRITE)
RESTRICTED = RestrictedFileSystem(entries=(ENTRY,))
FREE = UnrestrictedFileSystem()
SLOW = Limits(cpu_seconds=1)

OPEN = ManagedProfile(file_system=FREE, network=NetworkMode.ENABLED)
LIMITED = ManagedProfile(file_system=FREE, network=NetworkMode.ENABLED, limits=SLOW)
CUT_OFF = ManagedProfile(file_system=FREE)
CONFINED = ManagedProfile(file_system=RESTRICTED, network=NetworkMode.ENABLED)
OUTSIDE = ExternalProfile(network=NetworkMode.ENABLED)
OUTSIDE_CUT_OFF = ExternalProfile()
OUTSIDE_LOOPBACK = ExternalProfile(network=NetworkMode.LOOPBACK)


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        (DisabledProfile(), False),
        (OPEN, False),
        (OUTSIDE, False),
        (LIMITED, True),
        (CUT_OFF, True),
        (CONFINED, True),
        (OUTSIDE_CUT_OFF, True),
        (OUTSIDE_LOOPBACK, True),
    ],
)
def test_a_profile_is_enforced_if_it_asks_for_anything(profile: Profile, expected: bool) -> None:
    assert is_enforced(profile) is expected


def test_only_the_filter_of_system_calls_is_needed_where_files_are_confined_outside() -> None:
    assert is_about_network_alone(OUTSIDE_CUT_OFF)
    # A loopback of its own takes a namespace.
    assert not is_about_network_alone(OUTSIDE_LOOPBACK)
    assert not is_about_network_alone(CUT_OFF)


def test_what_a_kind_of_profile_does_not_have_is_nothing() -> None:
    assert (limits_of(LIMITED), limits_of(OUTSIDE), limits_of(DisabledProfile())) == (
        SLOW,
        Limits(),
        Limits(),
    )
    assert restricted_files(CONFINED) is RESTRICTED
    assert entries_of(CONFINED) == (ENTRY,)
    for profile in (OPEN, OUTSIDE, DisabledProfile()):
        assert (restricted_files(profile), entries_of(profile)) == (None, ())


def test_a_command_reaches_others_by_a_proxy_where_its_profile_says_so() -> None:
    listed = ProxiedNetwork(allow=("example.org",))
    assert proxied_network(ManagedProfile(file_system=FREE, network=listed)) == listed
    assert proxied_network(ManagedProfile(file_system=FREE, network=NetworkMode.PROXIED)) == ProxiedNetwork()
    assert proxied_network(OPEN) is None


def test_a_managed_network_leaves_proxies_of_others_alone() -> None:
    assert managed_profile(CONFINED) == ManagedProfile(file_system=RESTRICTED, network=NetworkMode.PROXIED)
    with pytest.raises(ValueError, match="confines nothing"):
        managed_profile(DisabledProfile())
    with pytest.raises(ValueError, match="the profile names hosts"):
        managed_profile(ManagedProfile(file_system=FREE, network=ProxiedNetwork(allow=("example.org",))))


def test_limits_are_added_to_what_is_confined_here() -> None:
    assert limited(DisabledProfile(), SLOW) == LIMITED
    assert limited(LIMITED, Limits(processes=3)).limits == Limits(cpu_seconds=1, processes=3)  # type: ignore[union-attr]
    with pytest.raises(InvalidProfile, match="something outside Paddock enforces it"):
        limited(OUTSIDE, SLOW)
