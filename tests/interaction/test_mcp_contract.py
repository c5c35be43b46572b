"""What `paddock mcp` declares and what it does, call by call; and clients that vanish."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from mcp.shared.exceptions import MCPError

from tests.life_line import LifeLine
from tests.mcp_client import RawStdio, each_era, fields, in_process, rules_file, text


def call(command: str, workspace: Path, **more: object) -> dict[str, Any]:
    return {"command": command, "workdir": str(workspace), "login": False, **more}


MANY = 500

PATCH = """*** Begin Patch
*** Add File: added
+of a patch
*** End Patch
"""


async def test_result_of_every_tool_fits_the_schema_that_is_declared(
    url: str, workspace: Path, tmp_path: Path
) -> None:
    (workspace / "file").write_text("one\ntwo\n")
    async with in_process(url, workspace, rules=rules_file(tmp_path)) as client:
        declared = {tool.name: tool for tool in (await client.list_tools()).tools}
        waiting = {"cmd": "cat", "tty": True, "yield_time_ms": 250}
        begun = fields(await client.call_tool("exec_command", waiting))
        calls: list[tuple[str, dict[str, Any]]] = [
            ("shell", call("id -u; whoami; echo x > /etc/denied; echo err >&2; exit 3", workspace)),
            ("exec_command", {"cmd": "echo x > /etc/denied"}),
            ("write_stdin", {"session_id": begun["session_id"], "chars": "\x04"}),
            ("read_file", {"path": "file"}),
            ("edit_file", {"path": "file", "old": "two", "new": "three"}),
            ("search_files", {"pattern": "three"}),
            ("list_files", {}),
            ("apply_patch", {"input": PATCH}),
        ]
        assert [name for name, _ in calls] == list(declared)
        for name, arguments in calls:
            # The SDK's client holds a result against the declared schema, and raises if it does not fit.
            assert fields(await client.call_tool(name, arguments))
            schema = declared[name].output_schema
            assert schema is not None
            assert schema["additionalProperties"] is False
    assert (workspace / "added").read_text() == "of a patch\n"


WRONG: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("exec_command", {"cmd": ["touch", "ran"]}, "cmd"),
    ("exec_command", {"command": "touch ran"}, "command"),
    ("write_stdin", {"session_id": "1", "chars": ""}, "session_id"),
    ("read_file", {}, "path"),
    ("apply_patch", {"input": 5}, "input"),
    ("no_such_tool", {}, "shell, exec_command"),
)


@each_era
async def test_wrong_arguments_of_any_tool_run_nothing(era: str, url: str, workspace: Path) -> None:
    async with in_process(url, workspace, era) as client:
        for tool, arguments, problem in WRONG:
            try:
                result = await client.call_tool(tool, arguments)
                told = text(result) if result.is_error else ""
            except MCPError as error:
                told = str(error)
            assert problem in told
    assert os.listdir(workspace) == []


async def test_client_that_vanishes_during_a_call_leaves_nothing_running(
    workspace: Path, life_line: LifeLine
) -> None:
    async with RawStdio("--workspace", workspace) as client:
        arguments = call(f"{life_line.hold} sleep 600", workspace, timeout_ms=600_000)
        calling = asyncio.create_task(client.ask(1, "tools/call", name="shell", arguments=arguments))
        await life_line.held()
    await life_line.cut()
    assert (await calling)["error"]
    assert client.status == 0


async def test_client_that_vanishes_during_a_question_leaves_nothing_running(
    workspace: Path, tmp_path: Path, life_line: LifeLine
) -> None:
    async with RawStdio("--workspace", workspace, "--rules", rules_file(tmp_path)) as client:
        arguments = call(f"{life_line.hold} git init -q x; sleep 600", workspace, timeout_ms=600_000)
        asked = await client.ask(1, "tools/call", name="shell", arguments=arguments)
        assert asked["result"]["resultType"] == "input_required"
    await life_line.cut()
    assert client.status == 0


async def test_line_that_is_no_message_is_passed_over(workspace: Path) -> None:
    async with RawStdio("--workspace", workspace) as client:
        await client.write(b'nonsense\n\n{"jsonrpc": "2.0"}\n[]\n\xff\xfe\n{"jsonrpc": "2.0", "id": ')
        # The rest of a line that was cut comes with the next one.
        await client.write(b"null}\r\n")
        listed = await client.ask(5, "tools/list")
    assert listed["result"]["tools"][0]["name"] == "shell"


async def test_client_that_reads_late_gets_every_answer(workspace: Path) -> None:
    # Together more than the pipes hold in either direction, and more than the server keeps of each.
    async with RawStdio("--workspace", workspace) as client:
        for number in range(MANY):
            await client.request(number, "tools/list")
        answered = {(await client.receive())["id"] for _ in range(MANY)}
    assert answered == set(range(MANY))
