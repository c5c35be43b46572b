"""Files as models edit them, and the permissions of an agent that runs its tools itself."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import paddock
from paddock.adapters import planned_access
from paddock.adapters.claude_agent_sdk import REMEMBERED, PaddockPermissions
from paddock.adapters.confined_line import confined_command, run
from paddock.adapters.text_file import COMPARED_CHARACTERS, TextFile, facts_of
from paddock.client.remote_path import RemotePath
from paddock.errors import CallRejected, InvalidProfile, OperationFailed
from paddock.transport import runtime_directory
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
    await file.write("one\f\u2028\ntwo")
    assert (await file.numbered([2, 2])).endswith("two")
    await file.insert(1, "between")
    assert await file.text() == "one\f\u2028\nbetween\ntwo"
    await file.write("x" * 22)
    await workspace.write_bytes("src/.hidden", b"")
    assert (await TextFile(workspace, "", ".").numbered(None)).splitlines()[1:] == [
        f"{(await (await workspace.path('src')).stat()).size}\t./src/",
        "22\t./src/a.txt",
    ]


async def test_lines_and_whole_contents_are_put_over_what_was_read_alone(
    workspace: paddock.Workspace,
) -> None:
    file = TextFile(workspace, "list")
    await file.write("")
    await file.insert(0, "one\n")
    inserted = [file.insert(1, f"{number}\n") for number in range(5)]
    answers = await asyncio.gather(*inserted, return_exceptions=True)
    refused = [each for each in answers if each is not None]
    assert all(isinstance(each, CallRejected) and "look at it again" in str(each) for each in refused)
    assert len((await file.text()).splitlines()) == 1 + len(answers) - len(refused)

    for seen in ("", "x" * (COMPARED_CHARACTERS + 1), "another\n"):
        with pytest.raises(CallRejected, match="list has changed in the meantime"):
            await file.exchange(seen, "mine\n")
    content = await file.text()
    await file.exchange(content, "mine\n")
    assert await file.text() == "mine\n"


async def test_a_file_that_can_only_be_written_in_place_is_changed_by_lines(
    workspace: paddock.Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(path: RemotePath, *edits: object) -> str:
        raise OperationFailed("Device or resource busy")

    file = TextFile(workspace, "list")
    await file.write("one\n")
    monkeypatch.setattr(RemotePath, "edit", refuse)
    await file.insert(1, "two\n")
    assert await file.text() == "one\ntwo\n"


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
    assert decided("Write", file_path=".claude/settings.json") == "deny"
    assert decided("Write", file_path=".mcp.json") == "deny"
    assert decided("Write", file_path="new") == "allow"
    assert decided("NotebookEdit", notebook_path="new.ipynb") == "allow"
    assert decided("Read", file_path="/etc/passwd") == "allow"
    assert decided("Grep", pattern="x") == "allow"
    assert decided("WebFetch", url="http://a.test") is None
    with pytest.raises(InvalidProfile):
        PaddockPermissions(profile="known-to-a-server")


def test_a_tool_writes_no_settings_under_another_spelling_of_their_name_nor_below(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "SUB").mkdir()
    (tmp_path / ".git").mkdir()
    (tmp_path / "sub" / "config").mkdir()
    (tmp_path / "sub" / ".claude").symlink_to("config")
    permissions = PaddockPermissions(directory=str(tmp_path))

    def decided(tool: str, path: str) -> str | None:
        return permissions.decide(tool, {"file_path": path}, str(tmp_path)).decision

    for path in (
        *(".GIT/config", ".git./config", ".gi\u200ct/config", ".git::$INDEX_ALLOCATION/config"),
        *(".CLAUDE/settings.json", ".Mcp.json", ".mcp.json ", "SUB/.Claude/skills/x/SKILL.md"),
        *(
            "sub/.mcp.json",
            "sub/.claude/settings.json",
            "sub/config/settings.json",
            "new/.claude/agents/x.md",
        ),
    ):
        assert decided("Write", path) == "deny", path
        assert decided("Read", path) == "allow", path
    assert decided("Write", "/".join([".GIT"] * 100)) == "deny"
    for path in ("sub/new", "SUB/new", "Sub/new", "claude/settings.json", "mcp.json", ".gitignore"):
        assert decided("Write", path) == "allow", path


def test_a_tool_reads_no_denied_file_under_another_name(tmp_path: Path) -> None:
    for name in ("secret", "other", "OTHER"):
        (tmp_path / name).write_text(name)
    places = {"/": "read", str(tmp_path): "write"} | {f"{tmp_path}/{n}": "deny" for n in ("secret", "other")}
    entries = [entry({"type": "path", "path": path}, access) for path, access in places.items()]
    permissions = PaddockPermissions(profile=restricted(entries), directory=str(tmp_path))

    def decided(path: str) -> str | None:
        return permissions.decide("Read", {"file_path": path}, str(tmp_path)).decision

    assert decided("SECRET") == "deny"
    # Both are there, so they are two.
    assert (decided("other"), decided("OTHER")) == ("deny", "allow")
    os.link(tmp_path / "secret", tmp_path / "OTHER2")
    assert decided("OTHER2") == "deny"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("NotebookEdit", {"file_path": "new.ipynb"}),
        ("NotebookEdit", {"notebook_path": "new.ipynb", "file_path": "/etc/new.ipynb"}),
        ("Write", {}),
        ("Edit", {"file_path": ""}),
        ("Edit", {"file_path": ["new"]}),
        ("Write", {"path": "new"}),
        ("Read", {"notebook_path": "/etc/passwd"}),
        ("LS", {}),
        ("Grep", {"pattern": "x", "searchPath": "/proc"}),
        ("Glob", {"pattern": "x", "searchPath": "/proc"}),
    ],
)
def test_a_tool_that_does_not_name_its_file_as_paddock_knows_it_is_refused(
    tmp_path: Path, tool: str, arguments: dict[str, object]
) -> None:
    permissions = PaddockPermissions(directory=str(tmp_path))
    assert permissions.decide(tool, arguments, str(tmp_path)).decision == "deny"


def test_every_tool_that_runs_a_line_runs_it_in_the_sandbox(tmp_path: Path) -> None:
    work, secret = tmp_path / "work", tmp_path / "secret"
    work.mkdir()
    secret.write_text("secret")
    places = {"/": "read", str(work): "write", str(secret): "deny"}
    entries = [entry({"type": "path", "path": path}, access) for path, access in places.items()]
    permissions = PaddockPermissions(profile=restricted(entries), directory=str(work))

    for tool in ("Bash", "Monitor"):
        line = f"cat {secret}; echo {tool}"
        assert subprocess.run(["sh", "-c", line], capture_output=True).stdout == f"secret{tool}\n".encode()
        verdict = permissions.decide(tool, {"command": line, "description": "x"}, str(work))
        assert verdict.decision == "allow"
        assert verdict.input is not None
        assert verdict.input["description"] == "x"
        done = subprocess.run(["sh", "-c", verdict.input["command"]], capture_output=True)
        assert done.stdout == f"{tool}\n".encode()
    for tool, name in (("Read", "file_path"), ("LSP", "filePath"), ("NotebookRead", "notebook_path")):
        assert permissions.decide(tool, {name: str(secret)}, str(work)).decision == "deny"
    assert permissions.decide("PowerShell", {"command": "ls"}, str(work)).decision == "deny"
    assert permissions.decide("Monitor", {"ws": {"url": "ws://a.test"}}, str(work)).decision is None


@pytest.mark.parametrize(
    ("name", "place"),
    [
        (" {out}/new", "{out}/new"),
        ("\ufeff{out}/new", "{out}/new"),
        (".mcp.json\t", "{work}/.mcp.json"),
        # The kernel follows the link, and others leave both parts out.
        ("link/../../out/new", "{out}/new"),
        ("{work}/link/../../out/new", "{out}/new"),
        ("e\u0301/new", "{out}/new"),
        ("~root/new", "{out}/new"),
    ],
)
def test_a_name_that_tools_read_differently_is_judged_by_each_reading(
    tmp_path: Path, name: str, place: str
) -> None:
    places = {each: str(tmp_path / each) for each in ("out", "work")}
    work, deep = tmp_path / "work", tmp_path / "work" / "a" / "b" / "c"
    (tmp_path / "out").mkdir()
    deep.mkdir(parents=True)
    (work / "link").symlink_to(deep)
    (work / "\u00e9").symlink_to(tmp_path / "out")
    (work / "~root").symlink_to(tmp_path / "out")
    profile = restricted(
        [
            entry({"type": "path", "path": path}, access)
            for path, access in {"/": "read", places["work"]: "write", places["out"]: "deny"}.items()
        ]
    )
    permissions = PaddockPermissions(profile=profile, directory=str(work))

    def decided(tool: str, **arguments: str) -> str | None:
        return permissions.decide(tool, arguments, str(work)).decision

    for written in (name.format(**places), place.format(**places)):
        assert decided("Write", file_path=written) == "deny"
        if "out" in place:
            assert decided("Read", file_path=written) == decided("Grep", path=written) == "deny"
            assert decided("Glob", path=written, pattern="*") == "deny"
    for written in ("new", "./new", "a/../new", "link/new", f"{work}/new", "a b", "e\u0301e"):
        assert decided("Write", file_path=written) == decided("Read", file_path=written) == "allow"


def test_a_tool_reads_nothing_that_every_sandbox_keeps_from_commands(tmp_path: Path) -> None:
    private = runtime_directory.everywhere(os.environ, os.getuid())
    hidden = [Path(directory) for directory in private if Path(directory).is_dir()]
    (tmp_path / "variables").symlink_to("/proc/self/environ")
    (tmp_path / "here").symlink_to("/proc/self/cwd")
    (tmp_path / "loop").symlink_to("loop")
    permissions = PaddockPermissions(directory=str(tmp_path))

    def decided(tool: str, **arguments: str) -> str | None:
        return permissions.decide(tool, arguments, str(tmp_path)).decision

    assert hidden
    for path in (
        "/proc/self/environ",
        "variables",
        "/dev/stdin",
        "/dev/shm",
        "here/x",
        "loop/x",
        "a\0b",
        *hidden,
    ):
        assert decided("Read", file_path=str(path)) == decided("Write", file_path=str(path)) == "deny"
        assert decided("Grep", path=str(path)) == decided("Glob", path=str(path), pattern="*") == "deny"
    for path in ("/", "/proc", hidden[0].parent):
        assert decided("Grep", path=str(path)) == "deny"
    assert decided("Grep", path=str(tmp_path)) == decided("Grep", path="/etc") == "allow"
    named = restricted([entry({"type": "path", "path": path}, "read") for path in ("/", "/dev/shm")])
    shared = PaddockPermissions(profile=named, directory=str(tmp_path))
    assert shared.decide("Read", {"file_path": "/dev/shm/x"}, str(tmp_path)).decision == "allow"
    assert shared.decide("Read", {"file_path": "/dev/x"}, str(tmp_path)).decision == "deny"
    open_ = PaddockPermissions(profile=":danger-full-access", directory=str(tmp_path))
    assert open_.decide("Read", {"file_path": "/proc/self/environ"}, str(tmp_path)).decision == "allow"


def test_a_link_in_a_place_of_the_sandbox_itself_opens_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "own" / "work"
    work.mkdir(parents=True)
    (work / "link").symlink_to(".git")
    (work / "out").symlink_to("/etc")
    monkeypatch.setattr(planned_access, "OWN_PLACES", (str(tmp_path / "own"),))
    permissions = PaddockPermissions(directory=str(work))
    for name, decision in (
        ("new", "allow"),
        ("link/config", "deny"),
        ("out/new", "deny"),
        ("../new", "deny"),
    ):
        assert permissions.decide("Write", {"file_path": name}, str(work)).decision == decision


# Paddock as in the environment of a project: these programs confine the next command.
INSTALLED = Path(paddock.__file__).parent.parent


@pytest.mark.parametrize(
    ("root", "path", "decision"),
    [
        (None, "hg", "allow"),
        (None, ".hg/hgrc", "deny"),
        # With directories beside it, git would take the project for a bare repository.
        (None, "HEAD", "deny"),
        (INSTALLED.parent, "new", "allow"),
        (INSTALLED.parent, f"{INSTALLED}/paddock/adapters/confined_line.py", "deny"),
        (INSTALLED.parent, f"{INSTALLED}/paddock/new.py", "deny"),
    ],
)
async def test_a_tool_changes_no_file_that_a_sandbox_protects_whatever_the_profile_grants(
    tmp_path: Path, root: Path | None, path: str, decision: str
) -> None:
    (tmp_path / ".hg").mkdir()
    directory = str(root or tmp_path)
    call = {"tool_name": "Write", "tool_input": {"file_path": path}, "cwd": directory}
    answer = await PaddockPermissions(directory=directory).pre_tool_use(call, None, None)
    assert answer["hookSpecificOutput"]["permissionDecision"] == decision


def entry(path: dict[str, str], access: str) -> dict[str, object]:
    return {"path": path, "access": access}


def restricted(entries: list[dict[str, object]]) -> dict[str, object]:
    return {
        "type": "managed",
        "file_system": {"type": "restricted", "entries": entries},
        "network": "enabled",
    }


@pytest.mark.parametrize("denied", ["secret", "**/*.key"])
def test_a_tool_that_searches_below_what_is_denied_is_refused_with_the_way_out(
    tmp_path: Path, denied: str
) -> None:
    for name in ("open", "secret"):
        (tmp_path / name).mkdir()
    (tmp_path / "file").write_text("x")
    (tmp_path / "out").symlink_to("/etc")
    places = {"/": "read", str(tmp_path): "write", "/etc": "deny"}
    entries = [entry({"type": "path", "path": path}, access) for path, access in places.items()]
    if denied == "secret":
        entries.append(entry({"type": "path", "path": str(tmp_path / denied)}, "deny"))
    else:
        entries.append(entry({"type": "glob_pattern", "pattern": str(tmp_path / denied)}, "deny"))
    profile = restricted(entries)
    permissions = PaddockPermissions(profile=profile, directory=str(tmp_path))

    def decided(tool: str, **arguments: str) -> str | None:
        return permissions.decide(tool, arguments, str(tmp_path)).decision

    for tool in ("Grep", "Glob"):
        assert decided(tool, pattern="x") == "deny"
        assert decided(tool, pattern="x", path=str(tmp_path)) == "deny"
        assert decided(tool, pattern="x", path="secret") == "deny" or denied != "secret"
        assert decided(tool, pattern="x", path="open") == ("allow" if denied == "secret" else "deny")
        assert decided(tool, pattern="x", path="out") == "deny"
    assert decided("Grep", pattern="x", path="file") == "allow"
    assert decided("LS", path=".") == "allow"
    why = permissions.decide("Grep", {"pattern": "x"}, str(tmp_path)).reason
    assert "search with a command of Bash instead" in why


@pytest.mark.parametrize(
    "pattern",
    ["/etc/*", "../*", "*/../../../etc/*", "out/*", "{/etc/*,x}", "{a,../..}/*", "@(/etc)/*", "~root/*"],
)
def test_a_pattern_that_leads_elsewhere_is_judged_by_where_it_leads(tmp_path: Path, pattern: str) -> None:
    inside = tmp_path / "work"
    inside.mkdir()
    (inside / "out").symlink_to("/etc")
    profile = restricted([entry({"type": "path", "path": str(inside)}, "write")])
    permissions = PaddockPermissions(profile=profile, directory=str(inside))

    def decided(pattern: str, path: str = "") -> str | None:
        return permissions.decide("Glob", {"pattern": pattern, "path": path}, str(inside)).decision

    assert decided(pattern) == "deny"
    assert decided(pattern, str(inside)) == "deny"
    assert decided("**/*.py") == decided(f"{inside}/a*/*") == decided("a/{b,c}/*") == "allow"


def test_a_command_is_confined_once_and_few_are_remembered(tmp_path: Path) -> None:
    permissions = PaddockPermissions(directory=str(tmp_path))
    first = permissions.decide("Bash", {"command": "true"}, "/")
    assert first.input is not None
    assert permissions.decide("Bash", first.input, "/").input == first.input
    for number in range(REMEMBERED):
        permissions.decide("Bash", {"command": f"echo {number}"}, "/")
    again = permissions.decide("Bash", first.input, "/")
    assert again.input != first.input


@pytest.mark.parametrize("is_there", [True, False])
async def test_a_command_can_not_change_what_the_next_claude_code_obeys(
    tmp_path: Path, is_there: bool
) -> None:
    if is_there:
        (tmp_path / ".claude").mkdir()
        (tmp_path / ".claude" / "settings.json").write_text("{}")
        (tmp_path / ".mcp.json").write_text("{}")
    line = (
        "mkdir -p .claude; echo bad > .claude/settings.json; echo bad > .mcp.json; rm -rf .claude; touch new"
    )

    async def run(command: str) -> None:
        process = await asyncio.create_subprocess_shell(
            command, cwd=tmp_path, stderr=asyncio.subprocess.DEVNULL
        )
        await process.wait()

    confined = PaddockPermissions(directory=str(tmp_path)).decide("Bash", {"command": line}, str(tmp_path))
    assert confined.input is not None
    await run(confined.input["command"])
    assert (tmp_path / "new").exists()
    if is_there:
        assert (tmp_path / ".claude" / "settings.json").read_text() == "{}"
        assert (tmp_path / ".mcp.json").read_text() == "{}"
    else:
        assert not (tmp_path / ".claude").exists()
        assert not (tmp_path / ".mcp.json").exists()
    await run(line)
    assert (tmp_path / ".mcp.json").read_text() == "bad\n"


def test_a_profile_that_names_the_settings_of_claude_code_may_open_them(tmp_path: Path) -> None:
    places = {str(tmp_path): "write", str(tmp_path / ".claude"): "write"}
    entries = [entry({"type": "path", "path": path}, access) for path, access in places.items()]
    permissions = PaddockPermissions(profile=restricted(entries), directory=str(tmp_path))
    wanted = {"file_path": ".claude/settings.json"}
    assert permissions.decide("Write", wanted, str(tmp_path)).decision == "allow"
    assert permissions.decide("Write", {"file_path": ".mcp.json"}, str(tmp_path)).decision == "deny"


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
