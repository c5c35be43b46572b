"""What an approval opens to the tools for files, with links of commands in the way, as root and as a user."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

import paddock
from paddock.agent.box_executor import open_executor
from paddock.agent.executor import FileAccess
from paddock.agent.permission import Permissions, confinement_of
from paddock.client.confinement import Sandbox
from tests.sandbox.user_server import user_server

HIDING: dict[str, object] = {
    "type": "managed",
    "file_system": {
        "type": "restricted",
        "entries": [
            {"path": {"type": "special", "value": {"kind": "minimal"}}, "access": "read"},
            {"path": {"type": "special", "value": {"kind": "project_roots"}}, "access": "write"},
        ],
    },
    "network": "restricted",
}
"""A profile that shows the workspace, and nothing else of the user's."""


@pytest.fixture(scope="module")
def url(user: int, ground: Path) -> Iterator[str]:
    """A server of that user."""
    with user_server(user, ground) as url:
        yield url


@pytest.fixture
def home(ground: Path, user: int) -> Iterator[Path]:
    """A home with a secret, notes and a project."""
    directory = Path(tempfile.mkdtemp(prefix="h-", dir=ground))
    for name in ("project", "secret", "notes"):
        (directory / name).mkdir()
    (directory / "secret" / "key").write_text("PRIVATE\n")
    (directory / "notes" / "todo").write_text("old\n")
    (directory / "link").symlink_to("notes")
    for path in (directory, *directory.rglob("*")):
        os.chown(path, user, user, follow_symlinks=False)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


class Approver:
    """Says the same to every question, and does something first."""

    def __init__(self, answer: str, first: Callable[[], Awaitable[object]] | None = None) -> None:
        self.changes: list[str] = []
        self.first = first
        self._answer = answer

    async def __call__(self, request: paddock.ApprovalRequest) -> str:
        self.changes.append("\n".join(request.changes))
        if self.first is not None:
            await self.first()
        return self._answer


def patch_of(*lines: str) -> dict[str, str]:
    return {"input": "\n".join(("*** Begin Patch", *lines, "*** End Patch"))}


def wider(cmd: str, access: str, path: Path) -> dict[str, object]:
    return {
        "cmd": cmd,
        "sandbox_permissions": "with_additional_permissions",
        "additional_permissions": {"file_system": {access: [str(path)]}},
    }


async def sh(tools: paddock.Tools, line: str) -> None:
    reply = await tools.call("exec_command", {"cmd": line})
    assert "Exit code: 0" in reply.text, reply.text


@pytest.mark.parametrize("answer", ["approved", "denied"])
async def test_question_about_a_patch_names_what_links_of_a_command_lead_to(
    url: str, home: Path, answer: str
) -> None:
    approver = Approver(answer)
    async with paddock.Agent(url, approver=approver, cwd=str(home / "project")) as tools:
        await sh(tools, "ln -s ../secret docs")
        patch = patch_of(f"*** Add File: {home}/new", "+x", "*** Add File: docs/planted", "+x")
        reply = await tools.call("apply_patch", patch)
    [changes] = approver.changes
    assert f"It may write {home}/new;" in changes
    assert f"It may write {home}/secret/planted, which is where {home}/project/docs/planted leads;" in changes
    assert reply.is_error == (answer == "denied")
    assert (home / "secret" / "planted").exists() == (home / "new").exists() == (answer == "approved")


@pytest.mark.parametrize("is_exchanged", [True, False])
async def test_directory_that_becomes_a_link_while_a_person_reads_opens_nothing(
    url: str, home: Path, is_exchanged: bool
) -> None:
    approver = Approver("approved")
    async with paddock.Agent(url, approver=approver, cwd=str(home / "project")) as tools:
        await sh(tools, "mkdir docs")
        if is_exchanged:
            approver.first = lambda: sh(tools, "mv docs old; ln -s ../secret docs")
        patch = patch_of(f"*** Add File: {home}/new", "+x", "*** Add File: docs/planted", "+x")
        reply = await tools.call("apply_patch", patch)
    assert not (home / "secret" / "planted").exists()
    if is_exchanged:
        assert f"docs/planted leads to {home}/secret/planted now" in reply.text
    assert (home / "new").exists() == (home / "project/docs/planted").exists() == (not is_exchanged)


