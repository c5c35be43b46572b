"""Operators: who they are, what they see, and what nobody else may."""

from __future__ import annotations

import base64
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from paddock.server.app import Server
from paddock.version import __version__
from tests.wire import Message, WireClient, WireError, attach, encode, served, shell

REACHING: tuple[tuple[str, Message], ...] = (
    ("process/read", {}),
    ("process/write", {"chunk": encode(b"x")}),
    ("process/write", {"chunk": encode(b"x"), "writeId": "w"}),
    ("process/closeStdin", {}),
    ("process/resize", {"rows": 5, "cols": 5}),
    ("process/signal", {"signal": "TERM"}),
    ("process/terminate", {}),
    ("process/wait", {}),
    ("process/snapshot", {}),
)
"""Every method that takes a session id, with what else it needs."""


@asynccontextmanager
async def client_and_operator(**settings: Any) -> AsyncIterator[tuple[Server, WireClient, WireClient, str]]:
    async with served(**settings) as server:
        client, operator = attach(server), attach(server, is_operator=True)
        session_id = (await client.initialize(clientName="agent"))["sessionId"]
        await operator.initialize(clientName="operator", capabilities={"extensions": True})
        yield server, client, operator, session_id


async def sessions_of(operator: WireClient) -> dict[str, Message]:
    status = await operator.call("control/status")
    return {session["sessionId"]: session for session in status["sessions"]}


async def test_an_operator_sees_the_server_and_every_session_with_its_processes() -> None:
    async with client_and_operator() as (server, client, operator, session_id):
        await client.start("p", "/bin/cat", "-", tty=True, io={"pty": {"rows": 7, "cols": 9}}, keepAlive=True)
        await client.start("done", *shell("echo hello; exit 3"))
        await client.finish("done")

        status = await operator.call("control/status")

        about = status["server"]
        assert (about["pid"], about["url"], about["version"]) == (os.getpid(), server.url, __version__)
        assert about["uptimeMs"] >= 0
        (session,) = status["sessions"]
        assert (session["sessionId"], session["clientName"]) == (session_id, "agent")
        assert session["attached"] is True
        running, done = session["processes"]
        assert running.pop("startedAtMs") <= done.pop("startedAtMs")
        assert os.readlink(f"/proc/{running.pop('pid')}/exe").endswith("cat")
        assert running == {
            "processId": "p",
            "argv": ["/bin/cat", "-"],
            "cwd": "/",
            "tty": True,
            "rows": 7,
            "cols": 9,
            "running": True,
            "survivors": False,
            "exitCode": None,
            "failure": None,
            "keepAlive": True,
            "outputBytes": 0,
            "nextSeq": 1,
        }
        assert (done["running"], done["exitCode"], done["outputBytes"]) == (False, 3, 6)
        assert (done["rows"], done["cols"], done["nextSeq"]) == (None, None, 4)


async def test_an_operator_reaches_the_processes_of_another_session() -> None:
    async with client_and_operator() as (_, client, operator, session_id):
        await client.start("p", "/bin/cat", pipeStdin=True)
        there = {"processId": "p", "sessionId": session_id}

        await operator.call("process/write", {**there, "chunk": encode(b"from the operator")})
        read = await operator.call("process/read", {**there, "waitMs": 20_000})
        await operator.call("process/closeStdin", there)
        waited = await operator.call("process/wait", there)
        kept = await operator.call("process/snapshot", there)

        assert base64.b64decode(read["chunks"][0]["chunk"]) == b"from the operator"
        assert (waited["exited"], waited["exitCode"]) == (True, 0)
        assert base64.b64decode(kept["stdout"]) == b"from the operator"
        assert (await client.finish("p")).streams["stdout"] == b"from the operator"


