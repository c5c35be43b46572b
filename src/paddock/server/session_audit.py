"""Writes what happens to one session into the audit log.

Only a server with an audit log loads this module; `record` decides what is worth an event.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import TYPE_CHECKING

from paddock.audit.event import (
    Confinement,
    Denial,
    Event,
    Execution,
    Exit,
    Lost,
    NetworkDecision,
    SessionOpened,
    Signal,
    Start,
    StartFailed,
)

if TYPE_CHECKING:
    from paddock.audit.writer import Audit
    from paddock.model.endpoint import Endpoint
    from paddock.model.execution_note import ExecutionNote
    from paddock.network.policy import Ruling
    from paddock.process.description import Description
    from paddock.process.launch import LaunchSpec
    from paddock.process.managed import ManagedProcess
    from paddock.protocol.envelope import RequestId
    from paddock.server.record import Client


class SessionAudit:
    """The events of one session. What is called `commit` returns when they are written.

    The other events wait in a queue; a caller that can be made to record at will waits for `drain`.
    """

    __slots__ = ("_audit", "_large_event", "_session")

    def __init__(self, audit: Audit, session: str) -> None:
        self._audit = audit
        self._session = session
        self._large_event = asyncio.Lock()

    @property
    def has_room(self) -> bool:
        """Return whether the disk keeps up with the events."""
        return self._audit.has_room

    async def drain(self) -> None:
        """Wait until the log has caught up."""
        await self._audit.drain()

    def attached(self, client: Client, *, is_resumed: bool) -> None:
        """Record that a client has begun the session, or has come back to it."""
        self._audit.record(
            SessionOpened(
                session=self._session,
                connection=client.connection,
                client=client.name,
                peer=client.peer,
                operator=client.is_operator,
                resumed=is_resumed,
            )
        )

    async def commit_start(
        self,
        description: Description,
        spec: LaunchSpec,
        connection: int,
        request: RequestId,
        sandbox: Confinement | None,
    ) -> None:
        """Record a program that is to start. Raises AuditUnwritable."""
        await self._commit(
            Start(
                session=self._session,
                connection=connection,
                request=request,
                process=description.process_id,
                argv=tuple(description.argv),
                arg0=spec.argv[0] if spec.argv[0] != description.argv[0] else None,
                cwd=spec.cwd,
                env=spec.env,
                terminal=description.is_terminal,
                sandbox=sandbox,
            )
        )

    def not_started(self, process_id: str, reason: str, connection: int, request: RequestId) -> None:
        """Record that a start has failed."""
        self._audit.record(
            StartFailed(
                session=self._session,
                connection=connection,
                request=request,
                process=process_id,
                reason=reason,
            )
        )

    def signalled(self, process_id: str, signal: str, connection: int, request: RequestId) -> None:
        """Record that a client has sent a signal."""
        self._audit.record(
            Signal(
                session=self._session,
                connection=connection,
                request=request,
                process=process_id,
                signal=signal,
            )
        )

    async def commit_execution(self, process_id: str, note: ExecutionNote) -> None:
        """Record the verdict on a program. Raises AuditUnwritable."""
        await self._commit(
            Execution(
                session=self._session,
                process=process_id,
                exec_id=note.exec_id,
                program=note.program,
                argv=note.argv,
                cwd=note.cwd,
                verdict=note.verdict.value,
                reason=note.reason,
                rule=None if note.origin is None else str(note.origin),
                justification=note.justification,
                not_escalated=note.not_escalated,
            )
        )

    async def commit_host(self, process_id: str, endpoint: Endpoint, ruling: Ruling) -> None:
        """Record a policy's decision on a host. Raises AuditUnwritable."""
        await self._commit(
            NetworkDecision(
                session=self._session,
                process=process_id,
                host=endpoint.host,
                port=endpoint.port,
                protocol=endpoint.protocol,
                decision="allow" if ruling.is_allowed else "forbidden",
                rule=ruling.rule,
                reason=ruling.message or ruling.reason,
            )
        )

    def exited(self, process: ManagedProcess) -> None:
        """Record what a process was denied, and its end."""
        assert process.exit_code is not None
        process_id = process.description.process_id
        for denial in process.judgement.denials:
            self._audit.record(
                Denial(
                    session=self._session,
                    process=process_id,
                    operation=denial.kind,
                    subject=denial.target,
                    reason=denial.rule,
                    certain=denial.is_certain,
                )
            )
        self._audit.record(
            Exit(
                session=self._session,
                process=process_id,
                pid=process.pid,
                exit_code=process.exit_code,
                signal=process.death_signal,
                cause=process.cause,
                sandbox_denied=process.judgement.is_denied,
            )
        )

    def lost(self, process: ManagedProcess) -> None:
        """Record that the fate of a process will never be known."""
        self._audit.record(
            Lost(
                session=self._session,
                process=process.description.process_id,
                reason=process.failure or "",
            )
        )

    async def _commit(self, event: Event) -> None:
        """Write an event. Of those that take long, a session has one written at a time."""
        async with self._large_event if self._audit.is_slow_with(event) else nullcontext():
            await self._audit.commit(event)
