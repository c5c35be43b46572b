"""Where files of rules are looked for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from paddock.rules.layer import SYSTEM_DIRECTORY, Layer, standard_layers, user_directory


def test_only_regular_files_with_the_suffix_count_by_name(tmp_path: Path) -> None:
    for name in ("b.rules", "a.rules", "c.rules.bak", ".rules", "d.RULES"):
        (tmp_path / name).touch()
    (tmp_path / "e.rules").mkdir()
    (tmp_path / "f.rules").symlink_to(tmp_path / "a.rules")

    assert [path.name for path in Layer(tmp_path).files()] == ["a.rules", "b.rules"]


def test_a_layer_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert Layer(tmp_path / "none").files() == []


def test_the_users_layer_follows_the_configuration_directory() -> None:
    assert user_directory({"XDG_CONFIG_HOME": "/x"}) == Path("/x/paddock/rules")
    assert user_directory({"XDG_CONFIG_HOME": "relative"}) == Path.home() / ".config/paddock/rules"
    assert user_directory({}) == Path.home() / ".config/paddock/rules"


def test_a_project_has_a_layer_only_when_it_is_named() -> None:
    assert [layer.is_project for layer in standard_layers()] == [False, False]
    system, _, project = standard_layers([Path("/work")])
    assert system.directory == SYSTEM_DIRECTORY
    assert project == Layer(Path("/work/.paddock/rules"), is_project=True)


def test_a_file_of_another_user_does_not_speak_for_a_layer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.rules"
    path.touch()
    other = os.geteuid() + 1
    if os.geteuid() == 0:
        os.chown(path, other, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: other)

    assert (Layer(tmp_path).complaint(path.stat()) or "").startswith("belongs to user")
    assert Layer(tmp_path, is_project=True).complaint(path.stat()) is None
