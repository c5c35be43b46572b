"""Names that a file system may take for one, though the kernel does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.errors import ProfileRefused
from paddock.sandbox.host.letter_case import (
    other_spelling,
    refuse_aliases,
    refuse_other_spellings,
    uncertain_paths,
)

TABLE = b"""\
20 1 8:1 / / rw - ext4 /dev/sda rw
21 20 0:5 / /proc rw - proc proc rw
22 20 0:9 / /mnt/c rw - 9p C: rw
23 22 8:2 / /mnt/c/linux rw - xfs /dev/sdb rw
24 20 0:7 / /home/me/share rw - fuse.sshfs mac: rw
"""


def test_path_in_a_foreign_file_system_is_uncertain_with_the_directories_above_it() -> None:
    paths = ["/etc/secret", "/proc/sys", "/mnt/c/code/.git", "/home/me/share/.env"]
    assert uncertain_paths(TABLE, paths) == ("/mnt/c/code/.git", "/mnt/c/code", "/home/me/share/.env")


def test_what_is_mounted_in_a_foreign_file_system_is_judged_by_its_own() -> None:
    assert uncertain_paths(TABLE, ["/mnt/c/linux/.git"]) == ("/mnt/c/linux",)


def test_host_with_file_systems_of_linux_alone_has_no_uncertain_paths() -> None:
    assert uncertain_paths(TABLE.splitlines(keepends=True)[0], ["/etc/secret"]) == ()


def test_two_files_with_names_in_different_case_are_two_files(tmp_path: Path) -> None:
    for name in (".env", ".ENV", "1"):
        (tmp_path / name).touch()
    refuse_other_spellings(str(tmp_path / name) for name in (".env", ".ENV", "1"))


@pytest.mark.parametrize(
    ("name", "spelling"),
    [
        (".env", ".ENV"),
        ("cl\u00e9.pem", "cle\u0301.pem"),
        ("cle\u0301.pem", "cl\u00e9.pem"),
        (".git", "GIT~1"),
        ("id_token.local.json", "ID_TOK~2.JSO"),
    ],
)
def test_name_under_which_the_file_is_there_but_not_listed_is_another_spelling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, spelling: str
) -> None:
    for each in (name, spelling):
        (tmp_path / each).touch()
    assert other_spelling(str(tmp_path / name)) is None
    monkeypatch.setattr("os.listdir", lambda _: [name])
    assert other_spelling(str(tmp_path / name)) == str(tmp_path / spelling)
    # The file may be listed under its other spelling.
    monkeypatch.setattr("os.listdir", lambda _: [spelling])
    with pytest.raises(ProfileRefused):
        refuse_aliases([str(tmp_path / name)])


def test_missing_file_has_no_other_spelling(tmp_path: Path) -> None:
    (tmp_path / ".ENV").touch()
    assert other_spelling(str(tmp_path / ".env")) is None


def test_overlay_is_as_uncertain_as_its_layers() -> None:
    table = b"20 1 0:9 / / rw - overlay overlay rw,lowerdir=/share\n"
    assert uncertain_paths(table, ["/work/.env"]) == ("/work/.env", "/work")


def test_names_that_the_kernel_takes_for_one_are_not_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".env").touch()
    monkeypatch.setattr("paddock.sandbox.host.letter_case._spellings", lambda name: iter([name]))
    monkeypatch.setattr("os.listdir", lambda _: [])
    refuse_other_spellings([str(tmp_path / ".env")])
