"""The sandboxes of a server: made when they are asked for.

The server decides here what confines a command. A profile that it can't enforce is an error, and nothing
starts. It finds out once what this host can do.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from paddock.config import Settings
from paddock.errors import SandboxNotMade, SandboxUnenforceable
from paddock.fs.lane import Lane
from paddock.model.host import Enforcement
from paddock.process.launch import LaunchSpec
from paddock.process.spawn_request import encoded_strings
from paddock.sandbox.enforce.report import ReportKind
from paddock.sandbox.plan_attempts import PlanAttempts
from paddock.server.confinement import Confinement
from paddock.server.judgement import Judge
from paddock.server.planning_threads import PlanningThreads
from paddock.server.sandbox_enclosure import SandboxEnclosure

if TYPE_CHECKING:
    from paddock.fs.read_filter import ReadFilter
    from paddock.process.spawner import Spawner
    from paddock.sandbox.enforce.confined import Confined
    from paddock.sandbox.enforce.spare import Spare
    from paddock.sandbox.launch import Sandbox
    from paddock.sandbox.plan.cap import Cap
    from paddock.sandbox.spares import Spares
    from paddock.server.holder import Holder
    from paddock.server.metrics import Metrics
    from paddock.server.plan_snapshot import PlanSnapshot
    from paddock.server.warm_sandboxes import WarmSandbox, WarmSandboxes

T = TypeVar("T")

NOBODY = 0
"""The number of no connection: searches for a spare sandbox take no client's turn."""

EXPLAINING_THREADS = 2
"""Failures that are explained at once: apart from those that plan, for an exit must not wait for a tree."""