async def test_approval_for_the_session_does_not_hold_for_where_a_later_link_leads(
    url: str, home: Path
) -> None:
    approver = Approver("approved_for_session")
    async with paddock.Agent(url, approver=approver, cwd=str(home / "project")) as tools:
        await sh(tools, "mkdir docs")
        patch = patch_of(f"*** Add File: {home}/new", "+x", "*** Add File: docs/planted", "+x")
        for _ in range(2):
            assert not (await tools.call("apply_patch", patch)).is_error
        assert len(approver.changes) == 1
        await sh(tools, "rm -r docs; ln -s ../secret docs")
        await tools.call("apply_patch", patch)
    assert f"{home}/secret/planted, which is where" in approver.changes[1]


async def test_patch_with_an_approval_carries_no_hidden_file_into_the_workspace(url: str, home: Path) -> None:
    approver = Approver("approved")
    async with paddock.Agent(url, profile=HIDING, approver=approver, cwd=str(home / "project")) as tools:
        await sh(tools, "ln -s ../secret docs; echo own > own")
        approved = ("*** Update File: " + f"{home}/notes/todo", "@@", "-old", "+new")
        carried = ("*** Update File: docs/key", "*** Move to: seen", "@@", "+x")
        stolen = await tools.call("apply_patch", patch_of(*approved, *carried))
        assert stolen.is_error
        assert os.listdir(home / "secret") == ["key"]
        assert not (home / "project" / "seen").exists()
        carried = ("*** Update File: own", "*** Move to: seen", "@@", "+x")
        done = await tools.call("apply_patch", patch_of(*approved, *carried))
        assert not done.is_error, done.text
    assert (home / "notes" / "todo").read_text() == "new\n"
    assert (home / "project" / "seen").read_text() == "own\nx\n"


async def test_workspace_by_a_link_is_changed_without_a_question(url: str, home: Path) -> None:
    approver = Approver("denied")
    (home / "code").symlink_to("project")
    async with paddock.Agent(url, approver=approver, cwd=str(home / "code")) as tools:
        await sh(tools, "ln -s file link")
        for change in ("*** Add File: file", f"*** Add File: {home}/code/other", "*** Delete File: link"):
            reply = await tools.call("apply_patch", patch_of(change, *["+x"] * ("Add" in change)))
            assert not reply.is_error, reply.text
        await sh(tools, "ln -s ../secret docs")
        assert (await tools.call("apply_patch", patch_of("*** Add File: docs/planted", "+x"))).is_error
    assert len(approver.changes) == 1
    changed = {"docs", "file", "link", "other"} & set(os.listdir(home / "project"))
    assert changed == {"docs", "file", "other"}


@pytest.mark.parametrize("profile", [":workspace", HIDING], ids=["shows", "hides"])
@pytest.mark.parametrize("tool", ["read_file", "list_files", "search_files", "edit_file"])
async def test_tools_use_the_file_that_the_question_names(
    url: str, home: Path, tool: str, profile: str | dict[str, object]
) -> None:
    approver = Approver("approved")
    listed = home / ("notes" if profile == ":workspace" else "link")
    every: dict[str, dict[str, object]] = {
        "read_file": {"path": str(home / "link/todo")},
        "list_files": {"path": str(listed)},
        "search_files": {"path": str(home / "link"), "pattern": "old"},
        "edit_file": {"path": str(home / "link/todo"), "old": "old", "new": "new"},
    }
    async with paddock.Agent(url, profile=profile, approver=approver, cwd=str(home / "project")) as tools:
        reply = await tools.call(tool, every[tool])
    assert not reply.is_error, reply.text
    assert "todo" in reply.text or "old" in reply.text
    is_asked = profile is HIDING or tool == "edit_file"
    assert [f"{home}/notes" in changes for changes in approver.changes] == [True] * is_asked
    assert (home / "notes" / "todo").read_text() == ("new\n" if tool == "edit_file" else "old\n")


Use = Callable[[FileAccess, Path], Awaitable[object]]

