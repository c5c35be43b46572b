"""The profiles that a server knows by name, and its cap."""

from __future__ import annotations

from typing import Any

import pytest

from paddock.config import make_settings
from paddock.errors import ConfigError, InvalidParams, ProfileExceeded
from paddock.model.profile import ManagedProfile
from paddock.server.profiles import Profiles


def profiles(**settings: Any) -> Profiles:
    return Profiles(make_settings(settings))


READING = {"reading": {"filesystem": {":root": "read"}}}


def test_a_profile_of_the_settings_and_a_built_in_one_are_known_by_name() -> None:
    known = profiles(permissions=READING)
    assert isinstance(known.named("reading").profile, ManagedProfile)
    assert known.named("reading") is known.named("reading")
    assert isinstance(known.named(":workspace").profile, ManagedProfile)


@pytest.mark.parametrize(("name", "problem"), [("", "it is empty"), ("missing", "missing")])
def test_a_request_for_an_unknown_profile_is_refused(name: str, problem: str) -> None:
    with pytest.raises(InvalidParams, match=rf"params\.sandbox\.profile: .*{problem}"):
        profiles(permissions=READING).named(name)


def test_a_setting_that_is_no_profile_is_named() -> None:
    with pytest.raises(ConfigError, match="maybe") as refusal:
        profiles(permissions={"mine": {"filesystem": {":root": "maybe"}}})
    assert refusal.value.key.startswith("permissions.mine")


def test_a_cap_that_nobody_knows_is_an_error_in_its_setting() -> None:
    with pytest.raises(ConfigError) as refusal:
        profiles(max_profile="missing")
    assert refusal.value.key == "max_profile"


def test_a_cap_that_restricts_nothing_is_none() -> None:
    unlimited = profiles(max_profile=":danger-full-access")
    assert unlimited.cap is None
    unlimited.refuse_unconfined("a command")
    unlimited.refuse_network("a request")


def test_a_cap_without_a_network_refuses_what_it_does_not_confine() -> None:
    capped = profiles(permissions=READING, max_profile="reading")
    with pytest.raises(ProfileExceeded, match="reading"):
        capped.refuse_unconfined("a command")
    with pytest.raises(ProfileExceeded, match="reading"):
        capped.refuse_network("a request")
