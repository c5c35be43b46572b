from __future__ import annotations

import asyncio
import errno
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

import pytest

from paddock.errors import ConnectionLost
from paddock.sync.portal import Portal


@pytest.fixture
def portal() -> Iterator[Portal]:
    portal = Portal()
    yield portal
    portal.close()


async def add(left: int, right: int) -> int:
    await asyncio.sleep(0)
    return left + right


def test_a_call_gives_what_the_coroutine_returns(portal: Portal) -> None:
    assert portal.call(add(1, 2)) == 3


def test_a_call_raises_what_the_coroutine_raises(portal: Portal) -> None:
    async def fail() -> None:
        raise LookupError("not here")

    with pytest.raises(LookupError, match="not here"):
        portal.call(fail())


def test_calls_of_many_threads_run_side_by_side(portal: Portal) -> None:
    everybody = asyncio.Barrier(8)

    async def meet(number: int) -> int:
        await everybody.wait()
        return number

    with ThreadPoolExecutor(8) as threads:
        assert sorted(threads.map(lambda n: portal.call(meet(n)), range(8))) == list(range(8))


def test_a_call_from_inside_is_refused_and_does_not_hang(portal: Portal) -> None:
    async def call_from_inside() -> None:
        portal.call(add(1, 2))

    with pytest.raises(RuntimeError, match="would never return"):
        portal.call(call_from_inside())


async def test_it_works_where_a_loop_runs_already() -> None:
    portal = Portal()
    try:
        assert portal.call(add(1, 2)) == 3
    finally:
        portal.close()


def test_closing_ends_the_thread_and_what_still_runs(portal: Portal) -> None:
    running = threading.Event()

    async def wait_for_ever() -> None:
        running.set()
        await asyncio.Event().wait()

    with ThreadPoolExecutor(1) as threads:
        call = threads.submit(lambda: portal.call(wait_for_ever()))
        running.wait()
        portal.close()
        with pytest.raises(ConnectionLost):
            call.result()
    assert not portal.is_open
    portal.close()
    with pytest.raises(ConnectionLost, match="closed on this side"):
        portal.call(add(1, 2))


def test_no_portal_without_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    before = threading.active_count()
    monkeypatch.setattr(asyncio, "new_event_loop", refuse)
    monkeypatch.setattr(asyncio.events, "new_event_loop", refuse)
    with pytest.raises(OSError, match="Too many open files"):
        Portal()
    assert threading.active_count() == before


def test_a_call_that_comes_while_the_loop_ends_does_not_wait_for_ever(
    portal: Portal, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It has seen that the portal is open, and its turn comes when nothing more begins.
    monkeypatch.setattr(portal, "_begin", lambda *_: portal.drop())
    work = add(1, 2)
    with pytest.raises(ConnectionLost, match="closed on this side"):
        portal.call(work)
    work.close()


# Python 3.12 warns of forks in programs with threads.
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_has_no_portal(portal: Portal) -> None:
    pid = os.fork()
    if pid == 0:
        status = 1
        with suppress(BaseException):
            # If one of them waits for ever, the kernel ends it.
            signal.alarm(20)
            with suppress(ConnectionLost):
                portal.call(add(1, 2))
                os._exit(status)
            portal.close()
            status = int(portal.is_open)
        os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert portal.call(add(1, 2)) == 3


def test_a_call_that_is_interrupted_before_the_loop_has_time_for_it_does_not_go_on(
    portal: Portal, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_busy, has_time = threading.Event(), threading.Event()

    class Interrupted(Future[None]):
        """Interrupts the wait for the outcome while the loop is busy, and not the wait for the clean-up."""

        def result(self, timeout: float | None = None) -> None:
            raise KeyboardInterrupt

        def exception(self, timeout: float | None = None) -> BaseException | None:
            has_time.set()
            return super().exception(timeout)

    has_gone_on = threading.Event()

    async def go_on() -> None:
        await asyncio.sleep(0)
        has_gone_on.set()

    async def keep_busy() -> None:
        is_busy.set()
        has_time.wait(20.0)

    with ThreadPoolExecutor(1) as threads:
        busy = threads.submit(portal.call, keep_busy())
        is_busy.wait(20.0)
        with monkeypatch.context() as patched:
            patched.setattr("paddock.sync.portal.Future", Interrupted)
            with pytest.raises(KeyboardInterrupt):
                portal.call(go_on())
        has_time.set()
        busy.result()
    assert portal.call(add(1, 2)) == 3
    assert not has_gone_on.is_set()
