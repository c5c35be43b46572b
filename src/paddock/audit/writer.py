"""The audit log as a server uses it: the event loop hands in events, and never waits for the disk.

A thread writes the gathered events in one piece (group commit). Callers that must not go on before
an event is written await `commit`; all others call `record`. The callers bound the queue: a start
waits for its record, an exit comes once for each start, and callers that a client can make record
events at will wait for `drain`.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from paddock.audit.event import Event
from paddock.audit.failure_policy import PolicyLog
from paddock.audit.log import AuditLog, Stamped
from paddock.audit.redaction import Redactor, is_large
from paddock.errors import AuditUnwritable
from paddock.journal import Journal
from paddock.model.audit_failure import AuditFailure

journal = Journal(logging.getLogger(__name__))

QUEUE_LIMIT = 1024
"""Number of queued events from which `drain` waits: a few MiB with ordinary command lines."""

BATCH_LIMIT = 256
"""Most events written in one piece."""

RETRY_S = 1.0
"""How often to try an unwritable log again when no event comes."""


class AuditOptions(Struct, frozen=True, kw_only=True):
    """Where and how a log is written."""

    directory: Path
    segment_limit_bytes: int
    is_synced: bool
    failure: AuditFailure
    secret_names: Sequence[str]
    version: str


class Condition(Struct, frozen=True):
    """The condition of a log."""

    last_seq: int = 0
    """The number of the last record."""
    waiting: int = 0
    """Events that are not written yet."""
    lost: int = 0
    """Events given up since the log was opened."""
    is_failing: bool = False


class _Entry(Struct, frozen=True):
    stamped: Stamped
    waiter: asyncio.Future[None] | None


class Audit:
    """An open audit log. Made by `open`; `aclose` writes what is queued and closes it."""

    def __init__(self, policy_log: PolicyLog, policy: AuditFailure) -> None:
        self._policy_log = policy_log
        self._policy = policy
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[_Entry | None] = queue.SimpleQueue()
        self._queued = 0
        self._room = asyncio.Event()
        self._room.set()
        self._waiters: set[asyncio.Future[None]] = set()
        self._failure: str | None = None
        self._broken: str | None = None
        self._ended = self._loop.create_future()
        # A daemon: a program that forgets to close its server must be able to end.
        self._thread = threading.Thread(target=self._work, name="paddock-audit", daemon=True)
        self._thread.start()

    @classmethod
    async def open(cls, options: AuditOptions) -> Audit:
        """Open the log and begin to write. Raises AuditLogError."""
        log = await asyncio.to_thread(
            AuditLog.open,
            options.directory,
            segment_limit_bytes=options.segment_limit_bytes,
            is_synced=options.is_synced,
            version=options.version,
        )
        journal.info("audit log opened", path=str(options.directory), last=str(log.last))
        try:
            return cls(PolicyLog(log, Redactor(options.secret_names), options.failure), options.failure)
        except BaseException:
            # No thread could be started: another server must be able to take over the log.
            log.release()
            raise

    # --- telling ------------------------------------------------------------

    def record(self, event: Event) -> None:
        """Record what has happened. Never waits; the log has the events in the order of the calls."""
        self._put(Stamped(time.time_ns(), event), None)

    async def commit(self, event: Event) -> None:
        """Record what is about to happen, and return once it is written. Raises AuditUnwritable.

        Under `AuditFailure.CONTINUE` it also returns if the event could not be written.
        Cancelling the call does not take back what is queued. If the log `is_slow_with` the event, another
        thread redacts it before that, so that only its own caller waits.
        """
        stamped = Stamped(time.time_ns(), event)
        if self.is_slow_with(event):
            stamped = await asyncio.to_thread(self._policy_log.redacted, stamped)
        waiter = self._loop.create_future()
        if self._broken is not None:
            self._answer(waiter, self._broken)
        else:
            self._waiters.add(waiter)
            self._put(stamped, waiter)
        await waiter

    def is_slow_with(self, event: Event) -> bool:
        """Return whether `commit` needs another thread for the event, of which there are few."""
        return is_large(event)

    @property
    def condition(self) -> Condition:
        """Return the condition of the log; costs nothing."""
        policy_log = self._policy_log
        is_failing = self._failure is not None or self._broken is not None
        return Condition(
            policy_log.log.last.seq,
            self._queued + policy_log.kept,
            policy_log.lost_in_all,
            is_failing,
        )

    @property
    def has_room(self) -> bool:
        """Return whether the disk keeps up with the events."""
        return self._room.is_set()

    async def drain(self) -> None:
        """Wait until the disk has caught up, or accepts nothing at all."""
        await self._room.wait()

    async def aclose(self) -> None:
        """Write the queued events, and record that the log is closed. The last call."""
        self._queue.put(None)
        await asyncio.shield(self._ended)

    def _put(self, stamped: Stamped, waiter: asyncio.Future[None] | None) -> None:
        if self._broken is not None:
            return
        self._queued += 1
        if self._queued >= QUEUE_LIMIT:
            self._room.clear()
        self._queue.put(_Entry(stamped, waiter))

    # --- in the thread ------------------------------------------------------

    def _work(self) -> None:
        broken = "it was closed"
        try:
            is_open = True
            while is_open:
                entries, is_open = self._take()
                written = self._policy_log.write([entry.stamped for entry in entries])
                self._loop.call_soon_threadsafe(self._settle, entries, written.count, written.failure)
            self._policy_log.log.close()
        except Exception as error:
            broken = f"its writer failed: {type(error).__name__}"
            journal.error("audit log failed", error=error)
        finally:
            self._policy_log.log.release()
        self._loop.call_soon_threadsafe(self._end, broken)

    def _take(self) -> tuple[list[_Entry], bool]:
        """Wait for the first event. Return the gathered events, and whether more may come."""
        entries: list[_Entry] = []
        try:
            entry = self._queue.get(timeout=RETRY_S if self._policy_log.is_failing else None)
            while entry is not None:
                entries.append(entry)
                if len(entries) >= BATCH_LIMIT:
                    return entries, True
                entry = self._queue.get_nowait()
        except queue.Empty:
            return entries, True
        return entries, False

    # --- back in the loop ---------------------------------------------------

    def _settle(self, entries: Sequence[_Entry], count: int, failure: str | None) -> None:
        self._queued -= len(entries)
        for index, entry in enumerate(entries):
            if entry.waiter is not None:
                self._answer(entry.waiter, failure if index >= count else None)
        if failure is not None and self._failure is None:
            journal.warning("audit log can't be written", reason=failure, policy=self._policy)
        elif failure is None and self._failure is not None:
            journal.warning("audit log can be written again", reason=self._failure)
        self._failure = failure
        if self._queued < QUEUE_LIMIT or failure is not None:
            self._room.set()

    def _answer(self, waiter: asyncio.Future[None], failure: str | None) -> None:
        self._waiters.discard(waiter)
        if waiter.done():
            return
        if failure is None or self._policy is AuditFailure.CONTINUE:
            waiter.set_result(None)
        else:
            waiter.set_exception(AuditUnwritable(failure))

    def _end(self, broken: str) -> None:
        self._broken = broken
        for waiter in list(self._waiters):
            self._answer(waiter, broken)
        self._room.set()
        given_up = self._policy_log.lost + self._policy_log.kept
        if given_up:
            journal.error("audit records lost", count=given_up, reason=self._failure)
        journal.info("audit log closed", last=str(self._policy_log.log.last))
        if not self._ended.done():
            self._ended.set_result(None)
