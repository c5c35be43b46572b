from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.model.profile import Access, Limits, NetworkMode
from paddock.sandbox.plan.extent import Extent, exceeds
from paddock.sandbox.profile.access import AccessTable, Rule

READ, WRITE, DENY = Access.READ, Access.WRITE, Access.DENY
ORDER = [DENY, READ, WRITE]

PATHS = st.lists(st.sampled_from("abc"), max_size=4).map(lambda names: "/" + "/".join(names))
RULES = st.lists(st.builds(Rule, PATHS, st.sampled_from(ORDER), st.just("test")), max_size=6)
LENIENT_RULES = st.lists(
    st.builds(Rule, PATHS, st.sampled_from(ORDER), st.just("test"), st.booleans()), max_size=6
)
AMOUNTS = st.none() | st.integers(1, 5)
LIMITS = st.builds(Limits, memory_bytes=AMOUNTS, processes=AMOUNTS, wall_seconds=AMOUNTS)
NETWORKS = st.sampled_from(NetworkMode)


def extent(
    *rules: tuple[str, Access], network: NetworkMode = NetworkMode.RESTRICTED, limits: Limits | None = None
) -> Extent:
    return Extent(tuple(Rule(path, access, "test") for path, access in rules), network, limits or Limits())


@given(RULES, RULES, PATHS)
def test_nothing_is_granted_anywhere_that_the_cap_does_not_grant_unless_it_is_said(
    wanted: list[Rule], cap: list[Rule], path: str
) -> None:
    excess = exceeds(
        Extent(tuple(wanted), NetworkMode.RESTRICTED, Limits()),
        Extent(tuple(cap), NetworkMode.RESTRICTED, Limits()),
    )
    if excess is None:
        assert ORDER.index(AccessTable(wanted).access_of(path)) <= ORDER.index(
            AccessTable(cap).access_of(path)
        )


@given(RULES, RULES)
def test_what_is_said_to_exceed_is_granted_by_the_one_and_not_by_the_other(
    wanted: list[Rule], cap: list[Rule]
) -> None:
    excess = exceeds(
        Extent(tuple(wanted), NetworkMode.RESTRICTED, Limits()),
        Extent(tuple(cap), NetworkMode.RESTRICTED, Limits()),
    )
    if excess is not None:
        path = excess.split(" access to ")[1].split(", where")[0]
        assert ORDER.index(AccessTable(wanted).access_of(path)) > ORDER.index(
            AccessTable(cap).access_of(path)
        )


@given(LENIENT_RULES, NETWORKS, LIMITS)
def test_a_profile_never_exceeds_itself(rules: list[Rule], network: NetworkMode, limits: Limits) -> None:
    itself = Extent(tuple(rules), network, limits)
    assert exceeds(itself, itself) is None


@pytest.mark.parametrize(
    ("wanted", "cap", "excess"),
    [
        ([("/", READ)], [("/srv", READ)], "read access to /, where the most is none"),
        ([("/srv/a", WRITE)], [("/srv", READ)], "write access to /srv/a, where the most is read"),
        ([("/", READ)], [("/", READ), ("/a/key", DENY)], "read access to /a/key, where the most is none"),
        ([("/", READ), ("/a", DENY)], [("/", READ), ("/a/key", DENY)], None),
        ([("/srv/a/b", WRITE)], [("/srv", WRITE), ("/srv/a", READ), ("/srv/a/b", WRITE)], None),
        ([("/", READ), ("/dev", WRITE)], [("/", WRITE)], "write access to /dev, where the most is read"),
        ([("/", READ), ("/dev/kvm", WRITE)], [("/", WRITE), ("/dev/kvm", WRITE)], None),
        (
            [("/", READ), ("/sys/fs", WRITE)],
            [("/", WRITE)],
            "write access to /sys/fs, where the most is read",
        ),
    ],
)
def test_the_path_that_exceeds_is_named(
    wanted: list[tuple[str, Access]], cap: list[tuple[str, Access]], excess: str | None
) -> None:
    assert exceeds(extent(*wanted), extent(*cap)) == excess


def test_a_path_that_may_be_made_is_not_protected_like_one_that_may_not() -> None:
    around = Rule("/srv", WRITE, "test")
    strict, lenient = (Rule("/srv/key", DENY, "test", skips_missing=skips) for skips in (False, True))
    firm = Extent((around, strict), NetworkMode.RESTRICTED, Limits())
    loose = Extent((around, lenient), NetworkMode.RESTRICTED, Limits())
    assert exceeds(loose, firm) == "write access to /srv/key, where the most is none"
    assert exceeds(firm, loose) is None


@pytest.mark.parametrize("network", NetworkMode)
def test_more_of_the_network_exceeds(network: NetworkMode) -> None:
    loopback = extent(("/", READ), network=NetworkMode.LOOPBACK)
    excess = exceeds(extent(("/", READ), network=network), loopback)
    expected = f"the network {network}, where the most is loopback"
    assert excess == (expected if network in (NetworkMode.PROXIED, NetworkMode.ENABLED) else None)


@pytest.mark.parametrize(
    ("limits", "excess"),
    [
        (Limits(), "no limit memoryBytes, where the most is 100"),
        (Limits(memory_bytes=101), "the limit memoryBytes of 101, where the most is 100"),
        (Limits(memory_bytes=100, cpu_seconds=5), None),
    ],
)
def test_a_limit_that_is_looser_or_missing_exceeds(limits: Limits, excess: str | None) -> None:
    cap = extent(limits=Limits(memory_bytes=100))
    assert exceeds(extent(limits=limits), cap) == excess
