"""Signals that are read in the loop arrive there, and do what they did before once nobody reads them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator

import pytest

from paddock.cli.signal_reader import signals_read
from tests.processes import open_descriptors

CAUGHT = (signal.SIGUSR1, signal.SIGUSR2)


@pytest.fixture(autouse=True)
def usual_handlers() -> Iterator[None]:
    former = {number: signal.getsignal(number) for number in CAUGHT}
    yield
    for number, handler in former.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("sender", ["this thread", "another thread"])
async def test_every_signal_arrives_in_its_order(sender: str) -> None:
    arrived: asyncio.Queue[signal.Signals] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    with signals_read(CAUGHT, arrived.put_nowait):
        for number in (signal.SIGUSR2, signal.SIGUSR1, signal.SIGUSR2):
            if sender == "this thread":
                os.kill(os.getpid(), number)
            else:
                await loop.run_in_executor(None, os.kill, os.getpid(), number)
            # Of two that are pending, the kernel delivers the lower number first (signal(7)).
            assert await arrived.get() is number


async def test_signals_of_others_are_left_to_their_handlers() -> None:
    arrived: asyncio.Queue[signal.Signals] = asyncio.Queue()
    handled: list[int] = []
    signal.signal(signal.SIGUSR2, lambda number, _: handled.append(number))
    with signals_read([signal.SIGUSR1], arrived.put_nowait):
        os.kill(os.getpid(), signal.SIGUSR2)
        os.kill(os.getpid(), signal.SIGUSR1)
        assert await arrived.get() is signal.SIGUSR1
    assert handled == [signal.SIGUSR2]
    assert arrived.empty()


async def test_afterwards_everything_is_as_before() -> None:
    def handler(number: int, frame: object) -> None:
        pass

    signal.signal(signal.SIGUSR1, handler)
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    wakeup = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(wakeup)
    before = open_descriptors()

    with signals_read(CAUGHT, print):
        pass

    assert signal.getsignal(signal.SIGUSR1) is handler
    assert signal.getsignal(signal.SIGUSR2) is signal.SIG_IGN
    assert signal.set_wakeup_fd(wakeup) == wakeup
    assert open_descriptors() == before
