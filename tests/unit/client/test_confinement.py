"""What a program may give as a sandbox, and what is sent for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

import paddock
from paddock import installation
from paddock.client.confinement import SandboxLike, sandbox_context, with_limits
from paddock.errors import InvalidProfile
from paddock.protocol.path import parse_path
from paddock.protocol.session import EnvironmentInfo
from tests.unit.client.scripted_server import EVERYTHING, environment

ENVIRONMENT = msgspec.convert(environment(EVERYTHING), EnvironmentInfo)

TOML = """\
[permissions.strict]
extends = ":workspace"
workspace_roots = { "/srv/shared" = true }
limits = { wallSeconds = 9, addressSpaceBytes = 5 }
"""


@pytest.fixture(autouse=True)
def unprotected(monkeypatch: pytest.MonkeyPatch) -> None:
    # Files that profiles are read from would stay protected for the rest of the process.
    monkeypatch.setattr(installation, "obey", lambda _: None)


def sent(sandbox: SandboxLike) -> Any:
    context = sandbox_context(ENVIRONMENT, sandbox, parse_path("file:///work"))
    return msgspec.json.decode(msgspec.json.encode(context, enc_hook=str))


def test_dict_extends_a_built_in_profile_as_in_toml() -> None:
    wanted = {
        "extends": ":workspace",
        "network": "loopback",
        "filesystem": {"/opt": "write"},
        "limits": {"wallSeconds": 5},
    }
    permissions = sent(wanted)["permissions"]
    assert (permissions["network"], permissions["limits"]) == ("loopback", {"wallSeconds": 5})
    granted = [entry["path"] for entry in permissions["file_system"]["entries"] if entry["access"] == "write"]
    assert {"type": "special", "value": {"kind": "slash_tmp"}} in granted
    assert any("/opt" in str(path) for path in granted)
    with pytest.raises(InvalidProfile, match="profile sandbox: there is no key 'netwrok'; did you mean"):
        sent({"extends": ":workspace", "netwrok": "loopback"})


def test_profile_can_be_a_file_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ci.toml").write_text(TOML)
    monkeypatch.chdir(tmp_path)
    given: list[SandboxLike] = [tmp_path / "ci.toml#strict", "ci.toml#strict", "./ci.toml#strict"]
    for sandbox in given:
        context = sent(sandbox)
        # The older name is sent, which every server knows.
        assert context["permissions"]["limits"] == {"wallSeconds": 9, "memoryBytes": 5}
        assert context["workspaceRoots"] == ["file:///work", "file:///srv/shared"]
    with pytest.raises(InvalidProfile, match="there is no such file"):
        sent("missing.toml")


def test_limits_take_the_place_of_those_of_the_profile(tmp_path: Path) -> None:
    (tmp_path / "ci.toml").write_text(TOML)
    limits = paddock.Limits(wall_seconds=3, total_memory_bytes=7)
    sandbox = with_limits(tmp_path / "ci.toml#strict", limits)
    assert sandbox is not None
    expected = {"wallSeconds": 3, "memoryBytes": 5, "totalMemoryBytes": 7}
    assert sent(sandbox)["permissions"]["limits"] == expected


def test_limits_without_a_sandbox_are_all_that_is_enforced() -> None:
    sandbox = with_limits(None, paddock.Limits(wall_seconds=3))
    assert sandbox is not None
    permissions = sent(sandbox)["permissions"]
    assert permissions["file_system"] == {"type": "unrestricted"}
    assert (permissions["network"], permissions["limits"]) == ("enabled", {"wallSeconds": 3})


def test_limits_are_not_added_to_a_profile_that_only_the_server_knows() -> None:
    with pytest.raises(InvalidProfile, match="only the server knows it"):
        sent(paddock.Sandbox("dev", limits=paddock.Limits(wall_seconds=3)))


def test_both_names_of_the_same_limit_are_refused() -> None:
    with pytest.raises(ValueError, match="older name of addressSpaceBytes"):
        paddock.Limits(memory_bytes=1, address_space_bytes=1)
    assert paddock.Limits(address_space_bytes=1) == paddock.Limits(memory_bytes=1)
