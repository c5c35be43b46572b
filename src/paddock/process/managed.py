"""A process with everything that belongs to it: group, streams, retained output, waiters.

Its life is STARTING -> RUNNING -> EXITED -> CLOSED, or LOST when the helper that
started it went away and its outcome is unknown. One counter numbers the events, and
the listener hears of them in that order, never before `begin`.

Before it reports the exit of a process that ran in an `Enclosure`, it clears the
surroundings and decides whether they denied the process something.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from enum import Enum
from math import inf
from typing import Protocol

from paddock.errors import NotATerminal
from paddock.model.cause import Cause
from paddock.model.stream import Stream
from paddock.model.terminal import TerminalSize
from paddock.model.usage import Usage
from paddock.process.description import Description
from paddock.process.enclosure import Enclosure, Judgement
from paddock.process.group import ProcessGroup
from paddock.process.input_stream import InputStream
from paddock.process.output_log import Chunk, OutputLog
from paddock.process.output_stream import OutputStream
from paddock.process.spawner import ExitReport
from paddock.process.standard_input import StandardInput
from paddock.process.terminal import resize_terminal, window_size
from paddock.process.wake_turns import WakeTurns

FORCED_DRAIN_S = 0.25
"""How long the streams of a killed group may stay open: long enough for every member to die,
after which only a process that left the group can hold them."""

DENIAL_GRACE_S = 0.02
"""How long to wait for the last output of a failed, enclosed process, because it may say why."""


class Status(Enum):
    """Where a process is in its life."""

    STARTING = "starting"
    RUNNING = "running"
    EXITED = "exited"
    CLOSED = "closed"
    LOST = "lost"


class ProcessListener(Protocol):
    """Hears what happens to a process. Calls come in the order of event numbers."""

    def process_output(self, process: ManagedProcess, chunk: Chunk) -> None:
        """Hear of output that was read and retained."""

    def process_exited(self, process: ManagedProcess, seq: int) -> None:
        """Hear that the process has ended; `exit_code` is set."""

    def process_closed(self, process: ManagedProcess, seq: int) -> None:
        """Hear that the process and its streams have ended. The last call.

        The listener owns `leftover_group` now.
        """

    def process_lost(self, process: ManagedProcess) -> None:
        """Hear that the outcome of the process will never be known. The last call."""


class ManagedProcess:
    """One child. Made before it is spawned; see `launch`."""

    # Without slots, CPython 3.11 keeps at most 29 attributes without a table for each object, of 1.3 kB.
    __slots__ = (
        "_adopted_at_s",
        "_drain_timer",
        "_early_grace_s",
        "_enclosure",
        "_ended_at_s",
        "_group",
        "_has_begun",
        "_is_ending",
        "_is_killed",
        "_is_paused",
        "_is_reaped",
        "_listener",
        "_loop",
        "_output_streams",
        "_report",
        "_settling",
        "_waiters",
        "_wake_turns",
        "_window_fd",
        "cause",
        "description",
        "exit_code",
        "failure",
        "judgement",
        "leftover_group",
        "log",
        "started_at_s",
        "status",
        "stdin",
    )

    def __init__(
        self,
        description: Description,
        listener: ProcessListener,
        retained_bytes: int,
        wake_turns: WakeTurns | None = None,
    ) -> None:
        self._wake_turns = wake_turns or WakeTurns()
        self.description = description
        self.log = OutputLog(retained_bytes)
        self.stdin = StandardInput(description.process_id, is_given=description.has_stdin)
        self.status = Status.STARTING
        self.exit_code: int | None = None
        self.failure: str | None = None
        self.judgement = Judgement()
        """What its enclosure kept it from; decided before the exit is reported."""
        self.cause: Cause | None = None
        """What ended it; set when the exit is reported."""
        self.leftover_group: ProcessGroup | None = None
        """The group of a closed process, if it still had members whose output went elsewhere."""
        self.started_at_s = time.time()
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._group: ProcessGroup | None = None
        self._output_streams: list[OutputStream] = []
        self._window_fd = -1
        self._report: ExitReport | None = None
        self._is_reaped = False
        """Whether the spawner has reported the end, or never will."""
        self._enclosure: Enclosure | None = None
        self._settling: asyncio.Task[None] | None = None
        self._is_ending = False
        self._adopted_at_s = self._ended_at_s = 0.0
        self._has_begun = False
        self._is_paused = False
        self._waiters: dict[asyncio.Future[None], None] = {}
        self._early_grace_s: float | None = None
        self._drain_timer: asyncio.TimerHandle | None = None
        self._is_killed = False

    # --- life ---------------------------------------------------------------

    def adopt(
        self,
        group: ProcessGroup,
        output_streams: list[OutputStream],
        input_stream: InputStream | None,
        window_fd: int,
        enclosure: Enclosure | None = None,
    ) -> None:
        """Take over the spawned process. An output stream owns and closes `window_fd`, if not -1."""
        self._enclosure = enclosure
        self._group = group
        self._output_streams = output_streams
        self._window_fd = window_fd
        self.status = Status.RUNNING
        self._adopted_at_s = self._loop.time()
        self.stdin.connect(input_stream)
        if self._is_killed:
            group.kill()
        elif self._early_grace_s is not None:
            self.terminate(self._early_grace_s)

    def begin(self) -> None:
        """Start to report, once the caller knows that the process runs. A second call does nothing."""
        if self._has_begun:
            return
        self._has_begun = True
        if not self._is_paused:
            for output_stream in self._output_streams:
                output_stream.begin()
        if self._report is not None:
            self._settle(self._report)
        elif self._enclosure is not None:
            self._enclosure.when_over(self._over)

    def exited(self, report: ExitReport) -> None:
        """Take the spawner's report that the process has ended."""
        self._is_reaped = True
        if self._settling is not None:
            # The enclosure has told of the end, and what was left of it is gone now.
            if self.is_closed:
                self._leave_group()
            self._wake()
            return
        self._report = report
        self._ended_at_s = self._loop.time()
        if self._has_begun:
            self._settle(report)

    def _over(self) -> None:
        if self._settling is None and self._enclosure is not None and self._group is not None:
            self._ended_at_s = self._loop.time()
            self._settling = self._loop.create_task(self._settle_enclosed(None, self._enclosure))
            # A signal for the command may have stopped what encloses it, which would never end.
            self._group.signal(signal.SIGCONT)

    def lose(self, reason: str) -> None:
        """Lose the exit status: the spawner has ended. A process that has exited loses nothing."""
        self._is_reaped = True
        if not self.is_running or self._settling is not None:
            if self.is_closed:
                self._leave_group()
            self._wake()
            return
        self.failure = reason
        self.status = Status.LOST
        # The kernel killed the process with its parent, but not the rest of its group.
        self.signal(signal.SIGKILL)
        self._release()
        self._leave_group()
        self._listener.process_lost(self)
        self._wake()

    @property
    def pid(self) -> int:
        """Return the process id, which another process may have after the end; 0 before the start."""
        return self._group.pid if self._group is not None else 0

    @property
    def is_running(self) -> bool:
        """Return whether the process itself still runs, as far as is known."""
        return self.status in (Status.STARTING, Status.RUNNING)

    @property
    def has_exited(self) -> bool:
        """Return whether the spawner has seen the exit."""
        return self.exit_code is not None

    @property
    def death_signal(self) -> int | None:
        """Return the signal that ended it; None if it ended by itself, or has not ended."""
        return self._report.death_signal if self._report is not None else None

    @property
    def is_closed(self) -> bool:
        """Return whether no further event can come."""
        return self.status in (Status.CLOSED, Status.LOST)

    @property
    def is_gone(self) -> bool:
        """Return whether no further event can come, and the process itself is no more."""
        return self.is_closed and self._is_reaped

    @property
    def has_survivors(self) -> bool:
        """Return whether the process has exited and others of its group live on."""
        return self.has_exited and self._is_reaped and self._group is not None and self._group.is_alive()

    def _settle(self, report: ExitReport) -> None:
        if self._enclosure is None:
            self._publish_exit(report)
        else:
            self._settling = self._loop.create_task(self._settle_enclosed(report, self._enclosure))

    async def _settle_enclosed(self, reported: ExitReport | None, enclosure: Enclosure) -> None:
        ending = await enclosure.cleared(reported)
        report = self._report = ending.report
        self.cause = ending.cause
        for output_stream in self._output_streams:
            output_stream.finish()
        if report.exit_code != 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DENIAL_GRACE_S):
                    while not self._is_silent:
                        await self.changed()
            if not self._is_paused:
                # On a busy host the time may be over before anybody has read the pipes.
                for output_stream in self._output_streams:
                    output_stream.take()
        self.judgement = await enclosure.judged(report.exit_code, self.log)
        if self.cause is None and not self._is_ending:
            self.cause = self.judgement.limit
        self._publish_exit(report)

    def _cause_of(self, report: ExitReport) -> Cause:
        if self._is_ending:
            return Cause.TERMINATED
        return Cause.EXIT if report.death_signal is None else Cause.SIGNAL

    @property
    def usage(self) -> Usage:
        """Return what the process used. Call it after the exit."""
        assert self._report is not None
        return Usage(
            wall_s=max(0.0, self._ended_at_s - self._adopted_at_s),
            user_s=self._report.user_s,
            system_s=self._report.system_s,
            peak_memory_bytes=self._report.max_rss_bytes,
        )

    @property
    def _is_silent(self) -> bool:
        return all(output_stream.is_ended for output_stream in self._output_streams)

    def _publish_exit(self, report: ExitReport) -> None:
        self.exit_code = report.exit_code
        self.status = Status.EXITED
        self.cause = self.cause or self._cause_of(report)
        self.stdin.close()
        self._listener.process_exited(self, self.log.take_seq())
        self._wake()
        for output_stream in self._output_streams:
            output_stream.finish()
        if self._is_killed:
            self._bound_drain()
        self._close_if_done()

    def _close_if_done(self) -> None:
        if self.status is not Status.EXITED or not self._is_silent:
            return
        self.status = Status.CLOSED
        self._release()
        # Check this only once: the last member may end at any moment, and then nobody would own the group.
        # While the enclosure is on its way out, it is all that the group has.
        if self._is_reaped and self._group is not None and self._group.is_alive():
            self.leftover_group = self._group
        elif self._is_reaped:
            self._leave_group()
        self._listener.process_closed(self, self.log.take_seq())
        self._wake()

    def _leave_group(self) -> None:
        if self._group is not None and self._group is not self.leftover_group:
            self._group.close()

    def _release(self) -> None:
        """Close the streams' descriptors, cancel the timer, and let go of the enclosure.

        A closed process is kept for a while for later questions, and an enclosure takes many times as much.
        """
        self._enclosure = None
        if self._drain_timer is not None:
            self._drain_timer.cancel()
            self._drain_timer = None
        self.stdin.close()
        for output_stream in self._output_streams:
            output_stream.close()

    # --- output -------------------------------------------------------------

    def output_received(self, stream: Stream, data: bytes) -> None:
        """Retain what an output stream has read, and tell the listener."""
        self._listener.process_output(self, self.log.append(stream, data))
        self._wake()

    def output_ended(self) -> None:
        """Close the process if it is done: an output stream is at its end."""
        self._close_if_done()
        if self._settling is not None:
            self._wake()

    def pause_output(self) -> None:
        """Stop reading, so that the child waits when its pipes are full."""
        self._is_paused = True
        for output_stream in self._output_streams:
            output_stream.pause()

    def resume_output(self) -> None:
        """Read again."""
        self._is_paused = False
        if self._has_begun:
            for output_stream in self._output_streams:
                output_stream.begin()

    # --- the terminal -------------------------------------------------------

    def resize(self, size: TerminalSize) -> None:
        """Set the window size; do nothing after the end. Raises NotATerminal."""
        if not self.description.is_terminal:
            raise NotATerminal(self.description.process_id)
        if any(not output_stream.is_ended for output_stream in self._output_streams):
            self.stdin.flush()
            resize_terminal(self._window_fd, size)

    @property
    def window(self) -> TerminalSize | None:
        """Return the window size of its terminal; None without one, and after the end."""
        if self._window_fd < 0 or all(output_stream.is_ended for output_stream in self._output_streams):
            return None
        return window_size(self._window_fd)

    # --- the end ------------------------------------------------------------

    def signal(self, number: int) -> None:
        """Send a signal to the group, after all earlier input; do nothing if the group is empty.

        An enclosure that outlives its command gets no signal, because one could stop it for ever.
        """
        self.stdin.flush()
        is_over = self._settling is not None and not self._is_reaped
        if self._group is not None and not is_over:
            self._group.signal(number)

    def kill(self) -> bool:
        """Send SIGKILL to the whole group. Return whether the process was still running.

        Still reads the output that its members wrote, but waits only a moment for a process that
        left the group and holds a stream open.
        """
        was_running = self.is_running
        self._is_ending = True
        if self._group is not None:
            self._group.kill()
        self._killed()
        return was_running

    def terminate(self, grace_s: float) -> bool:
        """Send SIGTERM now, SIGKILL to survivors after the grace. Return whether the process was running.

        Also ends members of its group that outlived it.
        """
        self._is_ending = True
        if self._group is None:
            self._early_grace_s = grace_s
        else:
            self._group.terminate(grace_s, self._killed)
        return self.is_running

    def _killed(self) -> None:
        self._is_killed = True
        self._bound_drain()

    def _bound_drain(self) -> None:
        if self._drain_timer is None and self.status is Status.EXITED:
            self._drain_timer = self._loop.call_later(FORCED_DRAIN_S, self._drain_is_over)

    def _drain_is_over(self) -> None:
        for output_stream in self._output_streams:
            output_stream.close()

    # --- waiting ------------------------------------------------------------

    async def changed(self, deadline_s: float = inf) -> None:
        """Return at the next event: output, exit, close or loss. Return at the deadline at the latest, a time
        of the event loop."""
        waiter = self._loop.create_future()
        self._waiters[waiter] = None
        timer = None
        if deadline_s < inf:
            timer = self._loop.call_at(deadline_s, self._wake_turns.wake, (waiter,))
        try:
            await waiter
        finally:
            self._waiters.pop(waiter, None)
            if timer is not None:
                timer.cancel()

    def _wake(self) -> None:
        if self._waiters:
            waiters, self._waiters = self._waiters, {}
            self._wake_turns.wake(waiters)
