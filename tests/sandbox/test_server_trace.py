"""Commands that a server traces, over the wire."""

from __future__ import annotations

import json
import os
import signal
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import connect

from paddock.sandbox.host import tracing
from tests.processes import descendants_of, has_ended, watched
from tests.sandbox.profiles import READ_ONLY, workspace_write
from tests.serving import serving
from tests.wire import WireError, session, shell, start_params

Json = dict[str, Any]
PATIENCE_S = 30


@pytest.fixture(name="workspace")
def workspace_of_the_test(ground: Path) -> Path:
    """Outside /tmp, which several profiles let everybody write."""
    workspace = ground / f"traced-{os.urandom(4).hex()}"
    workspace.mkdir()
    return workspace


def traced(sandbox: Json) -> Json:
    return {**sandbox, "trace": True}


async def test_a_traced_command_is_told_all_that_it_was_refused_also_if_it_ends_well(workspace: Path) -> None:
    script = f"cd {workspace}; echo in > in; (echo x > ../out; mkdir .git) 2> /dev/null; exit 0"
    async with session() as client:
        await client.start("p", *shell(script), sandbox=traced(workspace_write(workspace)))
        exited = await client.event("p", "process/exited")
        assert (exited["exitCode"], exited["sandboxDenied"]) == (0, False)
        assert [(each["kind"], each["target"], each["certain"]) for each in exited["denials"]] == [
            ("write", f"{workspace.parent}/out", True),
            ("write", f"{workspace}/.git", True),
        ]
        again = await client.call("process/wait", {"processId": "p"})
        assert again["denials"] == exited["denials"]
        await client.start("q", *shell(script), sandbox=workspace_write(workspace))
        assert "denials" not in await client.event("q", "process/exited")
    assert (workspace / "in").read_text() == "in\n"


async def test_an_unknown_value_of_trace_is_refused() -> None:
    async with session() as client:
        with pytest.raises(WireError, match="trace"):
            await client.start("p", "/bin/true", sandbox={**READ_ONLY, "trace": "yes"})


async def test_where_commands_can_not_be_traced_nothing_starts(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "TRACING_KERNEL", (1000, 0))
    async with session() as client:
        with pytest.raises(WireError, match=r"this kernel can't report refused calls; use Linux 1000\.0"):
            await client.start(
                "p", "/bin/touch", f"{workspace}/x", sandbox=traced(workspace_write(workspace))
            )
        await client.start("p", "/bin/true", sandbox=workspace_write(workspace))
    assert not (workspace / "x").exists()


async def test_a_server_goes_on_while_commands_are_traced(workspace: Path) -> None:
    """Many at once, each with hundreds of calls that are asked about; requests are answered meanwhile."""
    count = 12
    loop = f"i=0; while [ $i -lt 200 ]; do : > {workspace}/$0; i=$((i+1)); done"
    script = f"{loop}; mkdir /usr/by-$0 2> /dev/null; exit 0"
    profile = traced(workspace_write(workspace))
    async with session() as client:
        for number in range(count):
            params = start_params(str(number), *shell(script), str(number), sandbox=profile)
            client.request("process/start", params)
        await client.start("plain", "/bin/echo", "hello")
        assert (await client.finish("plain")).streams["stdout"] == b"hello\n"
        for number in range(count):
            exited = await client.event(str(number), "process/exited")
            assert [each["target"] for each in exited["denials"]] == [f"/usr/by-{number}"]


async def test_a_traced_command_can_be_ended_at_any_moment(workspace: Path) -> None:
    async with session() as client:
        for number in range(5):
            name = str(number)
            script = f"echo ready; while :; do : > {workspace}/x; done"
            await client.start(name, *shell(script), sandbox=traced(workspace_write(workspace)))
            await client.event(name, "process/output")
            await client.call("process/terminate", {"processId": name, "mode": "force"})
            assert (await client.event(name, "process/exited"))["cause"] == "terminated"


def test_nothing_survives_a_server_that_is_killed_while_it_traces(workspace: Path) -> None:
    script = f"while :; do : > {workspace}/x; (mkdir /usr/y) 2> /dev/null; done & echo ready; wait"
    params = start_params("p", *shell(script), sandbox=traced(workspace_write(workspace)))
    with serving() as server, connect(server.url) as connection:
        connection.send(json.dumps({"id": 1, "method": "initialize", "params": {"clientName": "test"}}))
        connection.send('{"method":"initialized"}')
        connection.send(json.dumps({"id": 2, "method": "process/start", "params": params}))
        while json.loads(connection.recv(timeout=PATIENCE_S)).get("method") != "process/output":
            pass
        with ExitStack() as stack:
            pidfds = []
            for pid in descendants_of(server.pid):
                # The shells that try to make a directory end at any moment.
                with suppress(ProcessLookupError):
                    pidfds.append(stack.enter_context(watched(pid)))
            os.kill(server.pid, signal.SIGKILL)
            assert len(pidfds) >= 4
            assert all(has_ended(pidfd, PATIENCE_S) for pidfd in pidfds)
