"""The file that stands for every file that a command may not read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from paddock.errors import SandboxUnavailable
from paddock.sandbox.enforce.unreadable import unreadable_file


def test_file_is_made_once_and_nobody_can_read_it(tmp_path: Path) -> None:
    path = unreadable_file(tmp_path)
    assert unreadable_file(tmp_path) == path
    assert (os.stat(path).st_mode & 0o7777, os.stat(path).st_size) == (0, 0)


@pytest.mark.parametrize("change", ["mode", "content", "link", "directory"])
def test_file_that_somebody_has_changed_is_not_used(tmp_path: Path, change: str) -> None:
    path = Path(unreadable_file(tmp_path))
    path.chmod(0o600)
    match change:
        case "content":
            path.write_text("x")
            path.chmod(0)
        case "link":
            path.rename(tmp_path / "other")
            path.symlink_to("other")
        case "directory":
            path.unlink()
            path.mkdir(mode=0)
    with pytest.raises(SandboxUnavailable, match="is no longer an empty file of mode 0000"):
        unreadable_file(tmp_path)


def test_file_that_can_not_be_made_is_a_problem_of_the_host(tmp_path: Path) -> None:
    with pytest.raises(SandboxUnavailable, match="can't be made: No such file or directory"):
        unreadable_file(tmp_path / "missing")
