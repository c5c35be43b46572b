"""Requests that were refused, or failed. `protocol.codes` carries these errors over the wire."""

from __future__ import annotations

import errno as errno_names
import os

from paddock.errors.base import PaddockError


class RequestError(PaddockError):
    """A request was refused or failed; `str()` is the text for the caller."""

    os_error: tuple[int, str] | None = None
    """The errno and its path, where the operating system refused a file operation."""


class InvalidRequest(RequestError):
    """The caller's mistake, or a request at the wrong moment."""


class InvalidPath(InvalidRequest, ValueError):
    """No path on a server's host can be like this one. Nothing was sent."""


class UnknownProcess(InvalidRequest):
    """No process of this session has that id, or it was forgotten after it closed."""

    def __init__(self, process_id: str) -> None:
        super().__init__(process_id)
        self.process_id = process_id

    def __str__(self) -> str:
        return f"unknown process id {self.process_id!r}: never started here, or forgotten after it closed"


class ProcessExists(InvalidRequest):
    """The process id is taken."""

    def __init__(self, process_id: str) -> None:
        super().__init__(process_id)
        self.process_id = process_id

    def __str__(self) -> str:
        return f"process {self.process_id!r} already exists; choose another processId"


class TooManyProcesses(InvalidRequest):
    """The connection has as many live processes as the server allows."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.limit = limit

    def __str__(self) -> str:
        return (
            f"{self.limit} processes are live on this connection, which is the limit; end one first, "
            "or raise max_processes_per_connection"
        )


class TooManyWaits(InvalidRequest):
    """The connection has as many waiting requests as the server allows."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.limit = limit

    def __str__(self) -> str:
        return (
            f"{self.limit} requests of this connection wait for their processes, which is the limit; "
            "wait for one of their answers first, or raise max_parked_requests"
        )


class StdinClosed(InvalidRequest):
    """The process does not take input (any more)."""

    def __init__(self, process_id: str) -> None:
        super().__init__(process_id)
        self.process_id = process_id

    def __str__(self) -> str:
        return f"stdin of process {self.process_id!r} is closed; start it with an open stdin or a tty"


class StdinFull(InvalidRequest):
    """More input waits for the process than may be queued. Nothing of this write was taken."""

    def __init__(self, process_id: str) -> None:
        super().__init__(process_id)
        self.process_id = process_id

    def __str__(self) -> str:
        return f"process {self.process_id!r} does not read its stdin; wait for the answers to earlier writes"


class NotATerminal(InvalidRequest):
    """A terminal operation on a process that runs on pipes."""

    def __init__(self, process_id: str) -> None:
        super().__init__(process_id)
        self.process_id = process_id

    def __str__(self) -> str:
        return f"process {self.process_id!r} runs on pipes and has no window; to resize, start it with a tty"


class ExecForbidden(InvalidRequest):
    """The server's settings do not allow this kind of start."""

    def __init__(self, kind: str, setting: str) -> None:
        super().__init__(kind, setting)
        self.kind = kind
        self.setting = setting

    def __str__(self) -> str:
        return f"{self.kind} starts are switched off on this server; its setting {self.setting} allows them"


class SandboxRequired(InvalidRequest):
    """The server runs nothing outside a sandbox. Nothing was done."""

    def __init__(self, subject: str, setting: str | None = None) -> None:
        super().__init__(subject, setting)
        self.subject = subject
        self.setting = setting

    def __str__(self) -> str:
        way_out = f"its setting {self.setting} allows it" if self.setting else "ask for a sandbox"
        return f"{self.subject} is refused: this server requires a sandbox (require_sandbox); {way_out}"


class ProfileRefused(InvalidRequest):
    """The profile is understood, but can't be enforced on the files as they are. Nothing was started."""

    def __init__(self, subject: str, problem: str, remedy: str) -> None:
        super().__init__(subject, problem, remedy)
        self.subject = subject
        self.problem = problem
        self.remedy = remedy

    def __str__(self) -> str:
        return f"can't confine the command: {self.subject} {self.problem}; {self.remedy}"


class ProfileExceeded(InvalidRequest):
    """A request asked for more than the server's `max_profile` grants. Nothing was done."""

    def __init__(self, excess: str, profile: str) -> None:
        super().__init__(excess, profile)
        self.excess = excess
        self.profile = profile

    def __str__(self) -> str:
        return (
            f"this server grants no more than its profile {self.profile!r} (max_profile), and this asks for "
            f"{self.excess}; ask for less, or for {self.profile!r} itself"
        )


