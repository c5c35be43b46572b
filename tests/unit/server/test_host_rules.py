"""The file of what was decided on hosts: it is there before any command could make it."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.errors import ConfigError
from paddock.server.host_rules import load_host_rules


def test_file_that_is_missing_is_made_for_its_user_alone(tmp_path: Path) -> None:
    load_host_rules(str(tmp_path / "hosts.rules"))
    assert (tmp_path / "hosts.rules").stat().st_mode & 0o777 == 0o600


def test_file_that_can_not_be_made_or_means_nothing_is_an_error_of_the_settings(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't be written: No such file or directory"):
        load_host_rules(str(tmp_path / "missing/hosts.rules"))
    (tmp_path / "hosts.rules").write_text("prefix_rule(")
    with pytest.raises(ConfigError, match="network_rules_file"):
        load_host_rules(str(tmp_path / "hosts.rules"))
