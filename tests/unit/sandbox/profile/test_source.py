"""A profile as people name it."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock import installation
from paddock.errors import InvalidProfile
from paddock.model.profile import NetworkMode
from paddock.sandbox.profile import source
from paddock.sandbox.profile.enforced import is_enforced
from paddock.sandbox.profile.source import read_profile
from paddock.sandbox.profile.table import parse_table


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"[permissions", "is not valid TOML"),
        (b"\xff", "is not UTF-8"),
        (b"#" * 2000, "is larger than 1000 bytes"),
        (None, "there is no such file"),
    ],
    ids=["no TOML", "no text", "too large", "missing"],
)
def test_file_that_is_no_profile_is_refused_in_words(
    content: bytes | None, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "SIZE_LIMIT_BYTES", 1000)
    # Files that profiles are read from stay protected for the rest of the process.
    monkeypatch.setattr(installation, "obey", lambda _: None)
    path = tmp_path / "profile.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidProfile, match=problem):
        read_profile(str(path))


def parse(**profile: object) -> NetworkMode | object:
    parsed = parse_table({"permissions": {"p": profile}}, "p.toml", "/home/me", "p").profile
    assert is_enforced(parsed)
    return parsed.network


def test_network_is_a_switch_or_a_list_of_hosts_and_not_both() -> None:
    assert parse(network={"enabled": True}) is NetworkMode.ENABLED
    assert parse(network={"enabled": False}) is NetworkMode.RESTRICTED
    with pytest.raises(InvalidProfile, match="leave it out where hosts are listed"):
        parse(network={"enabled": True, "allow": ["example.org"]})


@pytest.mark.parametrize(
    ("profile", "problem"),
    [
        ({"extends": 1}, "extends must be the name of a profile"),
        ({"workspace_roots": {"relative": True}}, "'relative' is not absolute"),
        ({"workspace_roots": {"/a\0b": True}}, "NUL"),
        ({"filesystem": {"/a": "most"}}, "'most' is not read, write, deny or none"),
    ],
)
def test_what_a_profile_can_not_say_is_refused(profile: dict[str, object], problem: str) -> None:
    with pytest.raises(InvalidProfile, match=problem):
        parse(**profile)
