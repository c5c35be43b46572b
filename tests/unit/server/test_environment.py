"""What a server tells of its host where that can't be found out."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from paddock.config import Settings
from paddock.server import environment
from paddock.server.environment import FALLBACK_SHELL, describe_environment, user_home, user_shell


def unknown_user(uid: int) -> pwd.struct_passwd:
    raise KeyError(uid)


def test_user_without_an_account_has_a_plain_home_and_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "relative")
    monkeypatch.setenv("SHELL", "/nowhere/shell")
    account = pwd.getpwuid(os.getuid())
    assert user_home() == account.pw_dir
    monkeypatch.setattr(pwd, "getpwuid", unknown_user)
    assert (user_home(), user_shell()) == ("/", FALLBACK_SHELL)


def test_directory_that_was_removed_is_the_home_instead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert describe_environment(Settings(), with_extensions=True).cwd == "file:///home/me"


@pytest.mark.parametrize(
    ("name", "usual", "told"),
    [
        ("zsh", ("bash", "sh"), "zsh"),
        ("fish", ("bash", "sh"), "bash"),
        ("dash", ("missing", "sh"), "sh"),
    ],
)
def test_clients_are_told_a_shell_that_they_can_write_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, usual: tuple[str, ...], told: str
) -> None:
    for shell in ("zsh", "fish", "dash", "bash", "sh"):
        (tmp_path / shell).touch(mode=0o755)
    monkeypatch.setenv("SHELL", str(tmp_path / name))
    monkeypatch.setattr(environment, "USUAL_SHELLS", tuple(str(tmp_path / shell) for shell in usual))
    shell_told = describe_environment(Settings(), with_extensions=False).shell
    assert (shell_told.name, shell_told.path) == (told, str(tmp_path / told))
    assert user_shell() == str(tmp_path / name)


def test_host_without_an_id_of_its_machine_is_named_by_its_own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", missing)
    named = environment._provider_id.__wrapped__()
    assert named.startswith("sha256:")
    assert os.uname().nodename not in named
    assert named == environment._provider_id.__wrapped__()
