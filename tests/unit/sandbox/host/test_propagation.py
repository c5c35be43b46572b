"""Whether mounts of others arrive here, told by a table of mounts."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.sandbox.host import propagation

PRIVATE = "21 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n22 21 0:20 / /p rw unbindable - proc proc rw\n"


@pytest.mark.parametrize(
    ("more", "receives"),
    [
        ("", False),
        ("23 21 0:21 / /s rw shared:7 - sysfs sysfs rw\n", True),
        ("23 21 0:21 / /s rw master:7 - sysfs sysfs rw\n", True),
        ("23 21 0:21 / /s rw shared:8 master:7 - sysfs sysfs rw\n", True),
    ],
)
def test_mount_that_is_shared_or_follows_another_receives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str, receives: bool
) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(PRIVATE + more)
    monkeypatch.setattr(propagation, "TABLE", str(table))
    assert propagation.receives_mounts() is receives


def test_table_that_can_not_be_read_may_have_such_mounts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for table in (tmp_path / "missing", tmp_path):
        monkeypatch.setattr(propagation, "TABLE", str(table))
        assert propagation.receives_mounts()
