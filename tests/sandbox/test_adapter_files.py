"""Files as models edit them, and the permissions of an agent that runs its tools itself."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import paddock
from paddock.adapters.claude_agent_sdk import REMEMBERED, PaddockPermissions
from paddock.adapters.confined_line import confined_command, run
from paddock.adapters.text_file import TextFile, facts_of
from paddock.errors import CallRejected, InvalidProfile
from tests.wire import served


@pytest.fixture
async def workspace() -> AsyncIterator[paddock.Workspace]:
    async with served() as server, paddock.Workspace(server.url) as workspace:
        yield workspace


async def test_a_model_edits_a_file_by_lines_and_by_texts(workspace: paddock.Workspace) -> None:
    file = TextFile(workspace, "src/a.txt", "/a.txt")
    await file.write("one\ntwo\nthree")
    assert await file.numbered([2, 2]) == "     2\ttwo"
    assert await file.lines([2, -1]) == ["two", "three"]
    assert "-two\n+2\n" in await file.replace("two", "2")
    await file.insert(3, "four")
    await file.insert(0, "zero\n")
    assert await file.text() == "zero\none\n2\nthree\nfour\n"
    assert (await file.replace("e", "_", everywhere=True)).startswith("@@ -1,5 +1,5 @@\n-zero\n")
    await workspace.write_bytes("src/.hidden", b"")
    assert (await TextFile(workspace, "", ".").numbered(None)).splitlines()[1:] == [
        f"{(await (await workspace.path('src')).stat()).size}\t./src/",
        "22\t./src/a.txt",
    ]


async def test_a_file_that_is_gone_by_the_time_it_is_looked_at_is_left_out(
    workspace: paddock.Workspace,
) -> None:
    await workspace.write_bytes("kept", b"x")
    kept, gone = [await workspace.path(name) for name in ("kept", "gone")]
    found = await facts_of([gone, kept])
    assert [fact and fact.size for fact in found] == [None, 1]


async def test_what_can_not_be_done_is_said_so_that_a_model_can_act_on_it(
    workspace: paddock.Workspace,
) -> None:
    file = TextFile(workspace, "a.txt")
    await file.write("x x")
    await workspace.write_bytes("binary", b"\xff")
    for work, words in (
        (file.replace("x", "y"), "2 times.*quote more"),
        (file.replace("", "y"), "empty"),
        (file.replace("z", "y", everywhere=True), "not in a.txt"),
        (file.insert(5, "y"), "no line 5 in a.txt; it has 1"),
        (file.lines([1]), "two numbers"),
        (file.text(2), "has 3 bytes, and no more than 2"),
        (TextFile(workspace, "binary").text(), "not text"),
        (TextFile(workspace, "").text(), "is a directory"),
    ):
        with pytest.raises(CallRejected, match=words):
            await work
    with pytest.raises(OSError, match="missing"):
        await TextFile(workspace, "missing").text()


def test_a_tool_gets_the_files_that_the_profile_grants(tmp_path: Path) -> None:
    permissions = PaddockPermissions(directory=str(tmp_path))
    (tmp_path / "out").symlink_to("/etc")

    def decided(tool: str, **arguments: str) -> str | None:
        return permissions.decide(tool, arguments, str(tmp_path)).decision

    assert decided("Write", file_path="/etc/paddock-no") == "deny"
    assert decided("Edit", file_path="out/passwd") == "deny"
    assert decided("Write", file_path=".git/hooks/x") == "deny"
    assert decided("Write", file_path="new") == "allow"
    assert decided("NotebookEdit", notebook_path="new.ipynb") == "allow"
    assert decided("Read", file_path="/etc/passwd") == "allow"
    assert decided("Grep", pattern="x") == "allow"
    assert decided("WebFetch", url="http://a.test") is None
    with pytest.raises(InvalidProfile):
        PaddockPermissions(profile="known-to-a-server")


def test_a_command_is_confined_once_and_few_are_remembered(tmp_path: Path) -> None:
    permissions = PaddockPermissions(directory=str(tmp_path))
    first = permissions.decide("Bash", {"command": "true"}, "/")
    assert first.input is not None
    assert permissions.decide("Bash", first.input, "/").input == first.input
    for number in range(REMEMBERED):
        permissions.decide("Bash", {"command": f"echo {number}"}, "/")
    again = permissions.decide("Bash", first.input, "/")
    assert again.input != first.input


async def test_a_line_runs_confined_where_its_program_starts(tmp_path: Path) -> None:
    line = "echo out; echo err >&2; touch here; touch /etc/paddock-no"
    below = tmp_path / "below"
    below.mkdir()
    process = await asyncio.create_subprocess_exec(
        *confined_command(":workspace", str(tmp_path), line),
        cwd=below,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert (process.returncode, out) == (1, b"out\n")
    assert err.startswith(b"err\n")
    assert b"Note: The sandbox denied: write /etc/paddock-no.\n" in err
    assert (below / "here").exists()


async def test_a_line_that_can_not_run_says_why(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert await run(":workspace", os.path.join(tmp_path, "missing"), "true") == 127
    assert "The command was not run: workspace" in capfd.readouterr().err
    assert await run('{"extends": 1}', str(tmp_path), "true") == 127
