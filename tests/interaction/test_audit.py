"""What a server writes into its audit log, and what it does when it can't."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from paddock.audit.segment import verify
from paddock.audit.writer import QUEUE_LIMIT
from paddock.errors import AuditLogError
from paddock.protocol.codes import INTERNAL_ERROR
from tests.serving import refused, serving
from tests.unit.audit.logs import full_disk, segments
from tests.wire import ENV, WireError, attach, served, shell


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log"


def told(path: Path, *kinds: str) -> list[dict[str, Any]]:
    lines = b"".join(segment.read_bytes() for segment in segments(path)).splitlines()
    records = [json.loads(line) for line in lines]
    return [record for record in records if not kinds or record["kind"] in kinds]


async def test_the_life_of_a_process_is_told_with_the_ids_of_everything_it_belongs_to(path: Path) -> None:
    async with served(audit_log=str(path)) as server:
        client = attach(server)
        session = (await client.initialize(clientName="tester"))["sessionId"]
        await client.start("build", *shell("exit 3"), env={**ENV, "API_TOKEN": "hunter22"})
        await client.finish("build")

    opened, of_session, start, exit_, closed = told(path)
    assert [opened["kind"], closed["kind"]] == ["opened", "closed"]
    assert of_session.items() >= {"kind": "session", "client": "tester", "connection": 1}.items()
    ids = {"session": session[:8], "process": "build"}
    assert start.items() >= {**ids, "connection": 1, "request": 2, "cwd": "/"}.items()
    assert start["argv"] == ["/bin/sh", "-c", "exit 3"]
    assert start["env"] == {**ENV, "API_TOKEN": "[redacted]"}
    assert exit_.items() >= {**ids, "kind": "exit", "exit_code": 3}.items()
    assert "signal" not in exit_
    assert verify(path).is_sound


async def test_a_start_is_in_the_log_before_the_program_runs(path: Path) -> None:
    async with served(audit_log=str(path)) as server:
        client = attach(server)
        await client.initialize()
        await client.start("grep", "grep", "-c", '"process":"grep"', str(path / "audit-00000001.jsonl"))
        finished = await client.finish("grep")

    assert finished.streams["stdout"] == b"1\n"


async def test_a_start_that_fails_is_told_with_its_reason(path: Path) -> None:
    async with served(audit_log=str(path)) as server:
        client = attach(server)
        await client.initialize()
        with pytest.raises(WireError):
            await client.start("p", "/nonexistent")

    start, failed = told(path, "start", "start-failed")
    assert (start["process"], failed["process"]) == ("p", "p")
    assert failed["reason"].startswith("can't start '/nonexistent': No such file or directory")


async def test_whoever_sends_a_signal_is_told(path: Path) -> None:
    async with served(audit_log=str(path)) as server:
        client, operator = attach(server), attach(server, is_operator=True)
        session = (await client.initialize())["sessionId"]
        await operator.initialize(clientName="op")
        await client.start("a", "sleep", "1000")
        await client.call("process/signal", {"processId": "a", "signal": "interrupt"})
        await client.finish("a")
        await client.call("process/signal", {"processId": "a", "signal": "SIGTERM"})
        await client.start("b", "sleep", "1000")
        await operator.call("process/terminate", {"processId": "b", "sessionId": session})
        await client.finish("b")

    signals = [(each["process"], each["signal"], each["connection"]) for each in told(path, "signal")]
    assert signals == [("a", "SIGINT", 1), ("b", "SIGKILL", 2)]
    assert [each["signal"] for each in told(path, "exit")] == [signal.SIGINT, signal.SIGKILL]
    assert [each.get("operator") for each in told(path, "session")] == [None, True]


async def test_a_session_that_is_resumed_is_told(path: Path) -> None:
    async with served(audit_log=str(path)) as server:
        first = attach(server)
        session = (await first.initialize())["sessionId"]
        first.link.abort()
        await server.quiet()
        await attach(server).initialize(resumeSessionId=session)

    assert [(each["connection"], each.get("resumed")) for each in told(path, "session")] == [
        (1, None),
        (2, True),
    ]


@pytest.mark.parametrize("settings", [{}, {"audit_failure": "stop"}])
async def test_a_full_disk_stops_starts_and_loses_no_exit(path: Path, settings: dict[str, Any]) -> None:
    async with served(audit_log=str(path), **settings) as server:
        client = attach(server)
        await client.initialize()
        await client.start("before", "sleep", "1000")
        with full_disk(path, 0):
            with pytest.raises(WireError, match="audit log can't be written: File too large") as refusal:
                await client.start("refused", "true")
            assert server.unreadiness() == "the audit log can't be written"
            await client.call("process/terminate", {"processId": "before"})
            assert (await client.finish("before")).exit_code == 128 + signal.SIGKILL
        await client.start("refused", "true")
        await client.finish("refused")
        assert server.unreadiness() is None

    assert refusal.value.code == INTERNAL_ERROR
    # The word of the signal is lost, unless the writer came to it only when there was space again.
    events = [(each["kind"], each.get("process")) for each in told(path) if each["kind"] != "signal"]
    assert events[2:-1] == [
        ("start", "before"),
        ("resumed", None),
        ("exit", "before"),
        ("start", "refused"),
        ("exit", "refused"),
    ]
    assert verify(path).is_sound


async def test_a_full_disk_stops_nothing_where_the_settings_say_so(path: Path) -> None:
    async with served(audit_log=str(path), audit_failure="continue") as server:
        client = attach(server)
        await client.initialize()
        with full_disk(path, 0):
            await client.start("a", "true")
            assert (await client.finish("a")).exit_code == 0
        await client.start("b", "true")
        await client.finish("b")

    (resumed,) = told(path, "resumed")
    # The start, and what is written when the writer comes to it: the session before, the exit after.
    assert resumed["lost"] in (1, 2, 3)
    assert [each["process"] for each in told(path, "start")] == ["b"]


async def test_a_client_that_sends_more_signals_than_the_disk_takes_waits_and_none_is_lost(
    path: Path,
) -> None:
    count = 2 * QUEUE_LIMIT
    async with served(audit_log=str(path)) as server:
        client = attach(server)
        await client.initialize()
        await client.start("p", *shell("trap '' USR1; echo; exec sleep 1000"))
        await client.event("p", "process/output")
        requests = [
            client.request("process/signal", {"processId": "p", "signal": "SIGUSR1"}) for _ in range(count)
        ]
        for request in requests:
            await client.answer(request)

    assert len(told(path, "signal")) == count


async def test_many_starts_at_once_are_all_told_in_one_chain_over_segments(path: Path) -> None:
    async with served(audit_log=str(path), audit_segment_bytes=65536) as server:
        client = attach(server)
        await client.initialize()
        names = [f"p{number}" for number in range(60)]
        await asyncio.gather(*(client.start(name, "true", env={**ENV, "X": "x" * 2000}) for name in names))
        for name in names:
            await client.finish(name)

    assert len(segments(path)) > 1
    assert {each["process"] for each in told(path, "start")} == set(names)
    assert {each["process"] for each in told(path, "exit")} == set(names)
    assert verify(path).is_sound


async def test_a_log_that_is_in_use_is_refused_before_anything_is_started(path: Path) -> None:
    async with served(audit_log=str(path)):
        with pytest.raises(AuditLogError, match="another server writes it"):
            async with served(audit_log=str(path)):
                pass
    async with served(audit_log=str(path)):
        pass


def test_a_server_that_is_killed_leaves_a_log_that_verifies(path: Path) -> None:
    with serving("--audit-log", str(path)) as server:
        os.kill(server.pid, signal.SIGKILL)
    with serving("--audit-log", str(path)) as server:
        server.stop()

    assert [each["kind"] for each in told(path)] == ["opened", "opened", "closed"]
    assert verify(path).is_sound


def test_a_log_that_cannot_be_written_is_said_when_the_server_starts() -> None:
    status, message = refused("--audit-log", "/dev/null/log")

    assert (status, message) == (
        1,
        "paddock serve: audit log /dev/null/log: can't be opened: Not a directory\n",
    )