class Sandboxes:
    """Confines what a server starts. `aclose` must follow."""

    def __init__(
        self, settings: Settings, spawner: Spawner, metrics: Metrics, cap: Cap | None = None
    ) -> None:
        self._settings = settings
        self._spawner = spawner
        self._metrics = metrics
        self._cap = cap
        self._warm: WarmSandboxes | None = None
        self._threads = PlanningThreads()
        self._explaining = Lane("paddock-denial", EXPLAINING_THREADS)
        self._sandbox: Sandbox | None = None
        self._spares: Spares | None = None
        self._sandbox_lock = asyncio.Lock()

    async def enclose(
        self,
        wanted: Confinement,
        command: LaunchSpec,
        argv: list[str],
        start: Callable[[SandboxEnclosure], Awaitable[T]],
    ) -> T:
        """Make a sandbox for a command, or without `argv` for others to enter, and `start` it.

        `start` is called again with another sandbox when it raises SandboxNotMade, because files may have
        changed since the plan. If it raises, it has to clear away its sandbox. Raises what `start` does,
        SandboxUnenforceable, InvalidProfile, ProfileExceeded or SpawnError.
        """
        if argv:
            # The spawner never sees these strings, and so can't refuse those that no program can be given.
            encoded_strings(command.program, command.argv, command.cwd, command.env)
        await self._ready()
        if self._warm is None or not argv:
            return await self._enclose(wanted, command, argv, start)
        self._warm.begin_start()
        try:
            if not _may_be_warm(wanted, command):
                return await self._enclose(wanted, command, argv, start)
            key = wanted, command.cwd
            started = await self._enclose(wanted, command, argv, start, self._warm.take(key))
            self._warm.ask(key, partial(self._make_spare, replace(wanted, client=NOBODY), command))
            return started
        finally:
            self._warm.end_start()

    async def snapshot(self, wanted: Confinement) -> PlanSnapshot:
        """Return a snapshot of the sandbox that would be made now. Raises as `enclose`."""
        sandbox = await self._ready()
        from paddock.server.plan_snapshot import take_snapshot

        return await self._threads.plan(wanted, partial(take_snapshot, sandbox.planner, wanted))

    async def read_filter(self, wanted: Confinement) -> ReadFilter:
        """Return what the sandbox that would be made now may see. Raises as `enclose`."""
        sandbox = await self._ready()
        from paddock.server.plan_snapshot import take_snapshot

        return await self._threads.plan(wanted, lambda: take_snapshot(sandbox.planner, wanted).read_filter())

    async def level(self, wanted: Confinement) -> Enforcement:
        """Return how much of such a profile can be enforced here: nothing if no sandbox can be made."""
        try:
            return (await self._ready()).level_of(wanted.profile)
        except SandboxUnenforceable:
            return Enforcement.NONE

    async def admit(self, wanted: Confinement) -> None:
        """Refuse a confinement that exceeds the server's cap, if it has one. Raises as `enclose`."""
        if self._cap is not None:
            await self.snapshot(wanted)

    async def renew(self, settings: Settings, cap: Cap | None) -> None:
        """Apply these settings to commands started from now on. Raises SandboxUnenforceable, and then
        changes nothing."""
        async with self._sandbox_lock:
            if self._sandbox is not None:
                # The module is loaded by now.
                from paddock.server.sandbox_setup import hidden_paths

                sandbox = self._sandbox
                await self._threads.begin(lambda: sandbox.renew(hidden_paths(settings), cap))
            self._settings, self._cap = settings, cap
            if self._warm is not None:
                self._warm.renew(settings.warm_sandboxes, settings.warm_ttl_s)

    def count_spares(self) -> int:
        """Return how many spare sandboxes there are."""
        return 0 if self._warm is None else len(self._warm)

    async def end_spares(self) -> None:
        """End every spare sandbox; to be called before the spawner ends. Bounded."""
        if self._warm is not None:
            await self._warm.aclose()

    async def aclose(self) -> None:
        """Clear away what is left of sandboxes whose commands have ended. Bounded."""
        if self._sandbox is not None:
            self._threads.lane.submit_surely(self._sandbox.close)
        await self._threads.aclose()
        await self._explaining.aclose()
        if self._sandbox is not None:
            # The program may go on for long. Without a thread, a zombie stays until it ends.
            with contextlib.suppress(RuntimeError):
                Thread(target=self._sandbox.janitor.bury, name="paddock-bury", daemon=True).start()

    async def _enclose(
        self,
        wanted: Confinement,
        command: LaunchSpec,
        argv: list[str],
        start: Callable[[SandboxEnclosure], Awaitable[T]],
        warm: WarmSandbox | None = None,
    ) -> T:
        attempts = PlanAttempts()
        while True:
            enclosure = None
            if warm is not None:
                enclosure = await self._prepare_warm(wanted, command, argv, warm)
                # It has one chance: what is wrong with it may be wrong with others.
                warm = None
            if enclosure is None:
                enclosure = await self._prepare(wanted, command, argv, attempts)
            try:
                started = await start(enclosure)
            except SandboxNotMade as error:
                if not attempts.may_plan_again(error.reason):
                    raise SandboxNotMade(attempts.problems) from error
            else:
                if argv:
                    self._metrics.sandbox_starts[enclosure.start] += 1
                return started

    async def _prepare(
        self, wanted: Confinement, command: LaunchSpec, argv: list[str], attempts: PlanAttempts
    ) -> SandboxEnclosure:
        sandbox = await self._ready()
        # The module is loaded by now, but for a few lines.
        from paddock.server.command_preparation import prepare_command

        confined = await self._threads.plan(
            wanted, partial(prepare_command, sandbox, wanted, command, argv, attempts), self._give_up
        )
        judge = Judge(confined, argv, self._explaining)
        return SandboxEnclosure(confined, judge, self._threads.lane, wanted.decider, wanted.network)

    async def _prepare_warm(
        self, wanted: Confinement, command: LaunchSpec, argv: list[str], warm: WarmSandbox
    ) -> SandboxEnclosure | None:
        """Prepare a command for a spare sandbox; return None if a new sandbox for it would differ."""
        assert self._spares is not None
        assert self._warm is not None
        from paddock.server.command_preparation import take_spare

        # The janitor makes the placeholders while a thread finds out whether this is the right sandbox.
        self._spares.begin_taking(warm.spare)
        take = partial(take_spare, self._spares, warm.spare, wanted, command, argv)
        begun = self._threads.begin_plan(wanted, take)
        taking = asyncio.ensure_future(self._threads.plan(wanted, take, self._give_up, begun))
        try:
            confined = await asyncio.shield(taking)
        except BaseException:
            # A thread may go on with the spare's descriptors though nobody waits for it any more.
            left = asyncio.ensure_future(self._leave(taking, warm.spare))
            warm.discard(after=left)
            raise
        if confined is None:
            warm.discard()
            self._warm.forget(warm.key)
            return None
        judge = Judge(confined, argv, self._explaining)
        return SandboxEnclosure(confined, judge, self._threads.lane, warm=warm)

    async def _make_spare(self, wanted: Confinement, command: LaunchSpec) -> tuple[Spare, Holder]:
        """Make a sandbox, and start it. Raises Unsuitable, FileMoved, OSError, or as `enclose`."""
        assert self._spares is not None
        from paddock.server.command_preparation import prepare_spare
        from paddock.server.holder import Holder

        prepare = partial(prepare_spare, self._spares, wanted, command)
        spare = await self._threads.plan(wanted, prepare, self._give_up_spare)
        judge = Judge(spare.confined, [], self._explaining)
        enclosure = SandboxEnclosure(spare.confined, judge, self._threads.lane, awaited=ReportKind.WAITING)
        holder = None
        try:
            holder = await Holder.start(self._spawner, enclosure)
            spare.settle()
        except BaseException:
            spare.close()
            if holder is not None:
                await holder.end()
            await enclosure.abandon()
            raise
        return spare, holder

    async def _ready(self) -> Sandbox:
        if self._sandbox is not None and not self._sandbox_lock.locked():
            return self._sandbox
        async with self._sandbox_lock:
            if self._sandbox is None:
                self._sandbox = await self._threads.begin(self._make)
                # The thread has loaded the modules.
                from paddock.sandbox.spares import Spares
                from paddock.server.warm_sandboxes import WarmSandboxes

                self._spares = Spares(self._sandbox)
                limit, ttl_s = self._settings.warm_sandboxes, self._settings.warm_ttl_s
                self._warm = WarmSandboxes(self._spawner, limit, ttl_s, self._metrics.warm_ends)
            return self._sandbox

    def _make(self) -> Sandbox:
        # Most servers never confine anything, and it takes a while to load.
        import paddock.sandbox.spares
        import paddock.server.warm_sandboxes  # noqa: F401
        from paddock.server.sandbox_setup import make_sandbox

        return make_sandbox(self._settings, self._cap)

    def _give_up_spare(self, spare: Spare) -> None:
        spare.close()
        self._give_up(spare.confined)

    async def _leave(self, taking: asyncio.Future[Confined | None], spare: Spare) -> None:
        """Clear away what a start has begun in a spare sandbox, once nobody uses it any more."""
        assert self._spares is not None
        await asyncio.wait([taking])
        if not taking.cancelled() and taking.exception() is None:
            self._give_up(taking.result())
        await self._threads.lane.submit_surely(partial(self._spares.leave, spare))

    def _give_up(self, confined: Confined | None) -> None:
        """Clear away a prepared sandbox that nobody waits for any more."""
        if confined is None:
            return
        confined.started()
        self._threads.lane.submit_surely(partial(confined.ended, was_killed=False))


def _may_be_warm(wanted: Confinement, command: LaunchSpec) -> bool:
    """Return whether a spare sandbox will do.

    The server makes a new one for a command with a terminal, and for one with somebody to ask or to tell.
    """
    is_plain = wanted.decider is None and wanted.network is None and not wanted.is_traced
    return is_plain and command.terminal is None
