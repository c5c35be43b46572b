"""`paddock network groups`: what it lists, also of the settings of a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.network.group import GROUPS
from tests.operators import Operator

EDITED = """\
[network_groups]
python = ["mirror.example.com"]
team = ["git.example.com:8443", "**.cdn.example.com"]
"""


def listed(operator: Operator, *arguments: str) -> dict[str, list[str]]:
    """The hosts of each group, in the order of the list."""
    lines = operator.output("network", "groups", *arguments).splitlines()
    return {name: hosts for name, *hosts in map(str.split, lines)}


def test_list_has_every_ready_made_group_with_its_hosts(operator: Operator) -> None:
    told = listed(operator)
    assert list(told) == ["debian", "github", "go", "node", "python", "rust"]
    assert told == {name: list(GROUPS[name]) for name in told}


def test_settings_replace_a_group_and_add_others(operator: Operator, tmp_path: Path) -> None:
    settings = tmp_path / "server.toml"
    settings.write_text(EDITED)
    told = listed(operator, "--config", str(settings))
    before = {name: list(hosts) for name, hosts in GROUPS.items()}
    assert told == before | {
        "python": ["mirror.example.com"],
        "team": ["git.example.com:8443", "**.cdn.example.com"],
    }
    assert list(told) == sorted(told)


@pytest.mark.parametrize("host", ["a b", "@python", "http://a.test", ""])
def test_host_that_means_nothing_is_an_error_with_its_place(
    operator: Operator, tmp_path: Path, host: str
) -> None:
    settings = tmp_path / "server.toml"
    settings.write_text(f'[network_groups]\nmine = ["good.test", "{host}"]\n')
    done = operator.paddock("network", "groups", "--config", str(settings))
    assert (done.returncode, done.stdout) == (1, b"")
    assert f"{settings}:2".encode() in done.stderr
    assert b"network_groups.mine" in done.stderr
