"""The numbers of `/metrics` are those of what really happened."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

import pytest

from paddock.server.app import Server
from tests.scraping import get, scrape
from tests.unit.audit.logs import full_disk
from tests.wire import WireError, attach, encode, served, shell

TOKEN = "a-token-of-thirty-two-characters"


async def test_a_new_server_has_done_nothing() -> None:
    async with served() as server:
        samples = await scrape(server.url)

    assert samples["paddock_processes_started_total"] == 0
    assert samples["paddock_processes"] == 0
    assert samples["paddock_connections"] == 0
    assert samples["process_resident_memory_bytes"] > 1_000_000
    assert 3 < samples["process_open_fds"] <= samples["process_max_fds"]


async def test_the_page_is_what_prometheus_expects() -> None:
    async with served() as server:
        status, headers, page = await asyncio.to_thread(get, server.url, "/metrics")

    assert status == 200
    assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert page.endswith("\n")


async def test_processes_are_counted_by_how_they_ended() -> None:
    async with served() as server:
        client = attach(server)
        await client.initialize()
        for name, script in (("a", "exit 0"), ("b", "exit 3"), ("c", "kill -9 $$"), ("d", "exit 0")):
            await client.start(name, *shell(script))
            await client.finish(name)
        await client.start("e", "/bin/sleep", "1000")
        with pytest.raises(WireError):
            await client.start("f", "/no/such/program")
        samples = await scrape(server.url)

    assert samples["paddock_processes_started_total"] == 5
    assert samples["paddock_processes"] == 1
    assert samples['paddock_process_exits_total{kind="success"}'] == 2
    assert samples['paddock_process_exits_total{kind="failure"}'] == 1
    assert samples['paddock_process_exits_total{kind="signal"}'] == 1
    assert samples["paddock_process_start_failures_total"] == 1
    assert samples["paddock_process_start_seconds_count"] == 5
    assert samples['paddock_process_start_seconds_bucket{le="+Inf"}'] == 5
    assert samples['paddock_request_errors_total{code="-32603"}'] == 1


async def test_the_audit_log_is_told_of(tmp_path: Path) -> None:
    async with served(audit_log=str(tmp_path / "log")) as server:
        client = attach(server)
        await client.initialize()
        await client.start("a", "true")
        sound = await scrape(server.url)
        with full_disk(tmp_path / "log", 0):
            with pytest.raises(WireError, match="audit log can't be written"):
                await client.start("b", "true")
            failing = await scrape(server.url)
        await client.start("c", "true")
        mended = await scrape(server.url)

    # That it was opened, the session and the start; perhaps the exit already.
    assert sound["paddock_audit_last_record"] >= 3
    names = ("paddock_audit_failing", "paddock_audit_lost_records_total")
    assert [[page[name] for name in names] for page in (sound, failing, mended)] == [[0, 0], [1, 1], [0, 1]]


async def test_bytes_are_counted_by_stream() -> None:
    async with served() as server:
        client = attach(server)
        await client.initialize()
        await client.start("p", *shell("head -c 100000; head -c 77 /dev/zero >&2"), pipeStdin=True)
        await client.call("process/write", {"processId": "p", "chunk": encode(b"x" * 100_000)})
        await client.finish("p")
        await client.start("t", *shell("printf 12345"), tty=True)
        await client.finish("t")
        samples = await scrape(server.url)

    assert samples['paddock_output_bytes_total{stream="stdout"}'] == 100_000
    assert samples['paddock_output_bytes_total{stream="stderr"}'] == 77
    assert samples['paddock_output_bytes_total{stream="pty"}'] == 5
    assert samples["paddock_input_bytes_total"] == 100_000


async def test_every_request_is_in_the_histogram_of_its_method_and_every_error_under_its_code() -> None:
    async with served() as server:
        client = attach(server)
        await client.initialize()
        for _ in range(50):
            await client.call("environment/status")
        await client.start("p", "/bin/sleep", "1000")
        await client.call("process/read", {"processId": "p", "waitMs": 30})
        for method, params in (("process/read", {"processId": "x"}), ("process/read", {}), ("no/such", {})):
            with pytest.raises(WireError):
                await client.call(method, params)
        client.link.send(b"no JSON at all")
        await client.next()
        samples = await scrape(server.url)

    assert samples['paddock_request_seconds_count{method="environment/status"}'] == 50
    assert samples['paddock_request_seconds_count{method="process/start"}'] == 1
    # Parameters that do not fit never reach the method.
    assert samples['paddock_request_seconds_count{method="process/read"}'] == 2
    assert samples['paddock_request_seconds_sum{method="process/read"}'] >= 0.03
    assert samples['paddock_request_errors_total{code="-32600"}'] == 2
    assert samples['paddock_request_errors_total{code="-32601"}'] == 1
    assert samples['paddock_request_errors_total{code="-32602"}'] == 1
    assert not any("no/such" in name for name in samples)


async def state_of(server: Server) -> dict[str, float]:
    samples = await scrape(server.url)
    names = ("opened", "resumed", "expired")
    return {name: samples[f"paddock_sessions_{name}_total"] for name in names} | {
        "attached": samples['paddock_sessions{state="attached"}'],
        "detached": samples['paddock_sessions{state="detached"}'],
        "connections": samples["paddock_connections"],
    }


async def test_sessions_are_counted_as_they_come_and_go() -> None:
    async with served() as server:
        first = attach(server)
        session_id = (await first.initialize())["sessionId"]
        attached = await state_of(server)
        first.link.abort()
        await first.closed()
        detached = await state_of(server)
        second = attach(server)
        await second.initialize(resumeSessionId=session_id)
        resumed = await state_of(server)

    before = {"opened": 1, "resumed": 0, "expired": 0}
    assert attached == before | {"attached": 1, "detached": 0, "connections": 1}
    assert detached == before | {"attached": 0, "detached": 1, "connections": 0}
    assert resumed == before | {"resumed": 1, "attached": 1, "detached": 0, "connections": 1}


async def test_an_expired_session_is_counted_once_it_is_gone() -> None:
    async with served(session_ttl_s=0) as server:
        client = attach(server)
        await client.initialize()
        client.link.abort()
        await client.closed()
        while (state := await state_of(server))["attached"] + state["detached"]:
            pass

    assert state["expired"] == 1


async def test_dropped_output_and_the_gaps_that_readers_were_told_of_are_counted() -> None:
    async with served(retained_output_bytes_per_process=64 * 1024) as server:
        client = attach(server)
        await client.initialize(capabilities={"extensions": True})
        await client.start("p", *shell("head -c 300000 /dev/zero"))
        await client.finish("p")
        before = await scrape(server.url)
        (gap,) = (await client.call("process/read", {"processId": "p"}))["gaps"]
        after = await scrape(server.url)

    assert before["paddock_output_gaps_total"] == 0
    assert before["paddock_output_dropped_bytes_total"] == gap["bytes"]
    assert after["paddock_output_gaps_total"] == 1
    assert after["paddock_output_gap_bytes_total"] == gap["bytes"]


async def test_a_scrape_needs_the_token_that_clients_need() -> None:
    digest = hashlib.sha256(TOKEN.encode()).hexdigest()
    async with served(ws_auth="capability-token", ws_token_sha256=digest) as server:
        without, _, body = await asyncio.to_thread(get, server.url, "/metrics")
        samples = await scrape(server.url, {"Authorization": f"Bearer {TOKEN}"})

    assert without == 401
    assert "paddock_" not in body
    assert samples["paddock_connections_opened_total"] == 0


async def test_a_web_page_can_not_scrape() -> None:
    async with served() as server:
        status, _, _ = await asyncio.to_thread(get, server.url, "/metrics", {"Origin": "https://example.org"})

    assert status == 403
