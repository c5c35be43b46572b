"""The stock Codex CLI uses `paddock mcp` as its MCP server, and its own sandbox applies there."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.interop.codex import Codex, Ground, Mode, codex_cli, new_ground
from tests.interop.model import Call


def server_options(ground: Ground) -> list[str]:
    """How the CLI is told of the server. Its own profile is wide: what confines is what the CLI says."""
    arguments = ["-P", "-m", "paddock", "mcp", "--workspace", str(ground.workspace)]
    settings = {
        "command": json.dumps(sys.executable),
        "args": json.dumps(arguments),
        "startup_timeout_sec": "60",
        "required": "true",
        "default_tools_approval_mode": '"approve"',
    }
    return [
        word for name, value in settings.items() for word in ("-c", f"mcp_servers.paddock.{name}={value}")
    ]


def shell(command: str, workdir: Path) -> Call:
    arguments = {"command": command, "workdir": str(workdir), "login": False, "timeout_ms": 30_000}
    return Call("shell", arguments, namespace="mcp__paddock")


async def result(codex: Codex, command: str) -> str:
    (reply,) = await codex.use(shell(command, codex.ground.workspace))
    return reply.text


@pytest.mark.parametrize(
    ("mode", "may_write"),
    [(Mode.READ_ONLY, False), (Mode.WORKSPACE_WRITE, True), (Mode.DANGER_FULL_ACCESS, True)],
)
async def test_tool_runs_in_the_sandbox_of_the_session_within_that_of_the_server(
    mode: Mode, may_write: bool
) -> None:
    with new_ground() as ground:
        async with codex_cli(ground, mode, *server_options(ground)) as codex:
            said = await result(codex, "echo sum-$((6*7)); exit 3")
            await result(codex, "echo x > inside")
            await result(codex, f"echo x > {ground.outside}/file")
            status, _ = await codex.finish()
        assert "sum-42" in said
        assert '"exit_code":3' in said.replace("\\", "")
        assert (ground.workspace / "inside").exists() is may_write
        # The server's own profile is the most, also for a session without a sandbox.
        assert list(ground.outside.iterdir()) == []
        assert status == 0
