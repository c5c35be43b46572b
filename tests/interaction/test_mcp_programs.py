"""`paddock mcp` beside other programs: a server that it runs everything on, and `paddock approve`."""

from __future__ import annotations

import asyncio
import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import StdioServerParameters

from tests import operators
from tests.life_line import LifeLine
from tests.mcp_client import connected, each_era, fields, parameters, rules_file, text
from tests.operators import Operator
from tests.processes import children_of, descendants_of
from tests.serving import serving

TOKEN = "s" * 40


def call(command: str, workspace: Path, **more: object) -> dict[str, Any]:
    # A busy host may take longer than the ten seconds that a command has by default.
    return {"command": command, "workdir": str(workspace), "login": False, "timeout_ms": 60_000, **more}


@each_era
async def test_everything_runs_on_the_server_that_is_named(
    era: str, workspace: Path, tmp_path: Path, life_line: LifeLine
) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    token_options = ("--ws-auth", "capability-token", "--ws-token-file", str(token))
    with serving("--allow-escalation", *token_options) as server:
        named = ("--server", server.url, "--token-file", token, "--workspace", workspace)
        async with connected(parameters(*named, "--rules", rules_file(tmp_path)), era) as client:
            told = fields(await client.call_tool("shell", call("id -u; whoami; echo rc=$?", workspace)))
            assert [each["verdict"] for each in told["verdicts"]] == ["escalate", "deny"]
            (workspace / "made").write_text("by nobody\n")
            edit = {"path": "made", "old": "nobody", "new": "a tool"}
            assert not (await client.call_tool("edit_file", edit)).is_error
            before = set(descendants_of(server.pid))
            held = f"{life_line.hold} cat made; sleep 600"
            running = fields(await client.call_tool("exec_command", {"cmd": held, "yield_time_ms": 1000}))
            assert "by a tool" in running["output"]
            [mcp] = [pid for pid in children_of(os.getpid()) if _is_mcp(pid)]
            assert set(descendants_of(server.pid)) - before
            assert descendants_of(mcp) == []
        # The commands of a client that has gone end, and the server stays.
        await life_line.cut()
        os.kill(server.pid, 0)


def warm_starts(url: str) -> int:
    """How many commands of a server found their sandbox ready, as it says itself."""
    with urllib.request.urlopen(f"http{url.removeprefix('ws').rstrip('/')}/metrics") as answer:
        lines: list[str] = answer.read().decode().splitlines()
    [told] = (line for line in lines if line.startswith('paddock_sandbox_starts_total{start="warm"}'))
    return int(float(told.rpartition(" ")[2]))


@pytest.mark.parametrize("has_rules", [False, True])
async def test_only_a_command_without_rules_finds_its_sandbox_ready(
    has_rules: bool, workspace: Path, tmp_path: Path
) -> None:
    rules = ("--rules", rules_file(tmp_path)) if has_rules else ()
    with serving("--allow-escalation") as server:
        named = ("--server", server.url, "--workspace", workspace, *rules)
        # No rules of whoever runs the test.
        environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
        async with connected(parameters(*named, env=environment)) as client:
            # A spare is made while nobody waits, so how many calls it takes is up to the machine.
            for _ in range(2 if has_rules else 50):
                told = fields(await client.call_tool("shell", call("true", workspace)))
                assert told["exit_code"] == 0
                if warm_starts(server.url):
                    break
        assert (warm_starts(server.url) > 0) is not has_rules


async def test_server_that_is_not_there_is_a_clear_error(workspace: Path) -> None:
    nowhere = parameters("--server", "ws://127.0.0.1:9", "--workspace", workspace)
    async with connected(nowhere) as client:
        assert (await client.list_tools()).tools
        failed = await client.call_tool("shell", call("true", workspace))
    assert failed.is_error
    assert "127.0.0.1:9" in text(failed)


@pytest.fixture(name="operator")
def an_operator() -> Iterator[Operator]:
    with operators.new_operator() as opened:
        yield opened


def asking_the_console(workspace: Path, directory: Path, operator: Operator) -> StdioServerParameters:
    options = ("--ask", "console", "--workspace", workspace, "--rules", rules_file(directory))
    return parameters(*options, env=os.environ | operator.env)


async def asked(operator: Operator, calling: asyncio.Task[Any]) -> str:
    """The id of the one question that waits, as `paddock approve` lists it."""
    while "git init" not in (listed := await asyncio.to_thread(operator.output, "approve")):
        assert not calling.done(), calling
    return listed.split()[0]


@each_era
async def test_whoever_runs_approve_answers_while_the_call_waits(
    era: str, workspace: Path, tmp_path: Path, operator: Operator
) -> None:
    started = asking_the_console(workspace, tmp_path, operator)
    # The client can't be asked, and need not be.
    async with connected(started, era) as client:
        answers: list[tuple[str, ...]] = [("--once",), ("--decline", "use a branch")]
        told = []
        for number, answer in enumerate(answers):
            line = call(f"git init -q r{number}; echo rc=$?", workspace)
            calling = asyncio.create_task(client.call_tool("shell", line))
            question = await asked(operator, calling)
            assert "makes a repo" in await asyncio.to_thread(operator.output, "approve", question)
            await asyncio.to_thread(operator.output, "approve", question, *answer)
            told.append(fields(await calling)["output"])
    assert told[0] == "rc=0\n"
    assert "use a branch" in told[1]
    assert told[1].endswith("rc=1\n")
    assert ((workspace / "r0").is_dir(), (workspace / "r1").exists()) == (True, False)


async def test_client_that_goes_while_the_console_is_asked_leaves_nothing(
    workspace: Path, tmp_path: Path, operator: Operator, life_line: LifeLine
) -> None:
    started = asking_the_console(workspace, tmp_path, operator)
    async with connected(started) as client:
        line = call(f"{life_line.hold} git init -q never", workspace)
        calling = asyncio.create_task(client.call_tool("shell", line))
        await asked(operator, calling)
        calling.cancel()
        await life_line.cut()
    assert await asyncio.to_thread(operator.output, "approve") == "nothing waits for an answer\n"
    assert not (workspace / "never").exists()


def _is_mcp(pid: int) -> bool:
    return b"\0mcp\0" in Path(f"/proc/{pid}/cmdline").read_bytes()
