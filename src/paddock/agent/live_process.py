"""A command under way: reads its output as it comes, and lets calls wait for it.

`follow` runs in a task of its own from the start to the end, so that a call that is cancelled, or over,
leaves the command alone. Output goes to two bounded buffers: what no call has returned yet, and all of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from msgspec import Struct

from paddock.agent.executor import RunningCommand
from paddock.agent.head_tail import HeadTail
from paddock.agent.wake_pattern import LineMatcher, WakePattern
from paddock.agent.yield_clock import YieldClock
from paddock.client.ending import Ending
from paddock.client.event_sequence import Gap
from paddock.errors import OperationFailed, PaddockError

TRAILING_OUTPUT_S: Final = 0.1
"""How long a silence after the exit ends the output: a child left behind may keep it open for ever."""

TRAILING_LIMIT_S: Final = 10.0
"""How long output is read after the exit, if it keeps coming."""

COLLECT_TRAILING_S: Final = 0.05
"""How long a silence ends a call's wait for that output."""

MATCHED_BYTES: Final = 64 * 1024
"""How much output is kept that no wait has looked at yet; the newest counts."""


class Wake(Struct, frozen=True):
    """The events that end a wait early, apart from the exit."""

    pattern: WakePattern | None = None
    """The expression to find in a line of output that comes during the wait."""
    idle_s: float | None = None
    """How long a silence ends the wait."""


NEVER: Final = Wake()


class LiveProcess:
    """One attempt at a command. `when_ended` is called once, after the exit and the output behind it."""

    def __init__(
        self,
        command: RunningCommand,
        on_output: Callable[[bytes], None],
        when_ended: Callable[[LiveProcess], None],
        clock: YieldClock,
    ) -> None:
        self.command = command
        self._clock = clock
        self.lock = asyncio.Lock()
        """Held by the call that talks to the command."""
        self.transcript = HeadTail()
        self.ending: Ending | None = None
        self.failure: PaddockError | None = None
        """Why the end will never be known."""
        self.is_output_complete = False
        self._pending = HeadTail()
        self._recent = b""
        self._heard_at = 0.0
        self._on_output = on_output
        self._when_ended = when_ended
        self._exited = asyncio.Event()
        self._ended = asyncio.Event()
        self._wrote = asyncio.Event()

    @property
    def has_exited(self) -> bool:
        """Return whether the command has ended, or nobody can know."""
        return self._exited.is_set()

    @property
    def was_denied(self) -> bool:
        """Return whether the executor says that its sandbox made the command fail."""
        ending = self.ending
        if ending is None or ending.exit_code == 0:
            return False
        return ending.sandbox_denied or any(denial.is_certain for denial in ending.denials)

    async def follow(self, stdin: bytes | None = None) -> None:
        """Feed and read the command until it has ended. If cancelled, report that the end is not known."""
        reading = asyncio.create_task(self._read())
        feeding = asyncio.create_task(self._feed(stdin)) if stdin is not None else None
        try:
            try:
                self.ending = await self.command.wait()
            except PaddockError as error:
                self.failure = error
            self._exited.set()
            loop = asyncio.get_running_loop()
            self._heard_at = loop.time()
            limit = self._heard_at + TRAILING_LIMIT_S
            while not reading.done() and (left_s := self._silence_left_s(TRAILING_OUTPUT_S)) > 0:
                if loop.time() >= limit:
                    break
                await asyncio.wait((reading,), timeout=left_s)
            self.is_output_complete = reading.done()
        finally:
            if self.ending is None and self.failure is None:
                self.failure = OperationFailed("the agent was closed before it saw the command end")
                self._exited.set()
            self._when_ended(self)
            self._ended.set()
            for task in (reading, feeding):
                if task is not None:
                    task.cancel()
                    with suppress(asyncio.CancelledError):
                        await task

    async def _read(self) -> None:
        try:
            async for item in self.command.output():
                self._take(_loss(item) if isinstance(item, Gap) else item.data)
        except PaddockError as error:
            # `wait` reports an unknown end; this reports output that was dropped here.
            self._take(f"\n[the rest of the output is lost: {error}]\n".encode())

    def _silence_left_s(self, silence_s: float) -> float:
        """Return how long until the command has been silent for this long."""
        return self._heard_at + silence_s - asyncio.get_running_loop().time()

    def _take(self, data: bytes) -> None:
        self._heard_at = asyncio.get_running_loop().time()
        self._pending.add(data)
        self.transcript.add(data)
        self._recent = (self._recent + data)[-MATCHED_BYTES:]
        self._wrote.set()
        self._on_output(data)

    async def _feed(self, data: bytes) -> None:
        # A command need not read its input.
        with suppress(PaddockError):
            await self.command.write(data)
            await self.command.close_stdin()

    def drain(self) -> HeadTail:
        """Return the output that no call has returned yet."""
        # The next call does not wait for what this one has returned.
        self._recent = b""
        return self._pending.drain()

    async def exited_within(self, timeout_s: float) -> bool:
        """Wait for the exit; return whether it came."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._exited.wait()
        return self._exited.is_set()

    async def settled_within(self, timeout_s: float, wake: Wake = NEVER) -> None:
        """Wait for the exit and the output behind it, for what wakes, or until the time is over."""
        async with self._clock.limit(timeout_s):
            await (self._exited.wait() if wake == NEVER else self._woken(wake))
            if self._exited.is_set():
                await self._quiet()

    async def _quiet(self) -> None:
        """Wait for the output behind the exit, as long as it keeps coming."""
        while not self._ended.is_set() and (left_s := self._silence_left_s(COLLECT_TRAILING_S)) > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._ended.wait()

    async def _woken(self, wake: Wake) -> None:
        """Return at the exit, at a line that matches, or after a silence."""
        matcher = None if wake.pattern is None else LineMatcher(wake.pattern)
        exiting = asyncio.ensure_future(self._exited.wait())
        try:
            while not exiting.done():
                self._wrote.clear()
                recent, self._recent = self._recent, b""
                if matcher is not None and await _is_found(matcher, recent):
                    return
                writing = asyncio.ensure_future(self._wrote.wait())
                try:
                    done, _ = await asyncio.wait(
                        (exiting, writing), timeout=wake.idle_s, return_when=asyncio.FIRST_COMPLETED
                    )
                finally:
                    writing.cancel()
                if not done and wake.idle_s is not None and self._clock.has_run_for(wake.idle_s):
                    return
        finally:
            exiting.cancel()


async def _is_found(matcher: LineMatcher, data: bytes) -> bool:
    """Return whether a line matches. Everybody else has a turn after each line."""
    for line in data.splitlines(keepends=True):
        if matcher.feed(line):
            return True
        await asyncio.sleep(0)
    return False


def _loss(gap: Gap) -> bytes:
    size = "some" if gap.size_bytes is None else f"up to {gap.size_bytes}"
    return f"\n[{size} bytes of output are lost: the connection was interrupted]\n".encode()
