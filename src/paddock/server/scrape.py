"""Answers a scrape with the counters and the current state of the server."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Iterator, Sized

from paddock.server.exposition import CONTENT_TYPE, Family, Kind, render, single
from paddock.server.metrics import Metrics
from paddock.server.sessions import SessionRegistry
from paddock.transport.http import HttpResponse

METRICS_PATH = "/metrics"


class Scraper:
    """Looks at one server. Each look walks its sessions; between looks it costs nothing."""

    def __init__(
        self,
        metrics: Metrics,
        sessions: SessionRegistry,
        connections: Sized,
        count_spares: Callable[[], int],
    ) -> None:
        self._metrics = metrics
        self._count_spares = count_spares
        self._sessions = sessions
        self._connections = connections
        self._started_at_s = time.time()

    def page(self) -> HttpResponse:
        """Return the answer to a scrape."""
        return HttpResponse(status=200, body=render(self.families()), content_type=CONTENT_TYPE)

    def families(self) -> Iterator[Family]:
        """Yield everything on the page, in its order."""
        yield from self._metrics.families()
        yield from self._of_this_moment()
        yield from self._of_audit()
        yield from self._of_this_process()

    def _of_this_moment(self) -> Iterator[Family]:
        gauge = Kind.GAUGE
        sessions = {
            "attached": self._sessions.attached,
            "detached": len(self._sessions) - self._sessions.attached,
        }
        yield single("paddock_connections", gauge, "Open connections.", len(self._connections))
        yield Family("paddock_sessions", gauge, "Sessions, by whether a client has them.", sessions, "state")
        yield single("paddock_processes", gauge, "Processes that are not closed.", self._sessions.live)
        yield single(
            "paddock_warm_sandboxes",
            gauge,
            "Spare sandboxes that wait for a command.",
            self._count_spares(),
        )
        yield single(
            "paddock_questions", gauge, "Questions that wait for an answer.", self._sessions.open_questions
        )

    def _of_audit(self) -> Iterator[Family]:
        audit = self._sessions.audit
        from paddock.audit.writer import Condition

        condition = audit.condition if audit is not None else Condition()
        yield single(
            "paddock_audit_last_record",
            Kind.GAUGE,
            "Number of the last record of the audit log; 0 without a log.",
            condition.last_seq,
        )
        yield single(
            "paddock_audit_waiting_records",
            Kind.GAUGE,
            "Records that are not written yet.",
            condition.waiting,
        )
        yield single(
            "paddock_audit_lost_records_total",
            Kind.COUNTER,
            "Records that were given up because the audit log could not be written.",
            condition.lost,
        )
        yield single(
            "paddock_audit_failing",
            Kind.GAUGE,
            "Whether the audit log can't be written at the moment.",
            int(condition.is_failing),
        )

    def _of_this_process(self) -> Iterator[Family]:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        counter, gauge = Kind.COUNTER, Kind.GAUGE
        yield single(
            "process_cpu_seconds_total",
            counter,
            "Processor time of the server itself.",
            round(usage.ru_utime + usage.ru_stime, 6),
        )
        yield single(
            "process_start_time_seconds",
            gauge,
            "When the server started, since the epoch.",
            self._started_at_s,
        )
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        yield single("process_max_fds", gauge, "Descriptors that the server may have open.", limit)
        yield single("process_open_fds", gauge, "Descriptors that it has open.", _open_descriptors())
        yield single("process_resident_memory_bytes", gauge, "Memory that the server has.", _resident_bytes())


def _open_descriptors() -> int:
    # One of them is the descriptor that reads the directory.
    return len(os.listdir("/proc/self/fd")) - 1


def _resident_bytes() -> int:
    """Return the second number of /proc/self/statm, a count of pages (proc(5)), in bytes."""
    with open("/proc/self/statm", "rb") as file:
        pages = file.read().split()[1]
    return int(pages) * resource.getpagesize()
