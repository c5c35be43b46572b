"""The log of a real server: every line parses, and tells what happened to whom."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

import paddock
from paddock.journal import Event
from paddock.server import stall
from paddock.transport.limits import TransportLimits
from tests.serving import serving
from tests.wire import attach, served, shell, start_params

JSON_LOG = ("--log-format", "json", "--log-level")
NASTY = 'x\n{"event":"forged"}\r\x1b[2J\u2028\x85\u202e"\\'
"""Whatever could forge a line, break one, or play with a terminal."""

Line = dict[str, Any]

PATIENCE_S = 30


def lines_of(log: str) -> list[Line]:
    """The lines of a log; each must be an object, whatever counts as the end of a line."""
    assert log == "\n".join(log.splitlines()) + "\n"
    return [json.loads(line) for line in log.splitlines()]


def call(connection: ClientConnection, method: str, params: Any) -> Line:
    """A request, good or bad, and its answer."""
    connection.send(json.dumps({"id": NASTY, "method": method, "params": params}))
    while True:
        message: Line = json.loads(connection.recv(timeout=PATIENCE_S))
        if "id" in message:
            return message


def events(lines: Sequence[Line], *names: str) -> list[Line]:
    return [line for line in lines if line["event"] in names]


async def test_the_life_of_a_process_is_told_with_the_ids_of_everything_it_belongs_to() -> None:
    with serving(*JSON_LOG, "info") as server:
        async with paddock.connect(server.url, client_name="tester") as box:
            done = await box.run(["sh", "-c", "exit 3"])
        lines = lines_of(server.stop())

    assert done.returncode == 3
    names = [line["event"] for line in lines]
    assert names[:4] == ["listening", "connection opened", "session opened", "process started"]
    assert names[4:6] == ["process exited", "process closed"]
    # The server may be told to end before it has seen the end of the connection.
    assert {"connection closed", "session ended", "shutdown began"} < set(names[6:])
    assert names[-1] == "shutdown complete"
    (opened,) = events(lines, "session opened")
    (started,) = events(lines, "process started")
    (exited,) = events(lines, "process exited")
    assert opened["client"] == "tester"
    assert (started["connection"], started["program"], started["arguments"]) == (1, "sh", 2)
    assert isinstance(started["request"], int)
    assert (exited["process"], exited["exit_code"]) == (started["process"], 3)
    assert "signal" not in exited
    about_session = [line for line in lines if line["event"].startswith(("session", "process"))]
    assert {line["session"] for line in about_session} == {opened["session"]}
    about_connection = events(lines, "connection opened", "session opened", "process started")
    assert {line["connection"] for line in about_connection} == {1}


async def test_the_whole_session_id_is_not_in_the_log_for_it_would_open_the_session() -> None:
    with serving(*JSON_LOG, "debug") as server:
        async with paddock.connect(server.url) as box:
            session_id = box.session_id
        log = server.stop()

    assert session_id not in log
    assert events(lines_of(log), "session opened")[0]["session"] == session_id[:8]


@pytest.mark.parametrize("level", ["info", "debug"])
async def test_arguments_are_only_told_to_those_who_search_for_a_fault(level: str) -> None:
    with serving(*JSON_LOG, level) as server:
        async with paddock.connect(server.url) as box:
            await box.run(
                ["echo", "--password=hunter2"], env={"PATH": "/bin:/usr/bin", "SECRET": "swordfish"}
            )
        log = server.stop()

    assert ("hunter2" in log) == (level == "debug")
    assert "swordfish" not in log


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_nothing_that_a_client_chooses_can_forge_or_break_a_line(log_format: str) -> None:
    with serving("--log-format", log_format, "--log-level", "debug") as server:
        with connect(server.url) as connection:
            call(connection, "initialize", {"clientName": NASTY})
            connection.send(json.dumps({"method": "initialized"}))
            call(connection, "process/start", start_params(NASTY, "/bin/echo", NASTY, NASTY))
            call(connection, NASTY, {})
            call(connection, "process/read", {"processId": NASTY + "?"})
        log = server.stop()

    lines = [line for line in log.splitlines() if not line.startswith("paddock serve: ")]
    assert all(line.isprintable() for line in lines)
    assert sum("process started" in line for line in lines) == 1
    if log_format == "json":
        parsed = [json.loads(line) for line in lines]
        assert events(parsed, "session opened")[0]["client"] == NASTY
        assert events(parsed, "process arguments")[0]["argv"] == ["/bin/echo", NASTY, NASTY]
        assert events(parsed, "request refused")[0]["method"] == NASTY
        assert not events(parsed, "forged")


async def test_a_refused_request_is_told_with_its_id_its_method_and_its_code() -> None:
    with serving(*JSON_LOG, "info") as server:
        async with paddock.connect(server.url) as box:
            with pytest.raises(paddock.RequestError):
                await box.run(["/no/such/program"])
        lines = lines_of(server.stop())

    (failed,) = events(lines, "process failed")
    (answer,) = events(lines, "request failed")
    assert answer["method"] == "process/start"
    assert answer["code"] == -32603
    assert (answer["request"], answer["process"]) == (failed["request"], failed["process"])


class LogRecorder(logging.Handler):
    """Hears the events of a server in this program."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self._heard = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if isinstance(record.msg, Event):
            self.names.append(record.msg.name)
            self._heard.set()

    async def hears(self, name: str) -> None:
        """Return when an event has happened."""
        while name not in self.names:
            self._heard.clear()
            await self._heard.wait()


