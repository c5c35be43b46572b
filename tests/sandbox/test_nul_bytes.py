"""A NUL byte in what a client says is refused: among the words of the init it would begin one of his own."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paddock.errors import PaddockError, ProfileRefused
from paddock.model.profile import Access, AccessEntry, GlobPath, Limits, ManagedProfile, RestrictedFileSystem
from paddock.sandbox.enforce import assembly
from paddock.sandbox.enforce.command import Command
from paddock.sandbox.host import probe
from paddock.sandbox.launch import Sandbox
from paddock.sandbox.profile.codec import parse_profile
from paddock.sandbox.profile.table import built_in, parse_table
from tests.processes import open_descriptors
from tests.sandbox.launcher import Launcher
from tests.sandbox.profiles import PROJECT_ROOTS, ROOT, entry, sandbox
from tests.unit.audit.logs import segments
from tests.wire import WireError, session

NOT_A_PROGRAM, INVALID = -32603, -32602
"""The reference has the first for arguments (transcript 035); whatever confines is of the second kind."""

Json = dict[str, Any]

EVERYTHING = entry(ROOT, "read")


def below(name: str, kind: str = "project_roots") -> Json:
    return {"type": "special", "value": {"kind": kind, "subpath": name}}


def pattern(text: str) -> Json:
    return {"type": "glob_pattern", "pattern": text}


INJECTED = "x\0wall=1000\0nofile=9999"

PARTS: dict[str, tuple[Json, int]] = {
    "arg0": ({"arg0": INJECTED}, NOT_A_PROGRAM),
    "argument": ({"argv": ["/bin/true", INJECTED]}, NOT_A_PROGRAM),
    "program": ({"argv": ["/bin/true\0--\0/bin/false"]}, NOT_A_PROGRAM),
    "value of a variable": ({"env": {"A": INJECTED}}, NOT_A_PROGRAM),
    "name of a variable": ({"env": {INJECTED: "1"}}, NOT_A_PROGRAM),
    "name with an equals sign": ({"env": {"A=B": "1"}}, NOT_A_PROGRAM),
    "tool call": ({"metadata": {"toolCallId": INJECTED}}, NOT_A_PROGRAM),
    "directory": ({"cwd": f"/{INJECTED}"}, INVALID),
    "directory as a URI": ({"cwd": "file:///x%00wall=1000"}, INVALID),
    "root": ({"sandbox": sandbox(EVERYTHING, workspaceRoots=[f"/{INJECTED}"])}, INVALID),
    "directory of the sandbox": ({"sandbox": sandbox(EVERYTHING, cwd="file:///x%00")}, INVALID),
    "path": ({"sandbox": sandbox(entry(Path("/x\0y"), "deny"), EVERYTHING)}, INVALID),
    "subpath": ({"sandbox": sandbox(EVERYTHING, entry(below(INJECTED), "deny"), cwd="/")}, INVALID),
    "subpath of the older name": (
        {"sandbox": sandbox(entry(below(INJECTED, "current_working_directory"), "deny"), cwd="/")},
        INVALID,
    ),
    "subpath of what nobody knows": (
        {"sandbox": sandbox(entry(below(INJECTED, "unknown"), "deny"))},
        INVALID,
    ),
    "pattern": ({"sandbox": sandbox(EVERYTHING, entry(pattern(f"**/{INJECTED}"), "deny"))}, INVALID),
    "root of an older policy": (
        {"sandbox": {"policy": {"type": "workspace-write", "writable_roots": [f"/{INJECTED}"]}}},
        INVALID,
    ),
}


@pytest.mark.parametrize("part", PARTS)
async def test_nothing_starts_with_a_nul_byte_anywhere(part: str, tmp_path: Path) -> None:
    extra, code = PARTS[part]
    confined = sandbox(EVERYTHING, limits={"wallSeconds": 1})
    async with session(audit_log=str(tmp_path / "log")) as client:
        params = {"sandbox": confined, "argv": ["/bin/true"], **extra}
        argv = params.pop("argv")
        with pytest.raises(WireError) as refusal:
            await client.start("p", *argv, **params)
        assert refusal.value.code == code
        assert (await client.call("process/list")) == {"processes": []}
        await client.start("q", "/bin/true", sandbox=confined)
        assert (await client.finish("q")).exit_code == 0


async def test_the_audit_log_tells_the_program_and_the_name_that_it_is_told(tmp_path: Path) -> None:
    async with session(audit_log=str(tmp_path / "log")) as client:
        for process, options in (("confined", {"sandbox": sandbox(EVERYTHING)}), ("free", {})):
            await client.start(process, "/bin/bash", "-c", "echo $0", arg0="other", **options)
            assert (await client.finish(process)).streams == {"stdout": b"other\n"}
        await client.start("plain", "/bin/true", arg0="/bin/true")
        await client.finish("plain")
    lines = b"".join(segment.read_bytes() for segment in segments(tmp_path / "log")).splitlines()
    starts = {told["process"]: told for told in map(json.loads, lines) if told["kind"] == "start"}
    for process in ("confined", "free"):
        assert (starts[process]["argv"][0], starts[process]["arg0"]) == ("/bin/bash", "other")
    assert "arg0" not in starts["plain"]


def test_the_command_line_refuses_a_profile_with_a_nul_byte(launcher: Launcher, workspace: Path) -> None:
    for place in (
        PROJECT_ROOTS | {"value": {"kind": "project_roots", "subpath": INJECTED}},
        pattern(INJECTED),
    ):
        files = {"type": "restricted", "entries": [EVERYTHING, entry(place, "deny")]}
        profile = json.dumps({"type": "managed", "file_system": files})
        done = launcher.run(("sandbox", "--profile", profile, "--", "touch", "made"), cwd=workspace)
        assert done.status == 2
        assert "contains a NUL byte" in done.stderr
    assert list(workspace.iterdir()) == []


@pytest.mark.parametrize(
    "text",
    [
        '{"file_system": {"read": ["/a\\u0000b"]}}',
        '{"type": "workspace-write", "writable_roots": ["/a\\u0000b"]}',
        json.dumps({"file_system": {"entries": [entry(pattern("a\0b"), "deny")]}}),
    ],
)
def test_every_form_of_a_profile_refuses_it(text: str) -> None:
    with pytest.raises(PaddockError, match="contains a NUL byte"):
        parse_profile(text, "a test")


@pytest.mark.parametrize(
    "table",
    [
        {"filesystem": {"/a\0b": "read"}},
        {"filesystem": {"/a\0b/*": "deny"}},
        {"filesystem": {":workspace_roots": {"a\0b": "read"}}},
        {"filesystem": {":workspace_roots": {"**/a\0b": "deny"}}},
        {"workspace_roots": {"/a\0b": True}},
    ],
)
def test_every_place_of_a_table_of_profiles_refuses_it(table: Json) -> None:
    with pytest.raises(PaddockError, match="contains a NUL byte"):
        parse_table({"permissions": {"dev": table}}, "a test", "/home/nobody", "dev")


# --- behind the wire --------------------------------------------------------


@pytest.fixture(name="engine")
def engine_of_this_host(tmp_path: Path) -> Iterator[Sandbox]:
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    engine = Sandbox(probe.host(), private)
    yield engine
    engine.close()


ENVIRONMENT = {"PATH": "/usr/bin:/bin"}


@pytest.mark.parametrize(
    "command",
    [
        Command(["/bin/true", INJECTED], "/", (), ENVIRONMENT),
        Command(["/bin/true"], "/", (), ENVIRONMENT, arg0=INJECTED),
        Command(["/bin/true"], "/", (), {"A": INJECTED}),
        Command(["/bin/true"], "/", (), {INJECTED: ""}),
    ],
)
def test_what_was_not_refused_before_is_refused_where_it_is_written(
    engine: Sandbox, command: Command
) -> None:
    profile = built_in(":read-only")
    confined = engine.prepare(profile, Command(["/bin/true"], "/", (), ENVIRONMENT))
    confined.started()
    confined.ended(was_killed=False)
    before = open_descriptors()
    with pytest.raises(ProfileRefused, match="contains a NUL byte"):
        engine.prepare(profile, command)
    with pytest.raises(ProfileRefused, match="contains a NUL byte"):
        assembly.assemble_init(Limits(wall_seconds=1), None, b"", command)
    assert open_descriptors() == before


def test_a_pattern_can_not_even_be_made() -> None:
    with pytest.raises(ValueError, match="contains a NUL byte"):
        ManagedProfile(
            file_system=RestrictedFileSystem(
                entries=(AccessEntry(path=GlobPath(pattern=os.fsdecode(b"a\0b")), access=Access.DENY),)
            )
        )
