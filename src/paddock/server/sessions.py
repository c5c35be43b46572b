"""All sessions of a server, by id."""

from __future__ import annotations

import asyncio
import uuid

from paddock.config import Settings
from paddock.errors import UnknownSession
from paddock.process.managed import ManagedProcess
from paddock.server.session import Outbox, Session


class SessionRegistry:
    """Opens and resumes sessions; forgets them when they end."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._sessions: dict[str, Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def processes(self) -> list[ManagedProcess]:
        """Every process that any session still knows."""
        return [process for session in self._sessions.values() for process in session.processes]

    def open(self, outbox: Outbox) -> Session:
        """A new session, attached."""
        session = Session(str(uuid.uuid4()), self._settings, self._forget)
        session.attach(outbox)
        self._sessions[session.id] = session
        return session

    def resume(self, session_id: str, outbox: Outbox) -> Session:
        """Attach to a detached session. Raises UnknownSession or SessionAttached."""
        session = self._sessions.get(session_id)
        if session is None or not session.is_resumable:
            raise UnknownSession(session_id)
        session.attach(outbox)
        return session

    def lose_processes(self, reason: str) -> None:
        """The spawner is gone: no exit status will come any more."""
        for process in self.processes:
            process.lose(reason)

    async def end_all(self, grace_s: float) -> None:
        """TERM to every process, time to end, KILL to the rest. Returns when all is over."""
        running = [process for process in self.processes if not process.is_closed]
        for session in list(self._sessions.values()):
            session.terminate()
        if running:
            waits = [asyncio.ensure_future(_closed(process)) for process in running]
            await asyncio.wait(waits, timeout=grace_s)
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
        for session in list(self._sessions.values()):
            await session.aclose()
        self._sessions.clear()

    def _forget(self, session: Session) -> None:
        self._sessions.pop(session.id, None)


async def _closed(process: ManagedProcess) -> None:
    while not process.is_closed:
        await process.changed()
