"""Records a connection and its requests in the counters and the log, side by side.

`record` does the same for a session and its processes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from paddock.journal import Journal
from paddock.protocol.call import Call
from paddock.protocol.codes import INTERNAL_ERROR
from paddock.protocol.envelope import RequestId
from paddock.protocol.structure import Params
from paddock.server.metrics import Metrics
from paddock.server.record import shown_id
from paddock.server.stall import Stall
from paddock.transport.link import Link

log = logging.getLogger(__name__)


class ConnectionRecord:
    """Records one connection; `waiting` counts the requests that wait. Made when the connection opens."""

    __slots__ = ("_errors", "_journal", "_link", "_waiting", "output_stall", "reading_stall")

    def __init__(
        self, link: Link, number: int, metrics: Metrics, waiting: Callable[[], int], *, is_operator: bool
    ) -> None:
        self._link = link
        self._errors = metrics.errors
        self._waiting = waiting
        self._journal = Journal(log, connection=number)
        self.output_stall = Stall(self._output_paused, self._output_resumed)
        """What the connection tells when its client reads too slowly."""
        self.reading_stall = Stall(self._reading_paused, self._reading_resumed)
        """What it tells when it does not read requests."""
        metrics.connections_opened += 1
        self._journal.info("connection opened", peer=link.peer, operator=is_operator or None)

    @property
    def is_debugging(self) -> bool:
        """Return whether the log has every request."""
        return self._journal.is_debugging

    def greeted(self, session_id: str) -> None:
        """Name the session in all that follows."""
        self._journal = self._journal.bind(session=shown_id(session_id))

    def dropped(self, reason: str) -> None:
        """Record that the server ends the connection."""
        self._journal.warning("connection dropped", peer=self._link.peer, reason=reason)

    def closed(self, error: Exception | None) -> None:
        """Record the end of the connection."""
        self.output_stall.end()
        self.reading_stall.end()
        reason = "closed" if error is None else str(error)
        self._journal.info("connection closed", peer=self._link.peer, reason=reason)

    def refused(
        self,
        request: RequestId | None,
        method: str | None,
        code: int,
        problem: str,
        process: str | None = None,
    ) -> None:
        """Record a request that was answered with an error."""
        self._errors[code] += 1
        self._journal.info(
            "request failed" if code == INTERNAL_ERROR else "request refused",
            request=request,
            method=method,
            process=process,
            code=code,
            reason=problem,
        )

    def crashed(self, call: Call[Params], error: Exception) -> None:
        """Record a request whose handler has a fault."""
        self._errors[INTERNAL_ERROR] += 1
        self._journal.error("request crashed", error=error, request=call.id, method=call.method.name)

    def answered(self, call: Call[Params], duration_s: float) -> None:
        """Record an answer, if the log has every request."""
        if self._journal.is_debugging:
            self._journal.debug(
                "request answered",
                request=call.id,
                method=call.method.name,
                process=call.subject,
                duration_s=duration_s,
            )

    def _output_paused(self) -> None:
        self._journal.info("output paused", unsent_bytes=self._link.buffered_bytes)

    def _output_resumed(self, paused_s: float) -> None:
        self._journal.info("output resumed", paused_s=paused_s)

    def _reading_paused(self) -> None:
        self._journal.info("reading paused", waiting=self._waiting(), unsent_bytes=self._link.buffered_bytes)

    def _reading_resumed(self, paused_s: float) -> None:
        self._journal.info("reading resumed", paused_s=paused_s)
