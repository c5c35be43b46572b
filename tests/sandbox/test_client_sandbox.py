"""Sandboxes as the Python client asks for them, with the real kernel; and what is told of the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import paddock
import paddock.sync
from paddock.errors import InvalidProfile
from tests.wire import served

Json = dict[str, Any]


@pytest.fixture(name="workspace")
def workspace_of_the_test(new_directory: Path) -> Path:
    """With a file that profiles deny."""
    (new_directory / "file").write_text("hello")
    (new_directory / "secret").write_text("hunter2")
    return new_directory


def denying(path: Path, **more: Any) -> Json:
    """A profile under which everything can be read but one path."""
    return {
        "type": "managed",
        "file_system": {
            "type": "restricted",
            "entries": [
                {"path": {"type": "special", "value": {"kind": "root"}}, "access": "read"},
                {"path": {"type": "path", "path": str(path)}, "access": "deny"},
            ],
        },
        **more,
    }


@pytest.mark.parametrize(
    ("sandbox", "is_written"),
    [
        (None, True),
        (":read-only", False),
        (":workspace", True),
        ({"type": "read-only"}, False),
        ({"type": "workspace-write"}, True),
    ],
)
async def test_a_sandbox_is_a_name_or_a_profile_and_its_workspace_is_where_the_command_runs(
    workspace: Path, sandbox: str | Json | None, is_written: bool
) -> None:
    async with served() as server, paddock.connect(server.url) as box:
        done = await box.run(["sh", "-c", "echo x > new"], cwd=workspace, sandbox=sandbox)
    assert (done.returncode == 0) == is_written == (workspace / "new").exists()
    assert done.ending.sandbox_denied == (not is_written)


async def test_another_workspace_than_the_directory_can_be_named(workspace: Path) -> None:
    async with served() as server, paddock.connect(server.url) as box:
        sandbox = paddock.Sandbox(":workspace", roots=[workspace])
        done = await box.run(["sh", "-c", f"echo x > {workspace}/new"], cwd="/", sandbox=sandbox)
    assert (done.returncode, (workspace / "new").exists()) == (0, True)


async def test_a_traced_command_tells_what_it_was_refused_though_it_ended_well(workspace: Path) -> None:
    async with served() as server, paddock.connect(server.url) as box:
        sandbox = paddock.Sandbox(denying(workspace / "secret"), trace=True)
        done = await box.run(["sh", "-c", "cat secret 2>&-; true"], cwd=workspace, sandbox=sandbox)
    (denial,) = done.ending.denials
    assert (denial.kind, denial.target) == (paddock.DenialKind.READ, str(workspace / "secret"))
    assert (denial.is_certain, done.ending.sandbox_denied, done.returncode) == (True, False, 0)


async def test_what_ended_a_command_and_what_it_used_is_told(workspace: Path) -> None:
    async with served() as server, paddock.connect(server.url) as box:
        profile = denying(workspace / "secret", limits={"cpuSeconds": 1})
        spun = await box.run(["sh", "-c", "while :; do :; done"], sandbox=profile)
        assert spun.ending.cause is paddock.Cause.CPU
        assert spun.ending.usage is not None
        assert spun.ending.usage.user_s + spun.ending.usage.system_s > 0.5
        plain = (await box.run(["true"])).ending
        assert (plain.exit_code, plain.cause, plain.denials) == (0, paddock.Cause.EXIT, ())


async def test_how_a_process_ended_is_told_to_whoever_comes_back(workspace: Path) -> None:
    async with served() as server:
        async with paddock.connect(server.url) as box:
            process = await box.start(["cat", f"{workspace}/secret"], sandbox=denying(workspace / "secret"))
            await process.wait()
            ending, process_id = process.ending, process.process_id
            session_id = box.session_id
            await box.detach()
        async with paddock.connect(server.url, resume=session_id) as box:
            assert (await box.attach(process_id)).ending == ending
    assert ending is not None
    assert ending.sandbox_denied
    assert ending.usage is not None


async def test_files_are_reached_under_a_profile(workspace: Path) -> None:
    async with served() as server, paddock.connect(server.url) as box:
        files = box.fs.confined(denying(workspace / "secret"))
        assert await files.read_file(workspace / "file") == b"hello"
        async with files.reader(workspace / "file") as reader:
            assert await reader.read() == b"hello"
        with pytest.raises(paddock.InvalidRequest):
            await files.read_file(workspace / "secret")
        with pytest.raises(paddock.OperationFailed, match="Read-only"):
            await files.write_file(workspace / "file", b"changed")
        with pytest.raises(paddock.OperationFailed, match="Read-only"):
            async with files.writer(workspace / "file") as writer:
                await writer.write(b"changed")
        assert await box.fs.read_file(workspace / "secret") == b"hunter2"
        confined = box.path(workspace, sandbox=paddock.Sandbox(":workspace", roots=[workspace]))
        await (confined / "new").write_text("new")
        with pytest.raises(paddock.PaddockError):
            await (confined.parent / "outside").write_text("new")
    assert (workspace / "file").read_text() == "hello"


@pytest.mark.parametrize(
    ("sandbox", "problem"),
    [
        ("nobody", "there are :read-only, :workspace, :danger-full-access"),
        ({"type": "managed", "surprise": 1}, "surprise"),
        ({"type": "no-such"}, "no-such"),
        (3, "give the name of a profile"),
    ],
)
async def test_a_sandbox_that_makes_no_sense_is_refused(sandbox: Any, problem: str) -> None:
    async with served() as server, paddock.connect(server.url) as box:
        with pytest.raises((paddock.InvalidParams, InvalidProfile, TypeError), match=problem):
            await box.run(["true"], sandbox=sandbox)
        assert await box.processes() == []


def test_programs_that_block_have_the_same_sandboxes(workspace: Path) -> None:
    with paddock.sync.connect() as box:
        done = box.run(["cat", str(workspace / "secret")], sandbox=denying(workspace / "secret"))
        assert (done.returncode, done.ending.sandbox_denied) == (1, True)
        assert box.fs.confined(":read-only").read_file(workspace / "file") == b"hello"
        process = box.start(["true"], sandbox=":read-only")
        process.wait()
        assert process.ending is not None
        assert not process.ending.sandbox_denied
        with pytest.raises(paddock.PaddockError):
            box.path(workspace / "new", sandbox=":read-only").write_text("x")