USES: dict[str, Use] = {
    "metadata": lambda files, place: files.metadata(f"{place}/todo"),
    "read_file": lambda files, place: files.read_file(f"{place}/todo"),
    "read_head": lambda files, place: files.read_head(f"{place}/todo", 1),
    "edit": lambda files, place: files.edit(f"{place}/todo", "old", "new", 1),
    "write_file": lambda files, place: files.write_file(f"{place}/todo", b"new\n", atomic=True),
    "set_mode": lambda files, place: files.set_mode(f"{place}/todo", 0o600),
    "create_directory": lambda files, place: files.create_directory(f"{place}/made/deep"),
    "remove": lambda files, place: files.remove(f"{place}/todo", recursive=False),
    "walk": lambda files, place: files.walk(str(place), max_entries=9),
    "search": lambda files, place: files.search(str(place), "old"),
}


@pytest.mark.parametrize("use", USES)
async def test_file_that_was_approved_is_never_used_through_a_link(url: str, home: Path, use: str) -> None:
    """Whoever exchanges something after the last look meets operations that follow no link."""
    profile = confinement_of(":workspace").widened(Permissions(write=(str(home),)))
    assert profile is not None
    executor = await open_executor(url)
    try:
        files = executor.files(Sandbox(profile, [home / "project"]), without_links=True)
        with pytest.raises(paddock.InvalidRequest, match="link"):
            await USES[use](files, home / "link")
        assert os.listdir(home / "notes") == ["todo"]
        assert (home / "notes" / "todo").read_text() == "old\n"
        await USES[use](files, home / "notes")
    finally:
        await executor.aclose()


# --- what a profile hides -----------------------------------------------------------


async def test_permission_to_write_a_hidden_file_opens_that_file_alone(url: str, home: Path) -> None:
    approver = Approver("approved")
    line = f"echo new > {home}/notes/todo; cat {home}/secret/key; ls {home}"
    async with paddock.Agent(url, profile=HIDING, approver=approver, cwd=str(home / "project")) as tools:
        hidden = await tools.call("exec_command", {"cmd": line})
        opened = await tools.call("exec_command", wider(line, "write", home / "notes/todo"))
    assert approver.changes[0].startswith(f"It may read and write {home}/notes/todo.\n")
    assert (home / "notes" / "todo").read_text() == "new\n"
    for reply in (hidden, opened):
        assert "PRIVATE" not in reply.text
        assert "secret\n" not in reply.text


async def test_hidden_path_where_nothing_is_opens_nothing_and_says_so_after_the_answer(
    url: str, home: Path
) -> None:
    path = home / "notes/missing"
    for answer in ("denied", "approved"):
        approver = Approver(answer)
        async with paddock.Agent(url, profile=HIDING, approver=approver, cwd=str(home / "project")) as tools:
            reply = await tools.call("exec_command", wider(f"ls {home}", "write", path))
        assert approver.changes[0].startswith(f"It may read and write {path}.\n")
        # Whoever only asks learns nothing of what is hidden.
        assert ("ask for a directory that exists" in reply.text) == (answer == "approved")
        assert reply.is_error
    approver = Approver("approved")
    async with paddock.Agent(url, profile=HIDING, approver=approver, cwd=str(home / "project")) as tools:
        reply = await tools.call("exec_command", wider(f"echo x > {path}", "write", home / "notes"))
        added = await tools.call("apply_patch", patch_of(f"*** Add File: {home}/notes/second", "+x"))
    assert path.read_text() == "x\n"
    assert not added.is_error, added.text


@pytest.mark.parametrize("access", ["read", "write"])
async def test_question_about_a_hidden_link_names_where_it_leads(url: str, home: Path, access: str) -> None:
    approver = Approver("approved")
    line = f"cat {home}/link/todo {home}/notes/todo; cat {home}/secret/key"
    async with paddock.Agent(url, profile=HIDING, approver=approver, cwd=str(home / "project")) as tools:
        reply = await tools.call("exec_command", wider(line, access, home / "link"))
    verb = "read" if access == "read" else "read and write"
    assert f"It may {verb} {home}/notes, which is where {home}/link leads." in approver.changes[0]
    assert "old\nold\n" in reply.text
    assert "PRIVATE" not in reply.text
