"""Spare sandboxes of a server: made while nobody waits, for confinements that were requested lately.

A spare serves one command. The server takes it only if everything that it depends on is as it was when it was
made: this module checks the mounts and limits of the host, and `Spares.take` checks the plan and the
files. If any check fails, the spare ends, and the command gets a new sandbox.

A spare that no command takes in time ends. All of them end with the server, however it ends: their init sees
that nobody listens any more. Loaded when the first sandbox is asked for.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from typing import Any, Final

from msgspec import Struct

from paddock.errors import PaddockError, SandboxNotMade
from paddock.journal import Journal
from paddock.process.spawn_request import SpawnRequest
from paddock.process.spawner import ExitReport, Spawned, Spawner
from paddock.sandbox.enforce.mount_source import FileMoved
from paddock.sandbox.enforce.mount_table import MountChanges
from paddock.sandbox.enforce.spare import Spare, Unsuitable
from paddock.server.confinement import Confinement
from paddock.server.holder import Holder
from paddock.server.metrics import WarmEnd

journal = Journal(logging.getLogger(__name__))

LIMITS: Final = tuple(
    {value for name, value in vars(resource).items() if name.startswith("RLIMIT_") and isinstance(value, int)}
)
"""One of them has two names."""

REFUSED_COUNT: Final = 64
"""Keys that are known to have no spares. Each is a profile and a few paths."""

HEAD_START_S: Final = 0.02
"""How long to wait after a start before the next spare is made. A command that follows at once would compete
with it for the processors, and start later than without spares. An agent takes longer before its next one."""

CLOSE_TIMEOUT_S: Final = 5.0
"""A spare whose thread is stuck in the kernel is left behind after this; it ends with the server."""

Key = tuple[Confinement, str]
"""What a spare is for: a profile with its roots, and a working directory."""

Make = Callable[[], Awaitable[tuple[Spare, Holder]]]


class WarmSandbox(Struct, eq=False):
    """A spare sandbox: starts one command, or is discarded."""

    key: Key
    spare: Spare
    holder: Holder
    host_changes: int
    """The number of changes to the host's mounts before it was planned."""
    limits: list[tuple[int, int]]
    end: Callable[[WarmSandbox, asyncio.Future[Any] | None], None]
    timer: asyncio.TimerHandle | None = None
    is_over: bool = False
    """Whether it has its command, or ends."""

    async def spawn(self, request: SpawnRequest, on_exit: Callable[[ExitReport], None]) -> Spawned:
        """Start the command that it was taken for. As `Spawner.spawn`, but raises SandboxNotMade."""
        try:
            self.spare.send(request.inherited[0], request.fds)
        except OSError as error:
            raise SandboxNotMade(f"the spare sandbox is gone: {error.strerror}") from error
        self.is_over = True
        self._let_go()
        return self.holder.hand_over(on_exit)

    def discard(self, after: asyncio.Future[Any] | None = None) -> None:
        """End it, unless it has its command. First wait for `after`, which may use its descriptors."""
        if not self.is_over:
            self.end(self, after)

    async def aclose(self) -> None:
        """End it, and wait until it is gone. Bounded."""
        self.is_over = True
        self._let_go()
        await self.holder.end()

    def _let_go(self) -> None:
        self.spare.close()
        self.spare.confined.ended(was_killed=False)


