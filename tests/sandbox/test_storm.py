"""Whatever is killed, and when: no mask is opened, and nothing is left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tests.sandbox.identity import each_user
from tests.sandbox.profiles import PROJECT_ROOTS, ROOT, Json, entry, sandbox
from tests.sandbox.storm import Storm

DEADLINE_S = 30.0
STORM_S = 100.0

pytestmark = pytest.mark.timeout(2 * STORM_S + DEADLINE_S)
"""Two storms at most in each test."""

WATCH = """
for ((i = 0; i < $0 * $0 * 6; i++)); do
    for path in {paths}; do
        [[ -e $path ]] || echo "OPEN $path"
        {{ mkdir $path || : > $path; }} 2> /dev/null && echo "MADE $path"
    done
    read -rt 0.005
done
"""


@pytest.fixture
def project(ground: Path, user: int) -> Path:
    directory = ground / f"storm-{user}-{time.monotonic_ns()}"
    directory.mkdir()
    os.chown(directory, user, user)
    return directory


def _profile(*more: Json) -> str:
    return json.dumps(sandbox(entry(ROOT, "read"), entry(PROJECT_ROOTS, "write"), *more)["permissions"])


def _rage(storm: Storm) -> str:
    """What the commands have written until the last of them, and of their launchers, was gone."""
    argv = [sys.executable, "-m", "tests.sandbox.storm", msgspec.json.encode(storm).decode()]
    done = subprocess.run(argv, stdout=subprocess.PIPE, timeout=STORM_S, check=True)
    return done.stdout.decode()


def _wait_until(is_true: Callable[[], bool], what: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not is_true():
        assert time.monotonic() < deadline, what()
        time.sleep(0.01)


def _listing(directory: Path) -> list[str]:
    return sorted(os.listdir(directory))


@each_user
def test_launcher_that_is_killed_at_any_moment_leaves_no_process_and_no_file(
    user: int, ground: Path, project: Path
) -> None:
    storm = Storm(
        user=user,
        directory=str(ground),
        project=str(project),
        scripts=[(":workspace", "read -rt 0.02")],
        seed=user,
        launchers=100,
        at_once=4,
        span_s=0.2,
    )
    assert _rage(storm) == ""
    _wait_until(lambda: not _listing(project), lambda: _listing(project))


@each_user
def test_no_mask_is_opened_by_commands_of_other_profiles_nor_by_killed_janitors(
    user: int, ground: Path, project: Path
) -> None:
    opened = entry({"type": "special", "value": {"kind": "project_roots", "subpath": ".git"}}, "write")
    denied: Json = {"path": {"type": "path", "path": str(project / "secret")}, "access": "none"}
    storm = Storm(
        user=user,
        directory=str(ground),
        project=str(project),
        scripts=[
            (_profile(), WATCH.format(paths=".git .codex .agents .aws .paddock")),
            (_profile(opened), WATCH.format(paths=".codex .aws")),
            (_profile(denied), WATCH.format(paths="secret .git")),
        ],
        seed=user,
        launchers=14,
        at_once=5,
        span_s=2.0,
        kills_janitors=True,
    )
    assert _rage(storm) == ""
    # What is left, when janitors were killed too, goes with the next start, wherever that is.
    elsewhere = ground / f"elsewhere-{user}"
    elsewhere.mkdir(exist_ok=True)
    os.chown(elsewhere, user, user)
    last = msgspec.structs.replace(
        storm, project=str(elsewhere), scripts=[(":workspace", "")], launchers=1, span_s=5.0
    )
    assert _rage(last) == ""
    _wait_until(lambda: not _listing(project), lambda: _listing(project))
