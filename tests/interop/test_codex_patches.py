"""The stock Codex CLI edits files on our server, as far as each of its modes lets it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.codex import Codex, Mode

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def folder(codex: Codex) -> Path:
    """A directory of the workspace, for one test alone, with two files."""
    folder = codex.ground.new_folder()
    (folder / "old.txt").write_text("alpha\nbeta\ngamma\n")
    (folder / "gone.txt").write_text("unwanted\n")
    return folder


def texts(folder: Path) -> dict[str, str]:
    """The files below a directory, and what is in them."""
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.txt")}


async def test_files_are_added_changed_moved_and_deleted_where_writing_is_allowed(
    codex: Codex, mode: Mode, folder: Path
) -> None:
    name = folder.name
    replies = [
        await codex.patch(f"*** Add File: {name}/new.txt", "+one", "+two"),
        await codex.patch(f"*** Update File: {name}/new.txt", "@@", " one", "-two", "+2"),
        await codex.patch(
            f"*** Update File: {name}/old.txt",
            f"*** Move to: {name}/deep/er/moved.txt",
            "@@",
            "-beta",
            "+BETA",
            f"*** Delete File: {name}/gone.txt",
        ),
    ]

    found = texts(folder)
    if mode is Mode.READ_ONLY:
        assert not any("Success" in reply.text for reply in replies)
        assert found == {"old.txt": "alpha\nbeta\ngamma\n", "gone.txt": "unwanted\n"}
    else:
        assert [reply.exit_code for reply in replies] == [0, 0, 0]
        assert found == {"new.txt": "one\n2\n", "deep/er/moved.txt": "alpha\nBETA\ngamma\n"}


async def test_a_command_sees_what_a_patch_has_written(codex: Codex, mode: Mode, folder: Path) -> None:
    await codex.patch(f"*** Update File: {folder.name}/old.txt", "@@", "-beta", "+BETA")

    reply = await codex.run(f"cat {folder.name}/old.txt")
    assert ("BETA" in reply.output) == (mode is not Mode.READ_ONLY)


async def test_a_patch_that_does_not_match_changes_nothing(codex: Codex, folder: Path) -> None:
    reply = await codex.patch(f"*** Update File: {folder.name}/old.txt", "@@", "-delta", "+DELTA")

    assert "verification failed" in reply.text
    assert (folder / "old.txt").read_text() == "alpha\nbeta\ngamma\n"


async def test_a_patch_reaches_beyond_the_workspace_with_full_access_only(codex: Codex, mode: Mode) -> None:
    target = codex.ground.outside / "patched.txt"
    reply = await codex.patch(f"*** Add File: {target}", "+far away")

    assert target.exists() == ("Success" in reply.text) == (mode is Mode.DANGER_FULL_ACCESS)
