"""Records a session and its processes in the counters, the log and the audit log, side by side.

Whole session ids and arguments stay out of ordinary logs: the id lets its reader take the
session over, and arguments hold secrets more often than they should. So an event has the
beginning of the session id, the program's name and the number of its arguments; only the
level `debug` shows them all. Environments, input and output are never logged. The audit log has
arguments and environments, without what looks secret by its name.
"""

from __future__ import annotations

import logging
import os.path
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from paddock.errors import (
    AnswerFailed,
    AuditUnwritable,
    QuestionError,
    QuestionTimedOut,
    QuestionWithdrawn,
)
from paddock.journal import Journal
from paddock.server.metrics import Ending, Metrics, QuestionOutcome

if TYPE_CHECKING:
    from paddock.audit.event import Confinement
    from paddock.audit.writer import Audit
    from paddock.model.endpoint import Endpoint
    from paddock.model.execution_note import ExecutionNote
    from paddock.network.policy import Ruling
    from paddock.process.description import Description
    from paddock.process.launch import LaunchSpec
    from paddock.process.managed import ManagedProcess
    from paddock.process.output_log import Chunk, Gap
    from paddock.protocol.envelope import RequestId
    from paddock.rpc.questions import Question
    from paddock.server.session_audit import SessionAudit

T = TypeVar("T")

SHOWN_ID_CHARS = 8
"""How much of a session id is logged: 32 of its 122 random bits tell sessions apart and open none."""

_OUTCOMES: dict[type[QuestionError], QuestionOutcome] = {
    AnswerFailed: QuestionOutcome.FAILED,
    QuestionTimedOut: QuestionOutcome.TIMED_OUT,
    QuestionWithdrawn: QuestionOutcome.WITHDRAWN,
}


class Client(Struct, frozen=True):
    """The client that holds a session: the number of its connection, and its peer."""

    connection: int
    name: str
    peer: str
    is_operator: bool


