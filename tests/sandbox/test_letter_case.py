"""A command can't get around a mask by a name in another case, even if its file system ignores case."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.sandbox.identity import each_user
from tests.sandbox.mounting_host import told_by

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, who mounts for the host"),
    pytest.mark.skipif(not os.path.exists("/dev/fuse"), reason="needs FUSE"),
]


@each_user
def test_command_runs_only_where_no_other_case_leads_around_a_mask(user: int, new_directory: Path) -> None:
    told = told_by("case_ignoring_host", "confined", user, new_directory)
    assert "/.env can be reached as " in told["secretive"]
    assert "/HEAD can be reached as " in told["plain"]
    # The kernel has one name for a directory, and with a sound `.git` git looks for nothing beside it.
    assert told["repository"] == ["become a repository", "write a file"]


@each_user
def test_file_system_that_begins_to_ignore_case_is_noticed(user: int, new_directory: Path) -> None:
    told = told_by("case_ignoring_host", "later", user, new_directory)
    *exact, ignoring = told["command"]
    assert exact == [["become a repository", "write a file"]] * 2
    assert "/.env can be reached as " in ignoring
    before, after = told["client"]
    assert (before["list"], before["watch"]) == ("done", "done")
    assert "done" not in (before["read"], before["watch what is hidden"])
    # A worker of before the change is not used any more.
    assert all("/.env can be reached as " in after[name] for name in after)


@each_user
def test_another_case_leads_to_everything_outside(user: int, new_directory: Path) -> None:
    told = told_by("case_ignoring_host", "plain", user, new_directory)
    assert told == {
        "repository": ["configure git", "become a repository", "write a file"],
        "secretive": ["read a denied file", "read a denied directory", "become a repository", "write a file"],
        "plain": ["become a repository", "write a file"],
    }


def test_tool_of_claude_code_does_nothing_by_another_case_that_a_sandbox_would_not_let_it_do(
    new_directory: Path,
) -> None:
    told = told_by("case_ignoring_host", "tools", 0, new_directory)
    ordinary = ["write a file", "read a file", "search a directory"]
    assert told["secretive"] == ordinary
    # What the profile does not deny can be read under any name.
    readable = ["read a denied file", "search a denied directory", *ordinary]
    assert told["repository"] == told["plain"] == readable
