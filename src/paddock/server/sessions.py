"""All sessions of a server, by id."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from typing import TYPE_CHECKING

from paddock.config import Settings
from paddock.errors import UnknownQuestion, UnknownSession
from paddock.process.managed import ManagedProcess
from paddock.process.wake_turns import WakeTurns
from paddock.server.metrics import Metrics
from paddock.server.outbox import Outbox
from paddock.server.record import SessionRecord
from paddock.server.session import REMEMBERED_CLOSED, Session

if TYPE_CHECKING:
    from paddock.audit.writer import Audit


class SessionRegistry:
    """Opens and resumes sessions; forgets them when they end."""

    def __init__(self, settings: Settings, metrics: Metrics, audit: Audit | None = None) -> None:
        self.metrics = metrics
        self.audit = audit
        self._settings = settings
        self._sessions: dict[str, Session] = {}
        self._memories: dict[str, Session] = {}
        self._wake_turns = WakeTurns()

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def attached(self) -> int:
        """Return how many sessions a connection holds."""
        return sum(session.is_attached for session in self._sessions.values())

    @property
    def live(self) -> int:
        """Return how many processes are not closed."""
        return sum(session.live for session in self._sessions.values())

    @property
    def open_questions(self) -> int:
        """Return how many questions wait for an answer."""
        return sum(len(session.questions.table) for session in self._sessions.values())

    @property
    def processes(self) -> list[ManagedProcess]:
        """Return every process that any session still knows."""
        return [process for session in self._sessions.values() for process in session.processes]

    @property
    def sessions(self) -> list[Session]:
        """Return every session, oldest first."""
        return list(self._sessions.values())

    def get(self, session_id: str) -> Session:
        """Return the session of this id, attached or not. Raises UnknownSession."""
        session = self._sessions.get(session_id)
        if session is None:
            raise UnknownSession(session_id)
        return session

    def visit(self, session_id: str) -> Session:
        """Return the session of this id as `get` does, and note that an operator came."""
        session = self.get(session_id)
        session.is_visited = True
        return session

    def with_question(self, question_id: str) -> Session:
        """Return the session that an open question belongs to. Raises UnknownQuestion."""
        for session in self._sessions.values():
            if session.questions.table.find(question_id) is not None:
                return session
        raise UnknownQuestion(question_id)

    def open(self, outbox: Outbox, *, client_name: str = "", ttl_s: float | None = None) -> Session:
        """Open a new session, attached.

        It waits for its client as long as the settings say, or for `ttl_s`.
        """
        self._make_room()
        ttl_s = self._settings.session_ttl_s if ttl_s is None else ttl_s
        session_id = str(uuid.uuid4())
        record = SessionRecord(session_id, self.metrics, self.audit)
        session = Session(
            session_id, self._settings, self._forget, self._remember, ttl_s, record, self._wake_turns
        )
        session.client_name = client_name
        session.attach(outbox)
        self._sessions[session.id] = session
        return session

    def resume(self, session_id: str, outbox: Outbox, *, client_name: str = "") -> Session:
        """Attach to a detached session. Raises UnknownSession or SessionAttached."""
        session = self._sessions.get(session_id)
        if session is None or not session.is_resumable:
            raise UnknownSession(session_id)
        session.attach(outbox)
        session.client_name = client_name
        self._memories.pop(session_id, None)
        return session

    def lose_processes(self, reason: str) -> None:
        """Fail every process: the spawner has ended, and no more exit statuses will arrive."""
        for process in self.processes:
            process.lose(reason)

    async def end_all(self, grace_s: float) -> None:
        """Send TERM to every process, give it time to end, and KILL the rest. Return when all is over."""
        ending = self.sessions
        for session in ending:
            session.terminate()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                for session in ending:
                    await session.emptied()
        async with asyncio.TaskGroup() as closings:
            for session in self.sessions:
                closings.create_task(session.aclose())
        self._sessions.clear()

    def _make_room(self) -> None:
        """Let no more sessions wait for their clients than clients may be connected.

        The oldest that runs nothing ends, so that whoever comes and goes ends no work of others.
        """
        limit = self._settings.max_connections
        if len(self._sessions) < limit:
            return
        waiting = [session for session in self._sessions.values() if session.is_waiting]
        if len(waiting) >= limit:
            next((session for session in waiting if not session.live), waiting[0]).expire()

    def _forget(self, session: Session) -> None:
        self._sessions.pop(session.id, None)
        self._memories.pop(session.id, None)

    def _remember(self, session: Session) -> None:
        """Keep a session that is over, for its output. All of these together hold no more than one may."""
        self._memories[session.id] = session
        held_bytes = sum(memory.closed_bytes for memory in self._memories.values())
        for memory in list(self._memories.values()):
            is_over_bound = held_bytes > self._settings.closed_output_bytes_per_session
            if not is_over_bound and len(self._memories) <= REMEMBERED_CLOSED:
                break
            held_bytes -= memory.closed_bytes
            memory.forget()
