"""What ends a relay whose process has ended, while others hold the output of that."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator

import pytest

import paddock
from paddock.cli import relay
from paddock.cli.relay import Outcome, Relay
from paddock.cli.signal_set import LEAVING
from tests.operators import PATIENCE_S

SILENT = "setsid sleep 1000 & echo hi; exit 3"
LOUD = "echo hi; setsid yes & exit 3"
MORE_THAN_A_PIPE = "head -c 1000000 /dev/zero; exit 3"


@pytest.fixture
async def box() -> AsyncIterator[paddock.Box]:
    # Nobody needs to wait until those that are left behind end by themselves.
    settings = paddock.Settings(shutdown_grace_period_ms=0)
    async with paddock.serve(settings) as server, paddock.connect(server.url) as box:
        yield box


async def left(
    box: paddock.Box, script: str, number: signal.Signals = signal.SIGTERM
) -> tuple[Outcome, bool]:
    """The outcome of a relay that gets a signal when its process has ended, and whether it was left."""
    process = await box.start(["sh", "-c", script])
    running = Relay(process, is_terminal=False, has_stdin=False)
    former = signal.getsignal(number)
    relaying = asyncio.create_task(running.run())
    async with asyncio.timeout(PATIENCE_S):
        await process.wait()
        while signal.getsignal(number) is former:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert not relaying.done()
        os.kill(os.getpid(), number)
        return await relaying, running.is_left


@pytest.mark.parametrize("number", LEAVING, ids=lambda number: number.name)
async def test_a_signal_to_end_is_for_paddock_once_the_command_has_ended(
    box: paddock.Box, number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = os.pipe()
    monkeypatch.setattr(relay, "STDOUT", writer)
    assert await left(box, SILENT, number) == (Outcome(3), True)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        assert file.read() == b"hi\n"


async def test_output_without_end_does_not_keep_paddock_from_ending(
    box: paddock.Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "REST_S", 0.2)
    null = os.open(os.devnull, os.O_WRONLY)
    monkeypatch.setattr(relay, "STDOUT", null)
    assert await left(box, LOUD) == (Outcome(3), True)
    os.close(null)


async def test_a_reader_that_is_stuck_does_not_keep_paddock_from_ending(
    box: paddock.Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = os.pipe()
    monkeypatch.setattr(relay, "STDOUT", writer)
    assert await left(box, MORE_THAN_A_PIPE) == (Outcome(3), True)
    # The thread that writes there ends, and another test may have its descriptor.
    os.close(reader)
