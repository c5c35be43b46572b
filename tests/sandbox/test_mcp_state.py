"""A client of `paddock mcp` narrows its sandbox and never widens it, with the real kernel."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from tests.mcp_client import ERAS, each_era, fields, in_process
from tests.serving import serving

META_KEY = "codex/sandbox-state-meta"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving("--allow-escalation") as server:
        yield server.url


@pytest.fixture
def workspace() -> Iterator[Path]:
    # Not in /tmp, which the profile of a workspace lets every command write.
    with tempfile.TemporaryDirectory(prefix="paddock-mcp-", dir="/var/tmp") as directory:
        (Path(directory) / "sub").mkdir()
        yield Path(directory)


@pytest.fixture
def outside() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="paddock-mcp-", dir="/var/tmp") as directory:
        yield Path(directory)


async def writes(client: Any, path: Path, workdir: Path, **more: Any) -> bool:
    """Whether a command can write there; both tools that run commands must agree."""
    told = fields(
        await client.call_tool(
            "shell", {"command": f"echo x > {path}", "workdir": str(workdir), "login": False}, **more
        )
    )
    other = fields(await client.call_tool("exec_command", {"cmd": f"echo x > {path}"}, **more))
    assert told["exit_code"] == other["exit_code"]
    return bool(told["exit_code"] == 0)


@each_era
@pytest.mark.parametrize(
    ("written", "in_workspace", "in_sub", "beyond"),
    [
        (None, True, True, False),
        ({"type": "read-only"}, False, False, False),
        ({"type": "danger-full-access"}, True, True, False),
        ({"type": "workspace-write", "writable_roots": ["@OUT"]}, False, True, False),
    ],
)
async def test_call_is_confined_by_what_its_meta_says_within_the_servers_profile(
    era: str,
    url: str,
    workspace: Path,
    outside: Path,
    written: dict[str, Any] | None,
    in_workspace: bool,
    in_sub: bool,
    beyond: bool,
) -> None:
    more: dict[str, Any] = {}
    if written is not None:
        policy = {
            name: [str(outside)] if name == "writable_roots" else value for name, value in written.items()
        }
        more["meta"] = {META_KEY: {"permissionProfile": policy, "sandboxCwd": str(workspace / "sub")}}
    async with in_process(url, workspace, era) as client:
        assert await writes(client, workspace / "file", workspace, **more) is in_workspace
        assert await writes(client, workspace / "sub/file", workspace, **more) is in_sub
        assert await writes(client, outside / "file", workspace, **more) is beyond
    assert os.listdir(outside) == []


@each_era
async def test_link_that_a_command_made_leads_no_later_grant_out_of_the_workspace(
    era: str, url: str, workspace: Path, outside: Path
) -> None:
    async with in_process(url, workspace, era) as client:
        command = f"rmdir sub; ln -s {outside} sub"
        told = fields(
            await client.call_tool("shell", {"command": command, "workdir": str(workspace), "login": False})
        )
        assert told["exit_code"] == 0
        meta: Any = {
            META_KEY: {
                "permissionProfile": {"type": "workspace-write", "writable_roots": []},
                "sandboxCwd": str(workspace / "sub"),
            }
        }
        result = await client.call_tool(
            "shell", {"command": "echo x > sub/file", "workdir": str(workspace), "login": False}, meta=meta
        )
        assert result.is_error or fields(result)["exit_code"] != 0
    assert os.listdir(outside) == []


@each_era
async def test_state_that_cannot_be_read_runs_nothing(era: str, url: str, workspace: Path) -> None:
    unreadable: Any = {META_KEY: {"permissionProfile": {"type": "no-such"}, "sandboxCwd": str(workspace)}}
    async with in_process(url, workspace, era) as client:
        with pytest.raises(MCPError, match="sandbox state") as caught:
            await client.call_tool(
                "shell",
                {"command": "touch ran", "workdir": str(workspace)},
                meta=unreadable,
            )
    assert caught.value.code == -32602
    assert not (workspace / "ran").exists()


async def test_capabilities_tell_of_both_shapes(url: str, workspace: Path) -> None:
    async with in_process(url, workspace, ERAS[0]) as client:
        capabilities = client.server_capabilities
    assert capabilities is not None
    assert capabilities.experimental == {"codex/sandbox-state": {"version": "1.0.0"}, META_KEY: {}}
