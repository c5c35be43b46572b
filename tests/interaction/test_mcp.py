"""The tools of `paddock mcp` before the official SDK's client in both eras."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import ListRootsResult, Root, RootsListChangedNotification

from paddock.mcp_server.catalogue import chosen_tools
from tests.life_line import LifeLine
from tests.mcp_client import (
    Answers,
    accept,
    connected,
    each_era,
    fields,
    in_process,
    parameters,
    rules_file,
    text,
)


def call(command: str, workspace: Path, **more: object) -> dict[str, object]:
    return {"command": command, "workdir": str(workspace), "login": False, **more}


@each_era
async def test_tools_are_listed_in_a_fixed_order_with_titles_and_schemas(
    era: str, url: str, workspace: Path
) -> None:
    async with in_process(url, workspace, era) as client:
        tools = (await client.list_tools()).tools
    assert [tool.name for tool in tools] == [
        "shell",
        "exec_command",
        "write_stdin",
        "read_file",
        "edit_file",
        "search_files",
        "list_files",
        "apply_patch",
    ]
    assert all(tool.title and tool.description and tool.output_schema for tool in tools)
    read_only = [tool.name for tool in tools if tool.annotations and tool.annotations.read_only_hint]
    assert read_only == ["read_file", "search_files", "list_files"]


@each_era
async def test_chosen_tools_are_the_only_ones(era: str, url: str, workspace: Path) -> None:
    async with in_process(url, workspace, era, tools=chosen_tools("list_files,shell")) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["shell", "list_files"]
        with pytest.raises(MCPError, match="tool not found") as caught:
            await client.call_tool("exec_command", {"cmd": "true"})
    assert caught.value.code == -32602


@each_era
async def test_output_comes_in_time_order_and_by_stream(era: str, url: str, workspace: Path) -> None:
    async with in_process(url, workspace, era) as client:
        command = "echo one; sleep 0.05; echo two >&2; sleep 0.05; echo three; exit 7"
        result = await client.call_tool("shell", call(command, workspace))
    told = fields(result)
    assert told["exit_code"] == 7
    assert told["output"] == "one\ntwo\nthree\n"
    assert (told["stdout"], told["stderr"]) == ("one\nthree\n", "two\n")
    assert (told["timed_out"], set(told["duration"])) == (False, {"secs", "nanos"})
    shown = json.loads(text(result))
    assert shown == {name: value for name, value in told.items() if name not in ("stdout", "stderr")}


@each_era
async def test_timeout_returns_what_was_printed_so_far(era: str, url: str, workspace: Path) -> None:
    async with in_process(url, workspace, era) as client:
        told = fields(
            await client.call_tool("shell", call("echo so far; sleep 60", workspace, timeout_ms=300))
        )
    assert (told["output"], told["timed_out"], told["exit_code"]) == ("so far\n", True, 124)


@each_era
async def test_denial_names_the_permission_that_would_help(era: str, url: str, workspace: Path) -> None:
    async with in_process(url, workspace, era) as client:
        inside = fields(await client.call_tool("shell", call("echo x > inside && cat inside", workspace)))
        outside = fields(await client.call_tool("shell", call("echo x > /etc/paddock-mcp-test", workspace)))
    assert inside["output"] == "x\n"
    assert outside["exit_code"] == 1
    [denial] = outside["denials"]
    assert (denial["kind"], denial["target"]) == ("write", "/etc/paddock-mcp-test")
    # A file alone can't be granted before it exists.
    assert denial["permission"] == '"/etc" = "write"'


@each_era
async def test_verdicts_name_the_rule_by_file_and_line(
    era: str, url: str, workspace: Path, tmp_path: Path
) -> None:
    rules = rules_file(tmp_path)
    async with in_process(url, workspace, era, rules=rules) as client:
        told = fields(await client.call_tool("shell", call("id -u; whoami; echo rc=$?", workspace)))
    assert "rc=1" in told["output"]
    escalated, denied = told["verdicts"]
    assert (escalated["program"], escalated["verdict"]) == ("/usr/bin/id", "escalate")
    assert escalated["rule"] == {"path": str(rules), "line": 3}
    assert (denied["program"], denied["verdict"], denied["justification"]) == (
        "/usr/bin/whoami",
        "deny",
        "private",
    )
    assert denied["rule"] == {"path": str(rules), "line": 4}


@each_era
async def test_prompt_in_the_middle_of_a_command_is_asked_and_the_command_goes_on(
    era: str, url: str, workspace: Path, tmp_path: Path
) -> None:
    answers = Answers(accept())
    async with in_process(url, workspace, era, rules=rules_file(tmp_path), answer=answers) as client:
        told = fields(
            await client.call_tool("shell", call("echo before; git init -q x; echo rc=$?", workspace))
        )
    [question] = answers.questions
    assert question.message == f"Allow agent to run `/usr/bin/git init -q x` in `{workspace}`?"
    assert told["output"] == "before\nrc=0\n"
    assert (workspace / "x/.git").is_dir()
    [verdict] = told["verdicts"]
    assert verdict["verdict"] == "escalate"


@each_era
async def test_client_without_elicitation_is_refused_at_once_with_the_way_out(
    era: str, url: str, workspace: Path, tmp_path: Path
) -> None:
    async with in_process(url, workspace, era, rules=rules_file(tmp_path)) as client:
        told = fields(await client.call_tool("shell", call("git init -q x; echo rc=$?", workspace)))
    assert "rc=1" in told["output"]
    assert "--ask console" in told["output"]
    assert not (workspace / "x").exists()


BAD_INPUT = (
    ({"command": "true"}, -32602, "workdir"),
    ({"command": 1, "workdir": "/"}, -32602, "command"),
    ({"command": "true", "workdir": "/", "timeout_ms": -1}, -32602, "timeout_ms"),
    ({"command": "true", "workdir": "/", "sudo": True}, -32602, "sudo"),
    ({"command": "x" * 200_000, "workdir": "/"}, -32602, "command"),
    ({"command": "true\0", "workdir": "/"}, -32602, "NUL"),
    ({"command": "true", "workdir": "here"}, -32603, "absolute"),
    ({"command": "true", "workdir": "/nonexistent/x"}, -32603, "no directory"),
    ({"command": "true", "workdir": "/etc/passwd"}, -32603, "not a directory"),
)


@each_era
async def test_bad_input_is_a_clear_error(era: str, url: str, workspace: Path) -> None:
    async with in_process(url, workspace, era) as client:
        for arguments, code, problem in BAD_INPUT:
            with pytest.raises(MCPError, match=problem) as caught:
                await client.call_tool("shell", arguments)
            assert caught.value.code == code
        assert fields(await client.call_tool("shell", call("echo on", workspace)))["output"] == "on\n"


@each_era
async def test_command_that_goes_on_is_kept_under_its_session_id(era: str, url: str, workspace: Path) -> None:
    async with in_process(url, workspace, era) as client:
        started = fields(
            await client.call_tool(
                "exec_command", {"cmd": "cat; echo end", "tty": True, "yield_time_ms": 250}
            )
        )
        ended = fields(
            await client.call_tool("write_stdin", {"session_id": started["session_id"], "chars": "hi\n\x04"})
        )
    assert "exit_code" not in started
    assert "end" in ended["output"]


async def test_roots_of_the_client_are_the_workspace_where_nobody_names_one(
    workspace: Path, tmp_path: Path
) -> None:
    named = [workspace / "one"]
    for name in ("one", "two"):
        (workspace / name).mkdir()

    async def roots(context: Any) -> ListRootsResult:
        return ListRootsResult(roots=[Root.model_validate({"uri": path.as_uri()}) for path in named])

    async def statuses() -> list[int]:
        """What becomes of a file in each directory."""
        return [
            fields(await client.call_tool("shell", call("echo x > mine", workspace / name)))["exit_code"]
            for name in ("one", "two")
        ]

    async with Client(parameters(cwd=tmp_path), mode="legacy", list_roots_callback=roots) as client:
        assert await statuses() == [0, 1]
        assert "mine" in text(await client.call_tool("list_files", {}))
        named[0] = workspace / "two"
        await client.session.send_notification(RootsListChangedNotification())
        # A request after it is handled after it.
        await client.list_tools()
        assert await statuses() == [1, 0]


@each_era
async def test_server_on_standard_streams_works_in_its_own_directory_and_leaves_nothing(
    era: str, workspace: Path
) -> None:
    life_line = LifeLine(workspace)
    try:
        # Nobody names a workspace, and the client has no roots.
        async with connected(parameters(cwd=workspace), era) as client:
            command = f"{life_line.hold} echo x > here; sleep 600 & exit 0"
            told = fields(await client.call_tool("shell", call(command, workspace)))
            assert (await client.list_tools()).tools
        assert told["exit_code"] == 0
        assert (workspace / "here").read_text() == "x\n"
        await life_line.cut()
    finally:
        life_line.close()
