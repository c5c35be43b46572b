"""A coroutine that runs for the command line ends with Ctrl-C, and cleans up first."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import suppress

import pytest

from paddock.cli.interruptible import run_interruptible


@pytest.fixture(autouse=True)
def usual_handler() -> Iterator[None]:
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, former)


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_the_result_is_that_of_the_coroutine() -> None:
    async def main() -> int:
        await asyncio.sleep(0)
        return 3

    assert run_interruptible(main()) == 3
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_error_is_that_of_the_coroutine() -> None:
    async def main() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        run_interruptible(main())


def test_a_cancellation_by_the_coroutine_itself_is_no_interruption() -> None:
    async def main() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        run_interruptible(main())


def test_an_interruption_lets_the_coroutine_clean_up_while_the_loop_waits() -> None:
    cleaned = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        # From another thread: the loop waits for nothing but this.
        loop.run_in_executor(None, interrupt)
        try:
            await loop.create_future()
        finally:
            await asyncio.sleep(0)
            cleaned.append(True)

    with pytest.raises(KeyboardInterrupt):
        run_interruptible(main())
    assert cleaned == [True]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_interruption_does_not_wait_for_the_clean_up() -> None:
    async def main() -> None:
        with suppress(asyncio.CancelledError):
            interrupt()
            await asyncio.sleep(0)
        interrupt()
        pytest.fail("went on")

    with pytest.raises(KeyboardInterrupt):
        run_interruptible(main())


def test_what_a_caller_ignores_stays_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    async def main() -> str:
        interrupt()
        await asyncio.sleep(0)
        return "done"

    assert run_interruptible(main()) == "done"
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
