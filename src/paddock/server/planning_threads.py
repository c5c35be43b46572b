"""Threads in which the sandboxes of a server are planned and made ready.

That takes milliseconds, unless trees have to be searched, or a large index of git has to be read. This has
threads of its own, and each client has one at a time, so that nobody waits for another client's. It turns
every reason why no sandbox can be made into one kind of error.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from paddock import installation
from paddock.errors import ListenError, ProfileRefused, SandboxUnavailable, SandboxUnenforceable
from paddock.fs.lane import Lane
from paddock.model.profile import Access
from paddock.sandbox.host.step_budget import TakesLong, step_budget
from paddock.sandbox.profile.enforced import entries_of
from paddock.server.client_turns import ClientTurns
from paddock.server.confinement import Confinement

T = TypeVar("T")

THREADS = 4
"""Commands that are made ready at once, which is a matter of milliseconds."""

SEARCHING_THREADS = 4
"""Clients whose trees are searched for deny patterns at once, one search for each: it may take seconds."""


class PlanningThreads:
    """Runs work that needs a plan. All methods raise SandboxUnenforceable. `aclose` must follow."""

    def __init__(self) -> None:
        self.lane = Lane("paddock-sandbox", THREADS)
        """For whatever takes no longer than making a command ready, such as clearing away."""
        self._searching = Lane("paddock-search", SEARCHING_THREADS)
        self._turns = ClientTurns()
        self._searches_always = False
        """Whether every plan looks for other names of Paddock's own files."""

    async def begin(self, make: Callable[[], T]) -> T:
        """Find out what every plan needs; call this before the first one."""
        return await _result(self.lane.submit(partial(self._begin, make)))

    def begin_plan(self, wanted: Confinement, work: Callable[[], T]) -> asyncio.Future[T] | None:
        """Begin work that needs a plan now, if it need not wait its turn. `plan` must follow with the result.

        Work without a search never waits behind a search.
        """
        is_searched = any(entry.access is Access.DENY for entry in entries_of(wanted.profile))
        if is_searched or self._searches_always:
            return None
        return self.lane.submit(partial(_within_budget, work))

    async def plan(
        self,
        wanted: Confinement,
        work: Callable[[], T],
        give_up: Callable[[T], None] | None = None,
        begun: asyncio.Future[T] | None = None,
    ) -> T:
        """Run work that needs a plan in a thread, unless it has `begun`.

        `work` is run again if it turns out to take long; a plan must be the first thing that it makes.
        `give_up` gets the result if the caller is cancelled before it is there.
        """
        begun = begun or self.begin_plan(wanted, work)
        if begun is not None:
            with contextlib.suppress(TakesLong):
                return await _result(begun, give_up)
        await self._turns.take(wanted.client)
        job = self._searching.submit(work)
        # A search goes on though its caller has given up, and takes its client's turn for as long.
        job.add_done_callback(lambda _: self._turns.give_back(wanted.client))
        return await _result(job, give_up)

    async def aclose(self) -> None:
        """Wait for the work under way. Bounded."""
        await self.lane.aclose()
        await self._searching.aclose()

    def _begin(self, make: Callable[[], T]) -> T:
        self._searches_always = bool(installation.shared_files())
        return make()


def _within_budget(work: Callable[[], T]) -> T:
    with step_budget():
        return work()


async def _result(job: asyncio.Future[T], give_up: Callable[[T], None] | None = None) -> T:
    try:
        return await asyncio.shield(job)
    except asyncio.CancelledError:
        job.add_done_callback(partial(_too_late, give_up))
        raise
    except ProfileRefused as error:
        raise SandboxUnenforceable(f"{error.subject} {error.problem}; {error.remedy}") from error
    except SandboxUnavailable as error:
        raise SandboxUnenforceable(f"{error.problem}; {error.remedy}") from error
    except (ListenError, OSError) as error:
        raise SandboxUnenforceable(str(error)) from error


def _too_late(give_up: Callable[[T], None] | None, job: asyncio.Future[T]) -> None:
    if not job.cancelled() and job.exception() is None and give_up is not None:
        give_up(job.result())
