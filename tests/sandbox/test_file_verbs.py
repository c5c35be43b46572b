"""`paddock cp`, `ls` and `cat` with `--profile`, as their users see them."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from tests.operators import PADDOCK, PATIENCE_S
from tests.wire import served


@pytest.fixture(name="workspace")
def workspace_of_the_test(new_directory: Path) -> Path:
    """With a profile that denies one of two files."""
    (new_directory / "file").write_text("hello")
    (new_directory / "secret").mkdir()
    (new_directory / "secret/key").write_text("hunter2")
    (new_directory / "mine.toml").write_text(
        f"""default_permissions = "dev"
[permissions.dev.filesystem]
":root" = "read"
"{new_directory}/secret" = "deny"
"""
    )
    return new_directory


def paddock(*arguments: str, cwd: Path) -> tuple[int, str, str]:
    done = subprocess.run(
        [*PADDOCK, *arguments], cwd=cwd, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    return done.returncode, done.stdout, done.stderr


def test_files_are_shown_as_far_as_the_profile_grants_them(workspace: Path) -> None:
    key = f"{workspace}/secret/key"
    assert paddock("cat", key, cwd=workspace)[:2] == (0, "hunter2")
    status, shown, problem = paddock("cat", "--profile", "mine.toml", f"{workspace}/file", key, cwd=workspace)
    assert (status, shown, "Permission denied" in problem) == (1, "hello", True)


def test_directories_are_listed_as_far_as_the_profile_grants_them(workspace: Path) -> None:
    secret = f"{workspace}/secret"
    assert paddock("ls", secret, cwd=workspace)[:2] == (0, "key\n")
    status, shown, problem = paddock("ls", "--profile", "mine.toml", secret, cwd=workspace)
    assert (status, shown, "Permission denied" in problem) == (1, "", True)


async def test_nothing_is_copied_to_where_the_profile_grants_no_writing(workspace: Path) -> None:
    async with served(listen="ws://127.0.0.1:0") as server:
        copy = ("cp", f"{workspace}/file", f"{server.url}:{workspace}/copy")
        status, _, problem = await asyncio.to_thread(paddock, *copy, "--profile", ":read-only", cwd=workspace)
        assert (status, "Read-only file system" in problem) == (1, True)
        assert not (workspace / "copy").exists()
        assert (await asyncio.to_thread(paddock, *copy, cwd=workspace))[0] == 0
    assert (workspace / "copy").read_text() == "hello"
