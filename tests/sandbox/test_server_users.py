"""A server confines whoever runs it: root, and an ordinary user."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import paddock
from tests.sandbox.user_server import user_server
from tests.sandbox.ways import WAYS

EVERYTHING = {"path": {"type": "special", "value": {"kind": "root"}}, "access": "read"}


@pytest.fixture(scope="module", params=WAYS)
def url(user: int, ground: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """A server of that user, which grants nobody the network and gets its sandboxes in both ways."""
    filesystem = {":root": "write"}
    permissions = {"offline": {"filesystem": filesystem, "workspace_roots": {str(ground): True}}}
    with user_server(user, ground, way=request.param, permissions=permissions, max_profile="offline") as url:
        yield url


@pytest.fixture(name="workspace")
def workspace_of_the_user(ground: Path, user: int) -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="u-", dir=ground))
    (directory / "secret").write_text("hunter2")
    for path in (directory, directory / "secret"):
        os.chown(path, user, user)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


async def test_a_command_reaches_what_its_profile_grants_and_nothing_else(
    url: str, user: int, workspace: Path
) -> None:
    outside = workspace.with_name(f"{workspace.name}-outside")
    script = f"id -u; echo x > new; echo x > {outside}; mkdir .git; cat /proc/1/comm; true"
    async with paddock.connect(url) as box:
        done = await box.run(["sh", "-c", script], cwd=workspace, sandbox=":workspace")
    assert sorted(os.listdir(workspace)) == ["new", "secret"]
    assert not outside.exists()
    assert done.stdout == f"{user}\npaddock-init\n".encode()


async def test_a_command_that_is_denied_something_says_so(url: str, workspace: Path) -> None:
    async with paddock.connect(url) as box:
        done = await box.run(["sh", "-c", "echo x > new"], cwd=workspace, sandbox=":read-only")
    assert (done.returncode, done.ending.sandbox_denied) == (2, True)


async def test_more_than_the_server_grants_is_refused(url: str, workspace: Path) -> None:
    everything = {"type": "managed", "file_system": {"type": "unrestricted"}, "network": "enabled"}
    async with paddock.connect(url) as box:
        for sandbox in (None, everything):
            with pytest.raises(paddock.ProfileExceeded, match="max_profile") as refusal:
                await box.run(["touch", "new"], cwd=workspace, sandbox=sandbox)
            assert refusal.value.profile == "offline"
    assert not (workspace / "new").exists()


async def test_commands_at_once_see_only_what_is_theirs(url: str, user: int, workspace: Path) -> None:
    places = [workspace / str(number) for number in range(20)]
    for place in places:
        place.mkdir()
        os.chown(place, user, user)
    async with paddock.connect(url) as box:
        script = f"for d in {workspace}/*/; do echo x > $d/$0; done"
        await asyncio.gather(
            *(box.run(["sh", "-c", script, place.name], cwd=place, sandbox=":workspace") for place in places)
        )
    assert [os.listdir(place) for place in places] == [[place.name] for place in places]


async def test_a_command_that_may_have_no_more_processes_says_so(url: str, workspace: Path) -> None:
    limited = {
        "type": "managed",
        "file_system": {"type": "restricted", "entries": [EVERYTHING]},
        "limits": {"processes": 4},
    }
    script = "for i in 1 2 3 4 5 6 7 8; do sleep 60 & done"
    async with paddock.connect(url) as box:
        try:
            done = await box.run(["dash", "-c", script], cwd=workspace, sandbox=limited)
        except paddock.InvalidParams as refusal:
            pytest.skip(str(refusal))
    assert done.ending.cause is paddock.Cause.PROCESSES


async def test_files_are_reached_under_a_profile(url: str, user: int, workspace: Path) -> None:
    outside = workspace.with_name(f"{workspace.name}-outside")
    async with paddock.connect(url) as box:
        files = box.fs.confined(paddock.Sandbox(":workspace", roots=[workspace]))
        await files.write_file(workspace / "new", b"x")
        assert await files.read_file(workspace / "secret") == b"hunter2"
        with pytest.raises(paddock.RequestError):
            await files.write_file(outside, b"x")
    assert ((workspace / "new").read_bytes(), outside.exists()) == (b"x", False)