@pytest.fixture
async def recorder() -> AsyncIterator[LogRecorder]:
    heard = LogRecorder()
    logger = logging.getLogger("paddock")
    logger.addHandler(heard)
    logger.setLevel(logging.INFO)
    yield heard
    logger.setLevel(logging.NOTSET)
    logger.removeHandler(heard)


async def test_a_client_that_stops_reading_is_told_of_once_it_lasts_and_when_it_is_over(
    recorder: LogRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stall, "LASTING_S", 0.0)
    async with served(send_buffer_bytes=64 * 1024) as server:
        client = attach(server, TransportLimits(write_high_water_bytes=64 * 1024))
        await client.initialize()
        client.link.pause_reading()
        client.request("process/start", start_params("p", *shell("head -c 3000000 /dev/zero")))
        await recorder.hears("output paused")
        client.link.resume_reading()
        await client.finish("p")
        await recorder.hears("output resumed")


async def test_what_a_reader_missed_and_a_session_that_nobody_came_back_to_are_told(
    recorder: LogRecorder,
) -> None:
    async with served(retained_output_bytes_per_process=64 * 1024, session_ttl_s=0) as server:
        client = attach(server)
        await client.initialize()
        await client.start("p", *shell("head -c 300000 /dev/zero"))
        await client.finish("p")
        await client.call("process/read", {"processId": "p"})
        client.link.abort()
        await client.closed()
        await recorder.hears("session ended")

    names = recorder.names
    assert "output gap" in names
    assert names.index("session detached") < names.index("session expired") < names.index("session ended")


async def test_a_connection_too_many_is_told_of_even_by_default(tmp_path: Path) -> None:
    config = tmp_path / "paddock.toml"
    config.write_text("max_connections = 1\n")
    with serving("--config", str(config), "--log-format", "json") as server:
        async with paddock.connect(server.url):
            with pytest.raises(paddock.ConnectError):
                await paddock.connect(server.url)
        lines = lines_of(server.stop())

    assert [(line["level"], line["event"]) for line in lines] == [("warning", "connection refused")]


async def test_a_server_says_nothing_by_default_but_where_it_listens() -> None:
    with serving() as server:
        async with paddock.connect(server.url) as box:
            await box.run(["true"])
        log = server.stop()

    who, hint = log.splitlines(keepends=True)
    assert who.startswith("paddock serve: listening: ")
    assert hint.startswith("paddock serve: try: ")
    assert hint.endswith(f" run --url {server.url} -- echo hello\n")
