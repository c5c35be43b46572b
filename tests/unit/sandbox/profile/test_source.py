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


HEADER = 'default_permissions = "dev"\n\n[permissions.dev]\nextends = ":workspace"\n'


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ('netwrok = "loopback"', ":5: profile dev: there is no key 'netwrok'; did you mean 'network'?"),
        (
            'network = "lopback"',
            ":5: profile dev: network: there is no word 'lopback'; did you mean 'loopback'?",
        ),
        (
            "limits = { wallSecond = 3 }",
            ":5: profile dev: limits: there is no key 'wallSecond'; did you mean 'wallSeconds'?",
        ),
        ('limits = { wallSeconds = "3" }', ":5: profile dev: limits.wallSeconds: expected an integer"),
        (
            "[permissions.dev.network]\nallows = []",
            ":6: profile dev: network: there is no key 'allows'; did you mean 'allow'?",
        ),
        (
            "[permissions.dev.filesystem]\nglob_scan_max_depth = 0",
            ":6: profile dev: filesystem.glob_scan_max_depth: expected an integer >= 1",
        ),
        (
            '[permissions.dev.filesystem]\n"~/.ssh" = "dney"',
            ":6: profile dev: filesystem.'~/.ssh': 'dney' is not read, write, deny or none",
        ),
        (
            '[permissions.dev.filesystem.":workspace_roots"]\nok = "read"\n"a/*" = "write"',
            ":7: profile dev: filesystem.':workspace_roots': the pattern 'a/*' can only be denied",
        ),
        (
            '[permissions.dev.workspace_roots]\n"here" = true',
            ":6: profile dev: workspace_roots: 'here' is not absolute",
        ),
        (
            '[permissionz.other.filesystem]\n"/a" = "read"',
            ":5: profile {file}: there is no key 'permissionz'; did you mean 'permissions'?",
        ),
        (
            '[permissions.other]\nextends = ":workspac"\n#other',
            ":6: profile :workspac: there is no profile of this name; did you mean ':workspace'?",
        ),
        (
            "[permissions.other]\ndescription = 3\n[permissions.last]\nextends = 'other'\n#last",
            ":6: profile last: description: expected a string",
        ),
    ],
)
def test_flaw_is_told_with_its_line_and_what_may_be_meant(
    written: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installation, "obey", lambda _: None)
    file = tmp_path / "mine.toml"
    file.write_text(HEADER + written)
    chosen = f"{file}{written[written.find('#') :]}" if "#" in written else str(file)
    with pytest.raises(InvalidProfile) as caught:
        read_profile(chosen)
    assert str(caught.value).startswith(f"{file}{told.format(file=file)}")


def test_json_may_have_the_form_of_toml() -> None:
    extended = read_profile('{"extends": ":workspace", "network": "loopback"}').profile
    assert is_enforced(extended)
    assert extended.network is NetworkMode.LOOPBACK
    with pytest.raises(InvalidProfile, match="profile in JSON: there is no key 'netwrok'"):
        read_profile('{"extends": ":workspace", "netwrok": "loopback"}')


@pytest.mark.parametrize(
    ("text", "problem"), [("{", "is not valid JSON: "), ('{"a": 1', "is not valid JSON: ")]
)
def test_text_that_is_no_json_is_refused(text: str, problem: str) -> None:
    with pytest.raises(InvalidProfile, match=problem):
        read_profile(text)


def test_file_of_json_that_is_no_object_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "obey", lambda _: None)
    file = tmp_path / "list.json"
    file.write_text("[]")
    with pytest.raises(InvalidProfile, match="is not an object"):
        read_profile(str(file))
