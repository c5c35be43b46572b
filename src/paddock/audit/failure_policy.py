"""Decides which unwritable events to refuse, which to keep, and which to give up and count.

Works in one thread, which it blocks; `writer` brings the events there.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from msgspec import Struct

from paddock.audit.event import Resumed
from paddock.audit.log import AuditLog, Stamped
from paddock.audit.redaction import Redactor
from paddock.model.audit_failure import AuditFailure


class Written(Struct, frozen=True):
    """Number of events written, in order from the first, and why the rest were not."""

    count: int
    failure: str | None


class PolicyLog:
    """Writes events to a log, without their secrets, and applies a failure policy.

    While it can't write the log, it keeps events that end something for later under
    `AuditFailure.STOP`: there are no more of them than live processes, because nothing starts.
    It counts all others as lost, and records their number once it can write the log again.
    """

    def __init__(self, log: AuditLog, redactor: Redactor, policy: AuditFailure) -> None:
        self.log = log
        self.lost = 0
        """Records given up since the last one was written."""
        self.lost_in_all = 0
        self._redactor = redactor
        self._policy = policy
        self._failure: str | None = None
        self._kept: list[Stamped] = []

    @property
    def is_failing(self) -> bool:
        """Return whether the last attempt failed.

        If so, call `write` from time to time, even without events.
        """
        return self._failure is not None

    @property
    def kept(self) -> int:
        """Return the number of events that wait until the log can be written."""
        return len(self._kept)

    def redacted(self, stamped: Stamped) -> Stamped:
        """Return an event without its secrets. `write` does it too, and others wait for that; any thread
        may do it before."""
        return Stamped(stamped.time_ns, self._redactor.redact(stamped.event), is_redacted=True)

    def write(self, stamped: Sequence[Stamped]) -> Written:
        """Write the kept events, then these. Deals with those that it can't write: never repeat them."""
        redacted = [each if each.is_redacted else self.redacted(each) for each in stamped]
        notice: list[Stamped] = []
        if self._failure is not None:
            resumed = Resumed(reason=self._failure, lost=self.lost)
            notice.append(Stamped(time.time_ns(), resumed))
        waiting = [*self._kept, *redacted]
        kept_before = len(self._kept)
        appended = self.log.append([*notice, *waiting])
        count = max(0, appended.count - len(notice))
        if notice and appended.count:
            self.lost = 0
        self._failure = None if appended.error is None else _text(appended.error)
        self._keep(waiting[count:])
        return Written(max(0, count - kept_before), self._failure)

    def _keep(self, unwritten: Sequence[Stamped]) -> None:
        is_stopped = self._policy is AuditFailure.STOP
        self._kept = [each for each in unwritten if is_stopped and each.event.is_ending]
        given_up = len(unwritten) - len(self._kept)
        self.lost += given_up
        self.lost_in_all += given_up


def _text(error: OSError) -> str:
    return error.strerror or str(error)
