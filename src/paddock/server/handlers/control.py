"""`control/*`: shows operators all sessions."""

from __future__ import annotations

import asyncio
from math import isinf
from typing import Final

from msgspec import json

from paddock.process.managed import ManagedProcess, Status
from paddock.protocol.call import Call
from paddock.protocol.control import (
    AnswerParams,
    OpenQuestion,
    ProcessStatus,
    QuestionsResult,
    SessionStatus,
    StatusResult,
)
from paddock.protocol.structure import Empty, NoParams
from paddock.rpc.questions import Question
from paddock.server.connection import ClientConnection, HandlerTable
from paddock.server.session import Session

TOLD_BYTES: Final = 8 * 1024 * 1024
"""The most parameters of open questions in one answer: enough for eight sessions at their limit."""


def status(connection: ClientConnection, _: Call[NoParams]) -> StatusResult:
    """Return the server, its sessions and their processes.

    Leave out the asker's own session while it is empty.
    """
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


def questions(connection: ClientConnection, _: Call[NoParams]) -> QuestionsResult:
    """Return the questions of all sessions that wait for an answer."""
    now_s = asyncio.get_running_loop().time()
    told: list[OpenQuestion] = []
    size_bytes = omitted = 0
    for session in connection.services.sessions.sessions:
        for question in session.questions:
            size_bytes += question.size_bytes
            if size_bytes > TOLD_BYTES:
                omitted += 1
            else:
                told.append(_describe_question(session, question, now_s))
    return QuestionsResult(questions=told, omitted=omitted)


def _describe_question(session: Session, question: Question, now_s: float) -> OpenQuestion:
    left_s = question.due_at_s - now_s
    return OpenQuestion(
        question_id=question.id,
        session_id=session.id,
        client_name=session.client_name,
        process_id=question.process_id,
        method=question.method,
        params=json.decode(question.params),
        sent=question.request_id is not None,
        waited_ms=int((now_s - question.asked_at_s) * 1000),
        time_left_ms=None if isinf(left_s) else max(0, int(left_s * 1000)),
    )


def answer(connection: ClientConnection, call: Call[AnswerParams]) -> Empty:
    """Answer a question in place of its client."""
    params = call.params
    connection.services.sessions.with_question(params.question_id).questions.answer(
        params.question_id, params.result
    )
    return Empty()


HANDLERS: HandlerTable = {
    "control/status": status,
    "control/questions": questions,
    "control/answer": answer,
}
