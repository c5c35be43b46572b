"""Rows about starting processes: how long one takes, and how many fit into a second."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from bench.client import READ_ONLY, Client, start_request
from bench.row import Figure, Row, Unit
from bench.servers import Contender

PROGRAM = "/bin/true"
IN_FLIGHT = 32


def p50_and_p90(samples: Sequence[float]) -> tuple[float, float]:
    """The median, and what nine of ten stay below."""
    tenths = statistics.quantiles(samples, n=10)
    return statistics.median(samples), tenths[8]


class OrdinaryLatency(Row):
    """From sending `process/start` to seeing `process/exited`, one at a time.

    The next start waits for `process/closed`, so that no round pays for what the
    one before left behind.
    """

    name = "latency"
    figures = (
        Figure("start to exit seen, p50", Unit.SECONDS, goal=10),
        Figure("start to exit seen, p90", Unit.SECONDS),
    )
    bare = "posix_spawn and waitpid in Python"
    starts: ClassVar[int] = 10
    has_quick_ack: ClassVar[bool] = False
    sandbox: ClassVar[dict[str, Any] | None] = None

    def measure(self, contender: Contender) -> Sequence[float]:
        with contender.server.connect(has_quick_ack=self.has_quick_ack) as client:
            # The kernel acknowledges the first segments of a connection at once whatever happens.
            samples = [start_once(client, number, self.sandbox) for number in range(2 * self.starts)]
        return p50_and_p90(samples[self.starts :])

    def limit(self) -> Sequence[float | None]:
        return p50_and_p90([_timed(_spawn_and_wait) for _ in range(self.starts)])


class QuickAckLatency(OrdinaryLatency):
    """The same with a client that acknowledges at once, which hides delays that Nagle's algorithm causes."""

    name = "latency-quickack"
    figures = (
        Figure("start to exit seen, quick ACK, p50", Unit.SECONDS, goal=4),
        Figure("start to exit seen, quick ACK, p90", Unit.SECONDS),
    )
    starts = 50
    has_quick_ack = True


class ConfinedLatency(OrdinaryLatency):
    """The same, with quick ACK, for a program in a sandbox that the server makes."""

    name = "latency-sandboxed"
    figures = (
        Figure("sandboxed start to exit seen, p50", Unit.SECONDS, goal=4),
        Figure("sandboxed start to exit seen, p90", Unit.SECONDS),
    )
    bare = ""
    has_quick_ack = True
    sandbox = READ_ONLY

    def limit(self) -> Sequence[float | None]:
        return (None, None)


class StartRate(Row):
    """Starts, from the first request to the last `process/closed`, with a constant number under way."""

    name = "starts"
    figures = (Figure(f"starts, {IN_FLIGHT} in flight", Unit.PER_SECOND, goal=4),)
    bare = f"{IN_FLIGHT} at a time with posix_spawn and waitpid in Python"
    starts: ClassVar[int] = 200

    def measure(self, contender: Contender) -> Sequence[float]:
        with contender.server.connect() as client:
            begun = time.perf_counter()
            _start_many(client, self.starts)
            return (self.starts / (time.perf_counter() - begun),)

    def limit(self) -> Sequence[float | None]:
        begun = time.perf_counter()
        for number in range(self.starts + IN_FLIGHT):
            if number >= IN_FLIGHT:
                os.waitpid(-1, 0)
            if number < self.starts:
                os.posix_spawn(PROGRAM, [PROGRAM], {})
        return (self.starts / (time.perf_counter() - begun),)


def start_once(client: Client, number: int, sandbox: dict[str, Any] | None) -> float:
    """Start a program that does nothing, and return the time until its exit was seen."""
    process_id = f"p{number}"
    message = start_request(number + 1, process_id, [PROGRAM], sandbox=sandbox)
    wanted = {"process/exited", "process/closed"}
    exit_seen_s = 0.0
    begun = time.perf_counter()
    client.send(message)
    while wanted:
        for event in client.messages():
            if event.method in wanted and event.params.process_id == process_id:
                wanted.discard(event.method)
                if event.method == "process/exited":
                    exit_seen_s = time.perf_counter() - begun
    return exit_seen_s


def _start_many(client: Client, total: int) -> None:
    messages = [start_request(number + 1, f"p{number}", [PROGRAM]) for number in range(total)]
    sent = closed = 0
    while closed < total:
        room = IN_FLIGHT - (sent - closed)
        if room and sent < total:
            client.send(b"".join(messages[sent : sent + room]))
            sent = min(total, sent + room)
        closed += sum(event.method == "process/closed" for event in client.messages())


def _spawn_and_wait() -> None:
    os.waitpid(os.posix_spawn(PROGRAM, [PROGRAM], {}), 0)


def _timed(work: Callable[[], None]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun
