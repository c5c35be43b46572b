"""The counters of a server. Pure: they are plain numbers that other modules add to as things happen.

A counter is only ever incremented. Labels come from closed sets - methods of the table,
error codes, streams - so that no client can make the page grow.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from paddock.model.sandbox_start import SandboxStart
from paddock.model.stream import Stream
from paddock.protocol.codes import CODES
from paddock.protocol.methods import METHODS
from paddock.server.exposition import Family, Histogram, Kind, single
from paddock.version import __version__

LATENCY_BOUNDS_S = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)
"""From a call that answers at once to a long poll; a start takes about a millisecond."""


class Ending(StrEnum):
    """How a process ended."""

    SUCCESS = "success"
    FAILURE = "failure"
    SIGNAL = "signal"
    LOST = "lost"


class WarmEnd(StrEnum):
    """Why a spare sandbox ended without a command."""

    EXPIRED = "expired"
    """Nobody took it in time."""
    CHANGED = "changed"
    """A sandbox made now would be a different one."""
    LOST = "lost"
    """It ended by itself, because a mask was taken away, or was killed."""
    REPLACED = "replaced"
    """It made room for another."""
    CLOSED = "closed"
    """The server ends."""


class QuestionOutcome(StrEnum):
    """The outcome of a question of the server."""

    CLIENT = "client"
    OPERATOR = "operator"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    WITHDRAWN = "withdrawn"


class Metrics:
    """The counters of one server."""

    def __init__(self) -> None:
        self.connections_opened = 0
        self.sessions_opened = 0
        self.sessions_resumed = 0
        self.sessions_expired = 0
        self.processes_started = 0
        self.start_failures = 0
        self.start_latency = Histogram(LATENCY_BOUNDS_S)
        self.sandbox_starts: dict[str, int] = dict.fromkeys(SandboxStart, 0)
        self.warm_ends: dict[str, int] = dict.fromkeys(WarmEnd, 0)
        self.endings: dict[str, int] = dict.fromkeys(Ending, 0)
        self.questions: dict[str, int] = dict.fromkeys(QuestionOutcome, 0)
        self.output_bytes: dict[str, int] = dict.fromkeys(Stream, 0)
        self.input_bytes = 0
        self.dropped_bytes = 0
        self.gaps = 0
        self.gap_bytes = 0
        self.pauses = 0
        self.requests = {
            name: Histogram(LATENCY_BOUNDS_S) for name, method in METHODS.items() if method.is_offered
        }
        """Latency by method, from the arrival of the request to its answer. Only methods that the server
        offers have one."""
        self.errors = dict.fromkeys(CODES, 0)

    def families(self) -> Iterator[Family]:
        """Yield everything that was counted, in the order of the page."""
        counter, histogram = Kind.COUNTER, Kind.HISTOGRAM
        version = {__version__: 1}
        yield Family("paddock_build_info", Kind.GAUGE, "The running version.", version, "version")
        yield single("paddock_connections_opened_total", counter, "Connections.", self.connections_opened)
        yield single("paddock_sessions_opened_total", counter, "New sessions.", self.sessions_opened)
        yield single(
            "paddock_sessions_resumed_total",
            counter,
            "Returns of a client to its session.",
            self.sessions_resumed,
        )
        yield single(
            "paddock_sessions_expired_total",
            counter,
            "Sessions that nobody came back to in time.",
            self.sessions_expired,
        )
        yield from self._of_processes()
        yield from self._of_streams()
        yield Family(
            "paddock_request_seconds",
            histogram,
            "Time from the arrival of a request to its answer. Of those answered without waiting, "
            "about one in 64 is timed and stands for the others.",
            self.requests,
            "method",
        )
        errors = {str(code): count for code, count in self.errors.items()}
        yield Family("paddock_request_errors_total", counter, "Error answers.", errors, "code")

    def _of_processes(self) -> Iterator[Family]:
        counter = Kind.COUNTER
        yield single("paddock_processes_started_total", counter, "Started processes.", self.processes_started)
        yield single(
            "paddock_process_start_failures_total",
            counter,
            "Programs that could not be started.",
            self.start_failures,
        )
        yield single(
            "paddock_process_start_seconds",
            Kind.HISTOGRAM,
            "Time to start a program, from its descriptors to the spawner's answer.",
            self.start_latency,
        )
        yield Family(
            "paddock_sandbox_starts_total",
            counter,
            "Commands started in a sandbox that was there already (warm), or was made for them (cold).",
            self.sandbox_starts,
            "start",
        )
        yield Family(
            "paddock_warm_sandboxes_ended_total",
            counter,
            "Spare sandboxes that ended without a command.",
            self.warm_ends,
            "reason",
        )
        yield Family(
            "paddock_process_exits_total",
            counter,
            "Ended processes: status 0, another status, a signal, or lost with the spawner.",
            self.endings,
            "kind",
        )

        yield Family(
            "paddock_questions_total",
            counter,
            "Closed questions: answered by client or operator, failed at the client, timed out, withdrawn.",
            self.questions,
            "outcome",
        )

    def _of_streams(self) -> Iterator[Family]:
        counter = Kind.COUNTER
        yield Family(
            "paddock_output_bytes_total", counter, "Output of processes.", self.output_bytes, "stream"
        )
        yield single("paddock_input_bytes_total", counter, "Input accepted for processes.", self.input_bytes)
        yield single(
            "paddock_output_dropped_bytes_total",
            counter,
            "Output no longer retained when its process closed; a connected client was sent it before.",
            self.dropped_bytes,
        )
        yield single(
            "paddock_output_gaps_total",
            counter,
            "Answers that reported missing output to a reader.",
            self.gaps,
        )
        yield single(
            "paddock_output_gap_bytes_total",
            counter,
            "Bytes that those answers reported missing.",
            self.gap_bytes,
        )
        yield single(
            "paddock_output_pauses_total",
            counter,
            "Times that a client read too slowly and its processes were paused.",
            self.pauses,
        )
