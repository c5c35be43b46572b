"""What is written down of a session and its processes: the counters and the log, side by side.

Whole session ids and arguments stay out of ordinary logs: the id lets its reader take the
session over, and arguments hold secrets more often than they should. So an event has the
beginning of the session id, the program's name and the number of its arguments; only the
level `debug` shows them all. Environments, input and output are never logged.
"""

from __future__ import annotations

import logging
import os.path

from paddock.journal import Journal
from paddock.process.managed import Description, ManagedProcess
from paddock.process.output_log import Chunk, Gap
from paddock.protocol.envelope import RequestId
from paddock.server.metrics import Ending, Metrics

SHOWN_ID_CHARS = 8
"""How much of a session id is logged: 32 of its 122 random bits tell sessions apart and open none."""


class SessionRecord:
    """Tells the counters and the log what happens to one session."""

    __slots__ = ("_journal", "_metrics", "_output_bytes")

    def __init__(self, session_id: str, metrics: Metrics) -> None:
        self._journal = Journal(logging.getLogger(__name__), session=shown_id(session_id))
        self._metrics = metrics
        self._output_bytes = metrics.output_bytes

    # --- the session --------------------------------------------------------

    def opened(self, connection: int, client_name: str) -> None:
        """A client has begun it."""
        self._metrics.sessions_opened += 1
        self._journal.info("session opened", connection=connection, client=client_name)

    def resumed(self, connection: int, client_name: str) -> None:
        """A client has come back to it."""
        self._metrics.sessions_resumed += 1
        self._journal.info("session resumed", connection=connection, client=client_name)

    def detached(self, ttl_s: float, processes: int) -> None:
        """Its connection is gone."""
        self._journal.info("session detached", ttl_s=ttl_s, processes=processes)

    def expired(self, processes: int) -> None:
        """Nobody has come back in time."""
        self._metrics.sessions_expired += 1
        self._journal.info("session expired", processes=processes)

    def ended(self) -> None:
        """Nothing is left of it."""
        self._journal.info("session ended")

    # --- its processes ------------------------------------------------------

    def started(
        self, process: ManagedProcess, duration_s: float, connection: int, request: RequestId
    ) -> None:
        """A start has succeeded; it took so long."""
        self._metrics.processes_started += 1
        self._metrics.start_latency.observe(duration_s)
        description = process.description
        self._journal.info(
            "process started",
            connection=connection,
            request=request,
            process=description.process_id,
            pid=process.pid,
            program=_program(description),
            arguments=len(description.argv) - 1,
            terminal=description.is_terminal,
            duration_s=duration_s,
        )
        if self._journal.is_debugging:
            argv = tuple(description.argv)
            self._journal.debug("process arguments", process=description.process_id, argv=argv)

    def not_started(self, description: Description, reason: str, connection: int, request: RequestId) -> None:
        """A start has failed."""
        self._metrics.start_failures += 1
        self._journal.info(
            "process failed",
            connection=connection,
            request=request,
            process=description.process_id,
            program=_program(description),
            reason=reason,
        )

    def output(self, chunk: Chunk) -> None:
        """Output was read. On the path of every chunk: counts, and no more."""
        self._output_bytes[chunk.stream] += len(chunk.data)

    def exited(self, process: ManagedProcess) -> None:
        """The end of the process itself was seen."""
        signal = process.death_signal
        if signal is not None:
            self._metrics.endings[Ending.SIGNAL] += 1
        else:
            self._metrics.endings[Ending.FAILURE if process.exit_code else Ending.SUCCESS] += 1
        process_id = process.description.process_id
        self._journal.info("process exited", process=process_id, exit_code=process.exit_code, signal=signal)

    def closed(self, process: ManagedProcess) -> None:
        """No further output can come."""
        self._metrics.dropped_bytes += process.log.dropped_bytes
        self._journal.info(
            "process closed",
            process=process.description.process_id,
            output_bytes=process.log.total_bytes,
            dropped_bytes=process.log.dropped_bytes,
        )

    def lost(self, process: ManagedProcess) -> None:
        """What became of it will never be known."""
        self._metrics.endings[Ending.LOST] += 1
        self._metrics.dropped_bytes += process.log.dropped_bytes
        self._journal.warning("process lost", process=process.description.process_id, reason=process.failure)

    def gap(self, process: ManagedProcess, gap: Gap) -> None:
        """A reader was told that output is missing."""
        self._metrics.gaps += 1
        self._metrics.gap_bytes += gap.size_bytes
        self._journal.info(
            "output gap",
            process=process.description.process_id,
            from_seq=gap.from_seq,
            to_seq=gap.to_seq,
            dropped_bytes=gap.size_bytes,
        )


def shown_id(session_id: str) -> str:
    """As much of a session id as may be logged."""
    return session_id[:SHOWN_ID_CHARS]


def _program(description: Description) -> str:
    return os.path.basename(description.argv[0])
