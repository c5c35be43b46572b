"""Rows about small calls: `environment/status`, which costs a server nothing but the way in and out."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import ClassVar

from bench.client import Client, request
from bench.errors import BenchError
from bench.row import Figure, Row, Unit
from bench.servers import REPOSITORY, Contender

METHOD = "environment/status"
BARE_ECHO = "a websocket server on picows that echoes the request"


class Calls(Row):
    """Calls per second with at most `window` unanswered.

    A sliding window sends a new call for each answer; otherwise the next `window`
    calls are sent together when all of the last are answered.
    """

    bare = BARE_ECHO
    window: ClassVar[int]
    calls: ClassVar[int]
    is_sliding: ClassVar[bool] = True

    def __init__(self) -> None:
        self._requests = [request(number, METHOD) for number in range(1, self.window + 1)]
        self._echo = Contender("echo", (sys.executable, str(REPOSITORY / "bench" / "echo.py")), ())

    def measure(self, contender: Contender) -> Sequence[float]:
        with contender.server.connect() as client:
            client.send(self._requests[0])
            if b"ready" not in client.result(1):
                raise BenchError(f"{contender.name} is not ready")
            return (self._rate(client),)

    def limit(self) -> Sequence[float | None]:
        with Client(self._echo.server.url, handshake=False) as client:
            return (self._rate(client),)

    def close(self) -> None:
        self._echo.close()

    def _rate(self, client: Client) -> float:
        self._exchange(client, max(self.window, self.calls // 10))
        begun = time.perf_counter()
        self._exchange(client, self.calls)
        return self.calls / (time.perf_counter() - begun)

    def _exchange(self, client: Client, calls: int) -> None:
        sent = answered = 0
        while answered < calls:
            unanswered = sent - answered
            if self.is_sliding or not unanswered:
                room = min(self.window - unanswered, calls - sent)
                if room:
                    client.send(b"".join(self._requests[:room]))
                    sent += room
            answered += len(client.receive())


class BatchedCalls(Calls):
    name = "calls-batch"
    window = 100
    calls = 2000
    is_sliding = False
    figures = (Figure(f"small calls, batches of {window}", Unit.PER_SECOND, goal=10),)


class WindowedCalls(Calls):
    name = "calls-window"
    window = 32
    calls = 10_000
    figures = (Figure(f"small calls, window of {window}", Unit.PER_SECOND, goal=1),)


class SingleCalls(Calls):
    name = "calls-single"
    window = 1
    calls = 2000
    figures = (Figure("small calls, one at a time", Unit.PER_SECOND),)