class WarmSandboxes:
    """The spares of a server. `aclose` must follow, before that of the spawner."""

    def __init__(self, spawner: Spawner, limit: int, ttl_s: float, ends: dict[str, int]) -> None:
        self._spawner = spawner
        self._limit = limit
        self._ttl_s = ttl_s
        self._ends = ends
        self._loop = asyncio.get_running_loop()
        self._spares: dict[Key, deque[WarmSandbox]] = {}
        self._wanted: OrderedDict[Key, tuple[Make, float]] = OrderedDict()
        """The kinds of sandbox requested lately and when, the latest last."""
        self._refused: OrderedDict[Key, float] = OrderedDict()
        """The kinds that can have no spares, and until when the server assumes so."""
        self._starts = 0
        self._making: asyncio.Task[None] | None = None
        self._closings: set[asyncio.Task[None]] = set()
        self._mounts: MountChanges | None = None
        self._is_closed = False

    def __len__(self) -> int:
        return sum(map(len, self._spares.values()))

    # --- a start ------------------------------------------------------------

    def begin_start(self) -> None:
        """Make no spare while somebody waits for a sandbox. `end_start` must follow."""
        self._starts += 1

    def end_start(self) -> None:
        """Note that the caller no longer waits for its sandbox."""
        self._starts -= 1
        self._make_more()

    def take(self, key: Key) -> WarmSandbox | None:
        """Return the oldest spare of a kind, if there is one. The caller starts or discards it."""
        waiting = self._spares.get(key)
        if not waiting:
            return None
        host_changes, limits = self._host_changes(), self._limits()
        while waiting:
            warm = waiting.popleft()
            if warm.timer is not None:
                warm.timer.cancel()
            if (warm.host_changes, warm.limits) == (host_changes, limits):
                return warm
            self._end(warm, WarmEnd.CHANGED)
        return None

    def ask(self, key: Key, make: Make) -> None:
        """Note a request for such a sandbox, so that another is made for the next command."""
        now_s = self._loop.time()
        if self._is_closed or self._refused.get(key, 0.0) > now_s:
            return
        self._wanted[key] = make, now_s
        self._wanted.move_to_end(key)
        while len(self._wanted) > self._limit:
            self._wanted.popitem(last=False)

    def forget(self, key: Key) -> None:
        """End all spares of a kind, because one of them differs from a sandbox that would be made now."""
        for warm in self._spares.pop(key, ()):
            self._end(warm, WarmEnd.CHANGED)

    def renew(self, limit: int, ttl_s: float) -> None:
        """Change how many spares to keep and for how long. End all present ones: what is hidden may have
        changed."""
        self._limit, self._ttl_s = limit, ttl_s
        self._wanted.clear()
        for key in list(self._spares):
            self.forget(key)

    async def aclose(self) -> None:
        """End every spare. Bounded."""
        self._is_closed = True
        self._wanted.clear()
        if self._making is not None:
            self._making.cancel()
            await asyncio.wait([self._making])
        for key in list(self._spares):
            for warm in self._spares.pop(key):
                self._end(warm, WarmEnd.CLOSED)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                while self._closings:
                    await asyncio.wait(self._closings)
        for closing in self._closings:
            closing.cancel()
        if self._mounts is not None:
            self._mounts.close()
            self._mounts = None

    # --- the next ones ------------------------------------------------------

    def _make_more(self) -> None:
        if self._making is None and not self._starts and self._next() is not None:
            self._making = self._loop.create_task(self._make_all())
            self._making.add_done_callback(self._made_all)

    def _made_all(self, making: asyncio.Task[None]) -> None:
        self._making = None
        if making.cancelled():
            return
        if (error := making.exception()) is not None:
            journal.error("spare sandboxes could not be made", error=error)
            return
        # A start may have ended since the task did, and have found it still here.
        self._make_more()

    async def _make_all(self) -> None:
        # Many commands end at once, and the news of it must not wait for a plan.
        await asyncio.sleep(HEAD_START_S)
        while not self._starts and (key := self._next()) is not None:
            await self._make_one(key)

    async def _make_one(self, key: Key) -> None:
        make, _ = self._wanted[key]
        try:
            host_changes, limits = self._host_changes(), self._limits()
            spare, holder = await make()
        except (Unsuitable, FileMoved, PaddockError, OSError) as error:
            journal.debug("no spare sandbox", reason=str(error))
            self._refuse(key)
            return
        warm = WarmSandbox(key, spare, holder, host_changes, limits, self._discard)
        warm.timer = self._loop.call_later(self._ttl_s, self._retire, warm, WarmEnd.EXPIRED)
        self._spares.setdefault(key, deque()).append(warm)
        holder.when_ended(lambda: self._retire(warm, WarmEnd.LOST))

    def _next(self) -> Key | None:
        """Make room for a spare, and return the kind to make."""
        self._drop_old()
        keys = list(reversed(self._wanted))
        shares = {key: len(range(index, self._limit, len(keys))) for index, key in enumerate(keys)}
        missing = next((key for key in keys if len(self._spares.get(key, ())) < shares[key]), None)
        if missing is not None and len(self) >= self._limit:
            self._make_room(shares)
        return missing

    def _make_room(self, shares: dict[Key, int]) -> None:
        for key, waiting in self._spares.items():
            if len(waiting) > shares.get(key, 0):
                self._retire(waiting[0], WarmEnd.REPLACED)
                return

    def _drop_old(self) -> None:
        oldest_s = self._loop.time() - self._ttl_s
        for key in [key for key, (_, asked_s) in self._wanted.items() if asked_s < oldest_s]:
            del self._wanted[key]

    def _refuse(self, key: Key) -> None:
        self._wanted.pop(key, None)
        self._refused[key] = self._loop.time() + self._ttl_s
        while len(self._refused) > REFUSED_COUNT:
            self._refused.popitem(last=False)

    # --- the end of one -----------------------------------------------------

    def _retire(self, warm: WarmSandbox, reason: WarmEnd) -> None:
        """End a spare that waits; do nothing about one that does not."""
        waiting = self._spares.get(warm.key)
        if waiting is None or warm not in waiting:
            return
        waiting.remove(warm)
        if not waiting:
            del self._spares[warm.key]
        self._end(warm, reason)

    def _discard(self, warm: WarmSandbox, after: asyncio.Future[Any] | None) -> None:
        self._end(warm, WarmEnd.CHANGED, after)

    def _end(self, warm: WarmSandbox, reason: WarmEnd, after: asyncio.Future[Any] | None = None) -> None:
        if warm.timer is not None:
            warm.timer.cancel()
        warm.is_over = True
        self._ends[reason] += 1
        closing = self._loop.create_task(_close_after(after, warm))
        self._closings.add(closing)
        closing.add_done_callback(self._closings.discard)

    # --- the host -----------------------------------------------------------

    def _host_changes(self) -> int:
        if self._mounts is None:
            self._mounts = MountChanges()
        return self._mounts.count()

    def _limits(self) -> list[tuple[int, int]]:
        """Return the limits of a process that is started now."""
        pid = self._spawner.helper_pid
        return [resource.prlimit(pid, number) for number in LIMITS]


async def _close_after(user: asyncio.Future[Any] | None, warm: WarmSandbox) -> None:
    if user is not None:
        await asyncio.wait([user])
    await warm.aclose()
