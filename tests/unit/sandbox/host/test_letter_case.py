"""Names that a file system may take for one, though the kernel does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.sandbox.host.letter_case import refuse_other_spellings, uncertain_paths

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


def test_names_that_the_kernel_takes_for_one_are_not_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".env").touch()
    monkeypatch.setattr("paddock.sandbox.host.letter_case._swapped", lambda path: path)
    monkeypatch.setattr("os.listdir", lambda _: [])
    refuse_other_spellings([str(tmp_path / ".env")])