async def test_an_operator_resizes_signals_and_ends_what_another_session_started() -> None:
    async with client_and_operator() as (_, client, operator, session_id):
        script = "trap 'stty size' WINCH; trap 'echo told' CONT; echo ready; while :; do sleep 0.01; done"
        await client.start("p", *shell(script), tty=True)
        await client.event("p", "process/output")
        there = {"processId": "p", "sessionId": session_id}

        await operator.call("process/resize", {**there, "rows": 12, "cols": 34})
        assert base64.b64decode((await client.event("p", "process/output"))["chunk"]) == b"12 34\r\n"
        await operator.call("process/signal", {**there, "signal": "CONT"})
        assert base64.b64decode((await client.event("p", "process/output"))["chunk"]) == b"told\r\n"
        assert await operator.call("process/terminate", there) == {"running": True}
        assert (await client.event("p", "process/exited"))["exitCode"] == 137


@pytest.mark.parametrize(("method", "params"), REACHING)
async def test_nobody_else_may_name_another_session(method: str, params: Message) -> None:
    async with client_and_operator() as (server, client, operator, session_id):
        await client.start("p", "/bin/cat", pipeStdin=True)
        stranger = attach(server)
        await stranger.initialize()

        for foreign in (session_id, "no-such-session"):
            with pytest.raises(WireError, match="is not the session of this connection") as caught:
                await stranger.call(method, {"processId": "p", "sessionId": foreign, **params})
            assert caught.value.code == -32600
        assert (await sessions_of(operator))[session_id]["processes"][0]["running"] is True


@pytest.mark.parametrize(("method", "params"), REACHING)
async def test_an_operator_learns_that_a_session_does_not_exist(method: str, params: Message) -> None:
    async with client_and_operator() as (_, _client, operator, _session_id):
        with pytest.raises(WireError, match="unknown session id 'nowhere'") as caught:
            await operator.call(method, {"processId": "p", "sessionId": "nowhere", **params})
        assert caught.value.code == -32600


async def test_everybody_may_name_the_session_that_is_theirs() -> None:
    async with client_and_operator() as (_, client, _operator, session_id):
        await client.start("p", *shell("exit 4"))
        waited = await client.call("process/wait", {"processId": "p", "sessionId": session_id})
        assert waited["exitCode"] == 4


async def test_control_methods_do_not_exist_for_anybody_else() -> None:
    async with client_and_operator() as (_, client, _operator, _session_id):
        for method in ("control/status", "control/nothing"):
            with pytest.raises(WireError, match=f"this server has no method '{method}'") as caught:
                await client.call(method)
            assert caught.value.code == -32601


async def test_an_operator_sees_sessions_that_wait_for_their_client() -> None:
    async with client_and_operator() as (_, client, operator, session_id):
        await client.start("p", "/bin/cat", pipeStdin=True)
        client.link.abort()
        await client.closed()

        while (await sessions_of(operator))[session_id]["attached"]:
            pass
        there = {"processId": "p", "sessionId": session_id}
        await operator.call("process/write", {**there, "chunk": encode(b"anybody?")})
        read = await operator.call("process/read", {**there, "waitMs": 20_000})
        assert base64.b64decode(read["chunks"][0]["chunk"]) == b"anybody?"


async def test_a_client_that_comes_back_under_another_name_is_told_of_by_that_name() -> None:
    async with client_and_operator() as (server, client, operator, session_id):
        client.link.abort()
        await client.closed()
        while (await sessions_of(operator))[session_id]["attached"]:
            pass
        again = attach(server)
        await again.initialize(clientName="again", resumeSessionId=session_id)
        session = (await sessions_of(operator))[session_id]
        assert (session["clientName"], session["attached"]) == ("again", True)


