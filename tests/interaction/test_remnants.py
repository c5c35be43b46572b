"""Members of a process group that outlive their leader and its streams are ended like any other."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from paddock.server.app import Server
from tests.processes import has_ended, open_descriptors, watched
from tests.unit.process.spawning import readable
from tests.wire import WireClient, WireError, attach, served, session, shell

LEAVE_BEHIND = "sleep 1000 >/dev/null 2>&1 & echo $!"
LEAVE_STUBBORN_BEHIND = f"trap '' TERM; {LEAVE_BEHIND}"
PATIENCE_S = 30


async def leave_behind(client: WireClient, script: str = LEAVE_BEHIND, **params: Any) -> int:
    """Run a shell to its end; the pid of the member of its group that lives on."""
    await client.start("p", *shell(script), **params)
    return int((await client.finish("p")).streams["stdout"])


async def client_of(server: Server) -> WireClient:
    client = attach(server)
    await client.initialize(capabilities={"extensions": True})
    return client


@pytest.mark.parametrize("mode", ["force", {"graceful": {"timeoutMs": 30_000}}])
async def test_terminate_reaches_whoever_outlived_the_process(mode: Any) -> None:
    async with session() as client:
        with watched(await leave_behind(client)) as survivor:
            result = await client.call("process/terminate", {"processId": "p", "mode": mode})

            assert result == {"running": False}
            await readable(survivor)


async def test_a_survivor_that_ignores_sigterm_is_killed_when_the_grace_is_over() -> None:
    async with session() as client:
        with watched(await leave_behind(client, LEAVE_STUBBORN_BEHIND)) as survivor:
            await client.call(
                "process/terminate", {"processId": "p", "mode": {"graceful": {"timeoutMs": 20}}}
            )

            await readable(survivor)


@pytest.mark.parametrize("script", [LEAVE_BEHIND, LEAVE_STUBBORN_BEHIND])
async def test_the_end_of_a_session_ends_the_survivors_of_processes_that_are_forgotten(script: str) -> None:
    before = open_descriptors()
    settings = {"session_ttl_s": 0, "closed_process_ttl_s": 0, "shutdown_grace_period_ms": 50}
    async with served(**settings) as server:
        client = await client_of(server)
        with watched(await leave_behind(client, script)) as survivor:
            with pytest.raises(WireError, match="unknown process"):
                await client.call("process/snapshot", {"processId": "p"})

            client.link.abort()

            await readable(survivor)
    assert open_descriptors() == before


async def test_survivors_of_a_kept_process_outlive_the_session_and_not_the_server() -> None:
    async with served(session_ttl_s=0, shutdown_grace_period_ms=30_000) as server:
        client = await client_of(server)
        kept = await leave_behind(client, keepAlive=True)
        other = await client_of(server)
        with watched(kept) as kept_survivor, watched(await leave_behind(other)) as survivor:
            client.link.abort()
            other.link.abort()
            await readable(survivor)
            assert not has_ended(kept_survivor, 0)

            # Long before the grace is over: it heeds SIGTERM, and the server notices.
            async with asyncio.timeout(PATIENCE_S / 2):
                await server.aclose()
            assert has_ended(kept_survivor, PATIENCE_S)


async def test_survivors_count_as_live_processes_until_they_end() -> None:
    async with session(max_processes_per_connection=2, closed_process_ttl_s=0) as client:
        with watched(await leave_behind(client)) as survivor:
            await client.start("q", "/bin/sleep", "1000")
            with pytest.raises(WireError, match="2 processes are live"):
                await client.start("r", "/bin/true")

            await client.call("process/terminate", {"processId": "q"})
            await client.finish("q")
            await client.start("r", "/bin/true")
            await client.finish("r")
            assert not has_ended(survivor, 0)
