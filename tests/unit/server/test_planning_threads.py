"""What becomes of a plan that fails, or that nobody waits for any more."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

import pytest

from paddock.errors import ProfileRefused, SandboxUnavailable, SandboxUnenforceable
from paddock.sandbox.host.step_budget import STEPS, take_steps
from paddock.sandbox.profile.table import built_in
from paddock.server.confinement import Confinement
from paddock.server.planning_threads import PlanningThreads, _result


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ProfileRefused("/a", "is a link", "name where it leads"), "/a is a link; name where it leads"),
        (SandboxUnavailable("no bubblewrap", "install it"), "no bubblewrap; install it"),
        (OSError(24, "Too many open files"), "Too many open files"),
    ],
    ids=["refused", "unavailable", "short"],
)
async def test_reason_is_told_in_the_words_of_the_wire(error: Exception, text: str) -> None:
    job: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    job.set_exception(error)
    with pytest.raises(SandboxUnenforceable, match=text):
        await _result(job)


@pytest.mark.parametrize("outcome", [7, OSError("too late")], ids=["result", "failure"])
async def test_result_that_comes_too_late_is_given_up(outcome: int | OSError) -> None:
    job: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    given_up: list[int] = []
    waiting = asyncio.create_task(_result(job, given_up.append))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    if isinstance(outcome, int):
        job.set_result(outcome)
    else:
        job.set_exception(outcome)
    await asyncio.sleep(0)
    assert given_up == ([7] if outcome == 7 else [])


async def test_plan_that_takes_long_is_made_where_only_its_client_waits() -> None:
    threads = PlanningThreads()

    def plan(steps: int) -> str:
        take_steps(steps)
        return threading.current_thread().name

    wanted = Confinement(built_in(":workspace"), client=7)
    try:
        quick = await threads.plan(wanted, partial(plan, STEPS))
        slow = await threads.plan(wanted, partial(plan, STEPS + 1))
        assert (quick.partition("-")[2][:7], slow.partition("-")[2][:6]) == ("sandbox", "search")
    finally:
        await threads.aclose()