async def test_the_session_of_an_operator_ends_with_its_connection_but_what_it_keeps_does_not() -> None:
    async with client_and_operator() as (server, _client, operator, session_id):
        other = attach(server, is_operator=True)
        own_id = (await other.initialize(clientName="starter"))["sessionId"]
        assert own_id not in await sessions_of(other)
        assert set(await sessions_of(operator)) == {session_id, own_id}
        await other.start("kept", "/bin/cat", pipeStdin=True, keepAlive=True)
        await other.start("left", "/bin/sleep", "1000")
        other.link.abort()
        await other.closed()

        def left(sessions: dict[str, Message]) -> list[bool]:
            return [p["running"] for p in sessions[own_id]["processes"] if p["processId"] == "left"]

        while True in left(await sessions_of(operator)):
            pass
        running = [p["processId"] for p in (await sessions_of(operator))[own_id]["processes"] if p["running"]]
        assert running == ["kept"]


async def test_an_empty_session_of_an_operator_is_gone_with_it() -> None:
    async with client_and_operator() as (server, _client, operator, session_id):
        other = attach(server, is_operator=True)
        await other.initialize()
        other.link.abort()
        await other.closed()
        while set(await sessions_of(operator)) != {session_id}:
            pass


# --- kept processes ---------------------------------------------------------


async def kept_and_ended(server: Server, operator: WireClient, script: str = "echo result; exit 5") -> str:
    """A kept process that ended after its client had gone; the id of its session."""
    client = attach(server)
    session_id: str = (await client.initialize())["sessionId"]
    await client.start("p", *shell(f"read x; {script}"), pipeStdin=True, keepAlive=True)
    client.link.abort()
    await client.closed()
    while (await sessions_of(operator))[session_id]["attached"]:
        pass
    there = {"processId": "p", "sessionId": session_id}
    await operator.call("process/write", {**there, "chunk": encode(b"\n")})
    await operator.call("process/wait", there)
    return session_id


async def test_the_output_of_a_kept_process_can_be_had_after_its_end() -> None:
    async with client_and_operator(session_ttl_s=0, closed_process_ttl_s=0) as (server, _, operator, _id):
        session_id = await kept_and_ended(server, operator)
        there = {"processId": "p", "sessionId": session_id}
        read = await operator.call("process/read", there)
        assert base64.b64decode(read["chunks"][0]["chunk"]) == b"result\n"
        assert read["exitCode"] == 5

        back = attach(server)
        await back.initialize(resumeSessionId=session_id)
        assert (await back.call("process/wait", {"processId": "p"}))["exitCode"] == 5


async def test_a_kept_process_outlasts_those_that_closed_after_it() -> None:
    async with client_and_operator(closed_process_ttl_s=0) as (_, client, operator, session_id):
        await client.start("kept", *shell("echo result"), keepAlive=True)
        await client.finish("kept")
        await client.start("other", *shell("exit 0"))
        await client.finish("other")

        def known(sessions: dict[str, Message]) -> list[str]:
            return [process["processId"] for process in sessions[session_id]["processes"]]

        while "other" in known(await sessions_of(operator)):
            pass
        assert known(await sessions_of(operator)) == ["kept"]


async def test_a_kept_process_is_forgotten_with_its_session_when_its_time_is_over() -> None:
    settings = {"session_ttl_s": 0, "kept_process_ttl_s": 0}
    async with client_and_operator(**settings) as (server, _, operator, _id):
        client = attach(server)
        session_id = (await client.initialize())["sessionId"]
        await client.start("p", *shell("read x"), pipeStdin=True, keepAlive=True)
        client.link.abort()
        await client.closed()
        await operator.call("process/closeStdin", {"processId": "p", "sessionId": session_id})
        while session_id in await sessions_of(operator):
            pass


async def test_all_remembered_sessions_together_hold_no_more_than_one_may() -> None:
    limit_bytes = 100_000
    settings = {"session_ttl_s": 0, "closed_output_bytes_per_session": limit_bytes}
    async with client_and_operator(**settings) as (server, _, operator, _id):
        script = "head -c 40000 /dev/zero"
        remembered = [await kept_and_ended(server, operator, script) for _ in range(4)]
        while True:
            known = await sessions_of(operator)
            if len([session_id for session_id in remembered if session_id in known]) == 2:
                break
        assert [session_id in known for session_id in remembered] == [False, False, True, True]