class UnknownQuestion(InvalidRequest):
    """No open question has that id."""

    def __init__(self, question_id: str) -> None:
        super().__init__(question_id)
        self.question_id = question_id

    def __str__(self) -> str:
        return (
            f"question {self.question_id!r} is not open: it was never asked, or is answered, withdrawn or "
            "timed out"
        )


class UnknownSession(InvalidRequest):
    """The session never existed here or has expired."""

    def __init__(self, session_id: str) -> None:
        super().__init__(session_id)
        self.session_id = session_id

    def __str__(self) -> str:
        return f"unknown session id {self.session_id!r}: never opened here, or expired; start a new session"


class ForeignSession(InvalidRequest):
    """A request about another session, on a connection that has no operator's rights."""

    def __init__(self, session_id: str) -> None:
        super().__init__(session_id)
        self.session_id = session_id

    def __str__(self) -> str:
        return (
            f"session {self.session_id!r} is not the session of this connection; "
            "other sessions are reached over the server's control socket"
        )


class MethodNotFound(RequestError):
    """This server does not have the method."""


class CapabilityMissing(MethodNotFound):
    """The server announced that it lacks a capability that the call needs. Nothing was sent."""

    def __init__(self, purpose: str, capability: str) -> None:
        super().__init__(purpose, capability)
        self.purpose = purpose
        self.capability = capability

    def __str__(self) -> str:
        return f"this server can't {self.purpose}: it lacks the capability {self.capability!r}"


class InvalidParams(RequestError):
    """The parameters do not fit the method."""


class InvalidProfile(InvalidParams):
    """A sandbox profile can't be read, or does not mean anything. Nothing was started."""

    def __init__(self, origin: str, problem: str, key: tuple[str, ...] = ()) -> None:
        super().__init__(origin, problem)
        self.origin = origin
        self.problem = problem
        self.key = key
        """The path of the key at fault in the file, if one is known."""
        self.place: str | None = None
        """The file and the line of that key, as `FILE:LINE`, if the profile is in a file."""

    def __str__(self) -> str:
        text = f"profile {self.origin}: {self.problem}"
        return text if self.place is None else f"{self.place}: {text}"


class SandboxUnenforceable(InvalidParams):
    """A request asked for a sandbox that this host can't enforce. Nothing was started."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"sandbox intent cannot be enforced on this executor: {self.reason}"


class SandboxNotMade(SandboxUnenforceable):
    """Building a planned sandbox failed: the files that the plan rests on may have changed."""


class NotFound(RequestError):
    """The named file or handle does not exist."""


class SessionAttached(RequestError):
    """Another connection holds the session; it is not taken over."""


class OperationFailed(RequestError):
    """The operating system, or the server itself, failed to carry the request out."""


class FetchFailed(OperationFailed):
    """An HTTP request got no answer, or only part of it. It may or may not have taken effect."""


class AuditUnwritable(OperationFailed):
    """The server can't write the audit log, so it did not carry out the action."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"the audit log can't be written: {self.reason}; nothing is started until it can be, unless the "
            "server's setting audit_failure is 'continue'"
        )


class SpawnError(OperationFailed):
    """The program could not be started. Nothing of it is left.

    `flaw` names the fault in the request, if the request alone is to blame.
    """

    def __init__(self, stage: str, errno: int, program: str, cwd: str, flaw: str | None = None) -> None:
        super().__init__(stage, errno, program, cwd, flaw)
        self.stage = stage
        self.errno = errno
        self.program = program
        self.cwd = cwd
        self.flaw = flaw

    def __str__(self) -> str:
        if self.flaw is not None:
            return f"can't start {self.program!r}: {self.flaw}"
        reason = f"{os.strerror(self.errno)} (os error {self.errno})"
        match self.stage:
            case "cwd":
                return f"can't start {self.program!r} in {self.cwd!r}: {reason}"
            case "exec" if self.errno == errno_names.ENOENT and "/" not in self.program:
                return f"can't start {self.program!r}: {reason}; it is not on the PATH of its environment"
            case "exec" | "request":
                return f"can't start {self.program!r}: {reason}"
            case _:
                return f"can't start {self.program!r}, {self.stage}: {reason}"


class SpawnerLost(OperationFailed):
    """The helper that starts programs is missing or has ended. The server can't start anything."""


class SandboxUnavailable(OperationFailed):
    """The host lacks a mechanism that the profile needs. Nothing was started."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem, remedy)
        self.problem = problem
        self.remedy = remedy

    def __str__(self) -> str:
        return f"can't confine the command: {self.problem}; {self.remedy}"
