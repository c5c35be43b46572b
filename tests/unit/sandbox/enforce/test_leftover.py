"""What killed janitors have left is told from what living ones keep."""

from __future__ import annotations

import fcntl
from pathlib import Path

from paddock.sandbox.enforce.janitor import JOURNALS
from paddock.sandbox.enforce.leftover import leftovers


def test_only_files_of_janitors_that_are_gone_are_left_over(tmp_path: Path) -> None:
    assert leftovers(tmp_path) == []
    (tmp_path / JOURNALS).mkdir()
    for name in ("dead", "living"):
        (tmp_path / name).touch()
        item = f"1 2 3 {tmp_path / name}\0"
        (tmp_path / JOURNALS / name).write_bytes(item.encode() + f"1 2 3 {tmp_path}/gone\0".encode())
    with (tmp_path / JOURNALS / "living").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert leftovers(tmp_path) == [str(tmp_path / "dead")]
