"""Groups of hosts."""

from __future__ import annotations

import pytest

from paddock.model.host_pattern import HostPattern
from paddock.network.group import GROUPS, expanded


def test_group_stands_for_its_hosts() -> None:
    groups = {"mine": ("a.test", "*.b.test")}
    assert list(expanded(["x.test", "@mine"], groups)) == ["x.test", "a.test", "*.b.test"]


def test_group_named_often_stands_for_its_hosts_once() -> None:
    groups = {"mine": tuple(f"h{number}.test" for number in range(300))}
    assert list(expanded(["@mine", "x.test"] * 4096, groups)) == [*groups["mine"], "x.test"]


def test_group_that_is_not_there_is_an_error_that_names_the_others() -> None:
    with pytest.raises(ValueError, match=r"there is no group '@snakes'; there are .*python"):
        list(expanded(["@snakes"], GROUPS))


@pytest.mark.parametrize("name", ["python", "node", "rust", "go", "debian", "github"])
def test_built_in_group_has_patterns_that_mean_something(name: str) -> None:
    assert [str(HostPattern.parse(host)) for host in GROUPS[name]] == list(GROUPS[name])