class SessionRecord:
    """Records what happens to one session in the counters, the log and the audit log, if there is one."""

    __slots__ = ("_audit", "_journal", "_metrics", "_output_bytes")

    def __init__(self, session_id: str, metrics: Metrics, audit: Audit | None = None) -> None:
        session = shown_id(session_id)
        self._audit = None if audit is None else _session_audit(audit, session)
        self._journal = Journal(logging.getLogger(__name__), session=session)
        self._metrics = metrics
        self._output_bytes = metrics.output_bytes

    # --- the session --------------------------------------------------------

    def opened(self, client: Client) -> None:
        """Record that a client has begun the session."""
        self._metrics.sessions_opened += 1
        self._journal.info("session opened", connection=client.connection, client=client.name)
        if self._audit is not None:
            self._audit.attached(client, is_resumed=False)

    def resumed(self, client: Client) -> None:
        """Record that a client has come back to the session."""
        self._metrics.sessions_resumed += 1
        self._journal.info("session resumed", connection=client.connection, client=client.name)
        if self._audit is not None:
            self._audit.attached(client, is_resumed=True)

    def detached(self, ttl_s: float, processes: int) -> None:
        """Record that the session's connection is lost."""
        self._journal.info("session detached", ttl_s=ttl_s, processes=processes)

    def expired(self, processes: int) -> None:
        """Record that nobody has come back in time."""
        self._metrics.sessions_expired += 1
        self._journal.info("session expired", processes=processes)

    def ended(self) -> None:
        """Record that nothing is left of the session."""
        self._journal.info("session ended")

    # --- its processes ------------------------------------------------------

    @property
    def is_audited(self) -> bool:
        """Return whether there is an audit log, which wants to know more of a start."""
        return self._audit is not None

    async def starting(
        self,
        description: Description,
        spec: LaunchSpec,
        connection: int,
        request: RequestId,
        sandbox: Confinement | None = None,
    ) -> None:
        """Record a program before it starts; it may start when this has returned. Raises AuditUnwritable."""
        if self._audit is not None:
            await self._audit.commit_start(description, spec, connection, request, sandbox)

    def started(
        self, process: ManagedProcess, duration_s: float, connection: int, request: RequestId
    ) -> None:
        """Record that a start has succeeded, and how long it took."""
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
            arguments=description.arguments,
            terminal=description.is_terminal,
            duration_s=duration_s,
        )
        if self._journal.is_debugging:
            argv = tuple(description.argv)
            self._journal.debug("process arguments", process=description.process_id, argv=argv)

    def not_started(
        self, description: Description, error: BaseException, connection: int, request: RequestId
    ) -> None:
        """Record that a start has failed."""
        reason = str(error) or "the server ended"
        # The audit log has no entry for a start that could not be recorded. Otherwise a client could make any
        # number of entries wait.
        if self._audit is not None and not isinstance(error, AuditUnwritable):
            self._audit.not_started(description.process_id, reason, connection, request)
        self._metrics.start_failures += 1
        self._journal.info(
            "process failed",
            connection=connection,
            request=request,
            process=description.process_id,
            program=_program(description),
            reason=reason,
        )

    def signalled(self, process: ManagedProcess, signal: str, connection: int, request: RequestId) -> None:
        """Record that a client has sent a signal.

        A caller that can be made to do this at will then waits for `drain`.
        """
        if self._audit is not None:
            self._audit.signalled(process.description.process_id, signal, connection, request)

    def executes(self, process_id: str, note: ExecutionNote) -> None:
        """Record that a rule or an answer has decided on a program."""
        self._journal.info(
            "execution decided",
            process=process_id,
            program=os.path.basename(note.program),
            verdict=note.verdict,
            rule=None if note.origin is None else str(note.origin),
        )

    async def commit_execution(self, process_id: str, note: ExecutionNote) -> None:
        """Write a verdict to the audit log; it may be carried out when this has returned.

        Raises AuditUnwritable.
        """
        if self._audit is not None:
            await self._audit.commit_execution(process_id, note)

    async def reaches(self, process_id: str, endpoint: Endpoint, ruling: Ruling) -> None:
        """Record a policy's decision on a host, which may be reached once this returns. Raises
        AuditUnwritable."""
        # A command can ask for hosts as fast as it likes, and would fill the server's log with them.
        self._journal.debug(
            "host decided",
            process=process_id,
            host=endpoint.host,
            port=endpoint.port,
            protocol=endpoint.protocol,
            decision=ruling.decision,
            rule=ruling.rule,
        )
        if self._audit is not None:
            await self._audit.commit_host(process_id, endpoint, ruling)

    def output(self, chunk: Chunk) -> None:
        """Count output that was read. Do no more: this is on the path of every chunk."""
        self._output_bytes[chunk.stream] += len(chunk.data)

    def exited(self, process: ManagedProcess) -> None:
        """Record the end of the process itself."""
        signal = process.death_signal
        if signal is not None:
            self._metrics.endings[Ending.SIGNAL] += 1
        else:
            self._metrics.endings[Ending.FAILURE if process.exit_code else Ending.SUCCESS] += 1
        self._journal.info(
            "process exited",
            process=process.description.process_id,
            exit_code=process.exit_code,
            signal=signal,
            cause=process.cause,
            sandbox_denied=process.judgement.is_denied or None,
        )
        if self._audit is not None:
            self._audit.exited(process)

    def closed(self, process: ManagedProcess) -> None:
        """Record that no further output can come."""
        self._metrics.dropped_bytes += process.log.dropped_bytes
        self._journal.info(
            "process closed",
            process=process.description.process_id,
            output_bytes=process.log.total_bytes,
            dropped_bytes=process.log.dropped_bytes,
        )

    def lost(self, process: ManagedProcess) -> None:
        """Record that the fate of a process will never be known."""
        self._metrics.endings[Ending.LOST] += 1
        self._metrics.dropped_bytes += process.log.dropped_bytes
        process_id = process.description.process_id
        self._journal.warning("process lost", process=process_id, reason=process.failure)
        if self._audit is not None:
            self._audit.lost(process)

    def gap(self, process: ManagedProcess, gap: Gap) -> None:
        """Record that a reader was told that output is missing."""
        self._metrics.gaps += 1
        self._metrics.gap_bytes += gap.size_bytes
        self._journal.info(
            "output gap",
            process=process.description.process_id,
            from_seq=gap.from_seq,
            to_seq=gap.to_seq,
            dropped_bytes=gap.size_bytes,
        )

    # --- its questions ------------------------------------------------------

    def asked(self, question: Question, timeout_s: float | None) -> None:
        """Record that somebody is to answer a question."""
        self._journal.info(
            "question asked",
            question=question.id,
            method=question.method,
            process=question.process_id,
            timeout_s=timeout_s,
        )

    def answered(self, question: Question, by: QuestionOutcome, waited_s: float) -> None:
        """Record that a question has its answer."""
        self._metrics.questions[by] += 1
        self._journal.info(
            "question answered",
            question=question.id,
            method=question.method,
            process=question.process_id,
            by=by,
            waited_s=waited_s,
        )

    def unanswered(self, question: Question, error: QuestionError, waited_s: float) -> None:
        """Record that a question is closed without an answer."""
        self._metrics.questions[_OUTCOMES[type(error)]] += 1
        self._journal.info(
            "question not answered",
            question=question.id,
            method=question.method,
            process=question.process_id,
            reason=str(error),
            waited_s=waited_s,
        )

    # --- the audit log ------------------------------------------------------

    def paced(self, result: T) -> T | Coroutine[Any, Any, T]:
        """Return an answer at once or after `drain`: a client may ask faster than a disk can write."""
        return result if self._audit is None or self._audit.has_room else self._later(result)

    async def _later(self, result: T) -> T:
        await self.drain()
        return result

    async def drain(self) -> None:
        """Wait until the audit log has caught up."""
        if self._audit is not None:
            await self._audit.drain()


def _session_audit(audit: Audit, session: str) -> SessionAudit:
    # Few servers have an audit log, and it takes a while to load what it holds.
    from paddock.server.session_audit import SessionAudit

    return SessionAudit(audit, session)


def shown_id(session_id: str) -> str:
    """Return as much of a session id as may be logged."""
    return session_id[:SHOWN_ID_CHARS]


def _program(description: Description) -> str:
    return os.path.basename(description.argv[0])
