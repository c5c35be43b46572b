"""`control/*`: what a server tells its operator.

Offered on the server's control socket only. The process methods take a `sessionId`
there, which reaches the processes of every session.
"""

from __future__ import annotations

from paddock.protocol.structure import Result


class ServerStatus(Result, frozen=True, kw_only=True):
    """The server itself. `url` is where its clients connect."""

    pid: int
    """Its process id."""
    url: str
    """Where its clients connect."""
    version: str
    uptime_ms: int
    """For how long it runs."""


class ProcessStatus(Result, frozen=True, kw_only=True):
    """One process. `failure` says why its end is not known, if it isn't; `rows` and `cols` are its window's.

    `pid` may be somebody else's after its end. `next_seq` is the number of its next event: what is
    retained now is numbered below it.
    """

    process_id: str
    pid: int
    """Its process id; 0 before the start."""
    argv: list[str]
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
    """What its client calls itself."""
    attached: bool
    """Whether a client holds it."""
    processes: list[ProcessStatus]
    """Oldest first; closed ones only for a while."""


class StatusResult(Result, frozen=True, kw_only=True):
    """The server and all of its sessions, oldest first; the asker's own only if it has processes."""

    server: ServerStatus
    sessions: list[SessionStatus]
    """Oldest first, the operator's own included."""
