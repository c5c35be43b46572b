"""`control/*`: the methods for a server's operator.

Offered on the server's control socket only. The process methods take a `sessionId`
there, which reaches the processes of every session.
"""

from __future__ import annotations

from typing import Any

from paddock.protocol.bound import Name
from paddock.protocol.structure import Params, Result


class ServerStatus(Result, frozen=True, kw_only=True):
    """The server itself. `url` is where its clients connect."""

    pid: int
    """Its process id."""
    url: str
    """Where its clients connect."""
    version: str
    uptime_ms: int
    """How long it has been running."""


class ProcessStatus(Result, frozen=True, kw_only=True):
    """One process. `failure` says why its end is not known, if it isn't; `rows` and `cols` are its window's.

    After its end, another process may have its `pid`. `next_seq` is the number of its next event: all
    retained output has lower numbers.
    """

    process_id: str
    pid: int
    """Its process id; 0 before the start."""
    argv: list[str]
    """The program and its arguments; long ones are cut, and many end with how many more there are."""
    cwd: str
    tty: bool
    rows: int | None
    cols: int | None
    running: bool
    survivors: bool
    """Whether it has exited and others of its process group live on."""
    exit_code: int | None
    failure: str | None
    """Why its end is not known, if it isn't."""
    started_at_ms: int
    keep_alive: bool
    """Whether it outlives its session."""
    output_bytes: int
    """How much it has written."""
    next_seq: int
    """The number of its next event."""


class SessionStatus(Result, frozen=True, kw_only=True):
    """One session with its processes, oldest first; closed ones only for a while."""

    session_id: str
    client_name: str
    """The name that its client chose."""
    attached: bool
    """Whether a client holds it."""
    processes: list[ProcessStatus]
    """Oldest first; closed ones only for a while."""


class StatusResult(Result, frozen=True, kw_only=True):
    """The server and all of its sessions, oldest first; the asker's own only if it has processes."""

    server: ServerStatus
    sessions: list[SessionStatus]
    """Oldest first, the operator's own included."""


class OpenQuestion(Result, frozen=True, kw_only=True):
    """A request of the server that waits for an answer."""

    question_id: str
    """The question, for `control/answer`."""
    session_id: str
    """The session that it belongs to."""
    client_name: str
    """The name that the client of the session chose."""
    process_id: str | None
    """The process that waits for the answer, if any."""
    method: str
    """The name of the request."""
    params: dict[str, Any]
    """The parameters of the request."""
    sent: bool
    """Whether the server has sent it to a client that is connected now."""
    waited_ms: int
    """How long the question has been open."""
    time_left_ms: int | None
    """Time until it expires; null if it never does."""


class QuestionsResult(Result, frozen=True, kw_only=True):
    """The open questions of all sessions, session by session, oldest first."""

    questions: list[OpenQuestion]
    """Session by session, oldest first."""
    omitted: int
    """Number of further questions that did not fit in the answer."""


class AnswerParams(Params, frozen=True, kw_only=True):
    """Answer a question in place of its client. The first answer counts; a later one is an error."""

    question_id: Name
    """The question to answer."""
    result: Any
    """The result, as the client would give it."""
