"""What the host mounts while a command or a file worker is at work does not appear in its sandbox.

On a host whose mounts are shared it would appear with the flags that it has there: writable, with devices.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from paddock.sandbox.enforce import init
from tests.sandbox.identity import drop_to, each_user
from tests.sandbox.mounting_host import told_by
from tests.sandbox.shared_mounts import CONTENT, PLACES

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, who mounts for the host"),
    each_user,
]

UNTOUCHED = {"device": errno.ENOENT, "list": [], "mode": errno.ENOENT, "times": errno.ENOENT}


def test_what_is_mounted_later_does_not_appear_in_a_sandbox(user: int, new_directory: Path) -> None:
    assert told_by("shared_mounts", "confined", user, new_directory) == {"tags": []} | dict.fromkeys(
        PLACES, UNTOUCHED
    )


def test_what_is_mounted_later_appears_outside(user: int, new_directory: Path) -> None:
    used = {"device": 0, "list": ["file", "node"], "mode": 0, "times": 0}
    assert told_by("shared_mounts", "plain", user, new_directory) == {"tags": ["shared"]} | dict.fromkeys(
        PLACES, used
    )


def test_what_was_mounted_before_is_confined_with_all_the_rest(user: int, new_directory: Path) -> None:
    shown = {"device": errno.EACCES, "list": ["file", "node"]}
    assert told_by("shared_mounts", "before", user, new_directory) == {
        "tags": [],
        "outside/place": shown | {"mode": errno.EROFS, "times": errno.EROFS},
        "project/place": shown | {"mode": 0, "times": 0},
    }


def test_what_is_mounted_later_appears_to_the_next_file_worker_only(user: int, new_directory: Path) -> None:
    assert told_by("shared_mounts", "worker", user, new_directory) == {
        "is_missing": True,
        "tags": [],
        "arrived": [],
        "again": CONTENT,
    }


@pytest.mark.skipif("autofs" not in Path("/proc/filesystems").read_text(), reason="needs autofs")
@pytest.mark.parametrize(
    ("trial", "seen"),
    [("triggered", "ELOOP"), ("triggered-plain", ["file", "node"])],
    ids=["inside", "outside"],
)
def test_what_a_command_causes_to_be_mounted_appears_outside_only(
    user: int, new_directory: Path, trial: str, seen: object
) -> None:
    assert told_by("shared_mounts", trial, user, new_directory) == {"seen": seen, "is_triggered": True}


def test_command_is_not_started_where_mounts_of_the_host_would_appear(user: int, new_directory: Path) -> None:
    private, shared = told_by("shared_mounts", "unprepared", user, new_directory)
    assert private == [0, f"{new_directory}\n", ""]
    assert shared[:2] == [init.NOT_CONFINED_STATUS, ""]
    assert "what the host mounts would appear in the sandbox" in shared[2]


def test_launcher_that_looked_too_early_starts_nothing_among_shared_mounts(
    user: int, new_directory: Path
) -> None:
    status, said = told_by("shared_mounts", "misled", user, new_directory)
    if user == 0:
        # Who needs other devices has mounts of its own in any case.
        assert (status, said) == (0, "started\n")
    else:
        assert status == init.NOT_CONFINED_STATUS
        assert "what the host mounts would appear in the sandbox" in said


def test_bubblewrap_is_not_started_without_mounts_of_its_own(user: int, place: Path) -> None:
    program = str(shutil.copy(init.PATH, place))
    command = [program, *init.bubblewrap_words(has_own_mounts=True), "--", "/bin/echo", "started"]
    without = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", *command]
    script = f"echo 0 > /proc/sys/user/max_user_namespaces; exec {' '.join(without)}"
    barred = ["unshare", "--user", "--map-root-user", "/bin/sh", "-c", script]
    allowed, refused = (
        subprocess.run(words, capture_output=True, text=True, check=False, **drop_to(user))
        for words in (command, barred)
    )
    assert (allowed.returncode, allowed.stdout) == (0, "started\n"), allowed
    assert (refused.returncode, refused.stdout) == (init.NOT_CONFINED_STATUS, ""), refused
    assert "mounts apart from the host's" in refused.stderr
