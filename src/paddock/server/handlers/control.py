"""`control/*`: shows operators all sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from math import isinf
from typing import Any, Final

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
from paddock.protocol.envelope import begin_list
from paddock.protocol.long_list import LongList
from paddock.protocol.structure import Empty, NoParams
from paddock.rpc.questions import Question
from paddock.server.connection import ClientConnection, HandlerTable
from paddock.server.dispatch import Encoded
from paddock.server.long_answer import AT_ONCE, answer_in_steps
from paddock.server.session import Session

TOLD_BYTES: Final = 8 * 1024 * 1024
"""The most parameters of open questions in one answer: enough for eight sessions at their limit."""


def status(connection: ClientConnection, call: Call[NoParams]) -> StatusResult | Coroutine[Any, Any, Encoded]:
    """Return the server, its sessions and their processes.

    Leave out the asker's own session while it is empty.
    """
    own = connection.session
    sessions = {
        session: [process for process in session.processes if process.status is not Status.STARTING]
        for session in connection.services.sessions.sessions
        if session is not own or session.processes
    }
    server = connection.services.describe_server()
    processes = sum(map(len, sessions.values()))
    if processes <= AT_ONCE:
        described = [
            _describe_session(session, list(map(_describe_process, processes)))
            for session, processes in sessions.items()
        ]
        return StatusResult(server=server, sessions=described)
    answer = begin_list(call.id, StatusResult(server=server, sessions=[]))
    return answer_in_steps(connection, answer, _written(answer, sessions), processes)


def _written(answer: LongList, sessions: dict[Session, list[ManagedProcess]]) -> Iterator[None]:
    """Write a process in each step."""
    for session, processes in sessions.items():
        answer.begin(_describe_session(session, []))
        for process in processes:
            answer.add(_describe_process(process))
            yield
        answer.end()


def _describe_session(session: Session, processes: list[ProcessStatus]) -> SessionStatus:
    return SessionStatus(
        session_id=session.id,
        client_name=session.client_name,
        attached=session.is_attached,
        processes=processes,
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
