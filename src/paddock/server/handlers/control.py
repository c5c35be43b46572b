"""`control/*`: what operators see of all sessions."""

from __future__ import annotations

from paddock.process.managed import ManagedProcess, Status
from paddock.protocol.call import Call
from paddock.protocol.control import ProcessStatus, SessionStatus, StatusResult
from paddock.protocol.structure import NoParams
from paddock.server.connection import ClientConnection, HandlerTable
from paddock.server.session import Session


def status(connection: ClientConnection, _: Call[NoParams]) -> StatusResult:
    """The server, its sessions and their processes. The asker's own session is no news while it is empty."""
    own = connection.session
    return StatusResult(
        server=connection.services.describe_server(),
        sessions=[
            _describe_session(session)
            for session in connection.services.sessions.sessions
            if session is not own or session.processes
        ],
    )


def _describe_session(session: Session) -> SessionStatus:
    return SessionStatus(
        session_id=session.id,
        client_name=session.client_name,
        attached=session.is_attached,
        processes=[
            _describe_process(process)
            for process in session.processes
            if process.status is not Status.STARTING
        ],
    )


def _describe_process(process: ManagedProcess) -> ProcessStatus:
    description = process.description
    window = process.window
    return ProcessStatus(
        process_id=description.process_id,
        pid=process.pid,
        argv=list(description.argv),
        cwd=description.cwd,
        tty=description.is_terminal,
        rows=window.rows if window is not None else None,
        cols=window.cols if window is not None else None,
        running=process.is_running,
        survivors=process.has_survivors,
        exit_code=process.exit_code,
        failure=process.failure,
        started_at_ms=int(process.started_at_s * 1000),
        keep_alive=description.is_kept_alive,
        output_bytes=process.log.total_bytes,
        next_seq=process.log.next_seq,
    )


HANDLERS: HandlerTable = {"control/status": status}
