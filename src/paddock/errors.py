"""Every exception that Paddock raises on purpose.

    PaddockError
    ├── ConfigError                 a setting has an unknown name or a bad value
    ├── ProtocolError               the other side broke the protocol
    │   ├── MalformedMessage        one message could not be read; the connection goes on
    │   └── ProtocolViolation       the connection must be dropped
    ├── RequestError                a request was understood and refused, or failed
    │   ├── InvalidRequest          the caller's mistake, or the wrong moment
    │   │   ├── UnknownProcess
    │   │   ├── ProcessExists
    │   │   ├── TooManyProcesses
    │   │   ├── TooManyWaits
    │   │   ├── StdinClosed
    │   │   ├── StdinFull
    │   │   ├── NotATerminal
    │   │   ├── ExecForbidden
    │   │   ├── SandboxRequired
    │   │   ├── ProfileRefused      a profile that can't be enforced on the files as they are
    │   │   ├── ProfileExceeded     more was asked for than the server grants to anybody
    │   │   ├── UnknownSession
    │   │   └── ForeignSession
    │   ├── MethodNotFound          this server does not have the method
    │   │   └── CapabilityMissing   the server told that it lacks what a call needs; nothing was sent
    │   ├── InvalidParams           the parameters do not fit the method
    │   │   ├── InvalidProfile      a sandbox profile that can't be read or means nothing
    │   │   └── SandboxUnenforceable   the sandbox that was asked for can't be had on this host
    │   │       └── SandboxNotMade  it failed while it was made; another attempt may succeed
    │   ├── NotFound                the named thing does not exist
    │   ├── SessionAttached         another connection holds the session
    │   └── OperationFailed         the operating system, or the server itself, failed
    │       ├── FetchFailed         an HTTP request that was made for a client did not get its answer
    │       ├── AuditUnwritable     a start can't be recorded, and so was not carried out
    │       ├── SpawnError          the program could not be started
    │       ├── SpawnerLost         the helper that starts programs is gone
    │       └── SandboxUnavailable  the host lacks a mechanism that the profile needs
    ├── CommandError                a command that a client ran, not the request for it
    │   ├── CommandFailed           it ended with another status than 0, and the caller wanted 0
    │   ├── RunTimeout              it took longer than the caller allowed, and was killed
    │   ├── OutputOverrun           its output was dropped, because too much of it was left unread
    │   ├── OutputGap               the server dropped some of its output while the client was away
    │   └── ProcessLost             what became of it will never be known
    ├── LocalFileError              a file of this host, and not of the server's
    ├── AuditLogError               an audit log can't be opened or read
    ├── RulesError                  rules about commands
    │   ├── InvalidRule             a call in a file of rules says something that has no meaning
    │   ├── RulesFileError          a file of rules can't be read, or is broken
    │   ├── RulesUnavailable        a library that only rules need is not installed
    │   └── AmendmentRefused        a rule would allow too much to be added without a thought
    ├── SelectionError              what was asked for by name does not exist, or is not the only one
    └── TransportError              the connection itself
        ├── ListenError             the address can't be listened on
        │   └── NoRuntimeDirectory  there is no private directory for its socket
        ├── ConnectError            no connection could be made
        │   └── HandshakeRefused    the server answered the upgrade with an HTTP error
        ├── MessageTooLarge         a message over the limit
        ├── ConnectionLost          the connection ended before the answer came
        │   └── WriteLost           it ended while a file or directory was written
        └── RequestTimeout          no answer within the time the caller gave

The tree below `RequestError` is what crosses the wire: `protocol.codes` maps it
to error codes and names and back, so a caller of the client catches the same classes
that the server raised. A server of the reference protocol tells no more than a code:
its refusals are of the class that stands for the code, such as InvalidRequest or
OperationFailed. Siblings differ by what the caller can do about them.
"""

from __future__ import annotations

import errno as errno_names
import os
import shlex
from collections.abc import Sequence
from typing import ClassVar, Literal


class PaddockError(Exception):
    """Base of everything Paddock raises on purpose."""


class ConfigError(PaddockError):
    """A setting is unknown or has a bad value. Nothing was started."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(key, problem)
        self.key = key
        self.problem = problem

    def __str__(self) -> str:
        return f"setting {self.key!r}: {self.problem}"


class ProtocolError(PaddockError):
    """The other side broke the protocol."""


class MalformedMessage(ProtocolError):
    """One message could not be read as an envelope. The connection stays usable."""


class ProtocolViolation(ProtocolError):
    """A message that ends the connection."""


class RequestError(PaddockError):
    """A request was refused or failed; `str()` is the text for the caller."""


class InvalidRequest(RequestError):
    """The caller's mistake, or a request at the wrong moment."""


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
    """As many requests of the connection wait for something to happen as the server allows."""

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

    def __init__(self, place: str, problem: str, remedy: str) -> None:
        super().__init__(place, problem, remedy)
        self.place = place
        self.problem = problem
        self.remedy = remedy

    def __str__(self) -> str:
        return f"can't confine the command: {self.place} {self.problem}; {self.remedy}"


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
    """The server does not offer what a call needs, by its own account. Nothing was sent."""

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

    def __init__(self, origin: str, problem: str) -> None:
        super().__init__(origin, problem)
        self.origin = origin
        self.problem = problem

    def __str__(self) -> str:
        return f"profile {self.origin}: {self.problem}"


class SandboxUnenforceable(InvalidParams):
    """A request asked for a sandbox that can't be had here. Nothing was started."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"sandbox intent cannot be enforced on this executor: {self.reason}"


class SandboxNotMade(SandboxUnenforceable):
    """A sandbox was planned, and failed while it was made: what it was to be made of may have changed."""


class NotFound(RequestError):
    """The named file or handle does not exist."""


class SessionAttached(RequestError):
    """Another connection holds the session; it is not taken over."""


class OperationFailed(RequestError):
    """The operating system, or the server itself, failed to carry the request out."""


class FetchFailed(OperationFailed):
    """An HTTP request got no answer, or not all of it. Whether it took effect is not known."""


class AuditUnwritable(OperationFailed):
    """The audit log can't be written, and what it could not tell was not done."""

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

    `flaw` is what is wrong with the request, where that is all there is to say.
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
    """The helper that starts programs is missing or has gone. Nothing can be started."""


class SandboxUnavailable(OperationFailed):
    """The host lacks a mechanism that the profile needs. Nothing was started."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem, remedy)
        self.problem = problem
        self.remedy = remedy

    def __str__(self) -> str:
        return f"can't confine the command: {self.problem}; {self.remedy}"


class CommandError(PaddockError):
    """What became of a command that was started as asked."""


class CommandFailed(CommandError):
    """The command ended with a status other than 0. Its whole output is here."""

    def __init__(self, argv: Sequence[str], returncode: int, stdout: bytes, stderr: bytes) -> None:
        super().__init__(argv, returncode, stdout, stderr)
        self.argv = argv
        self.returncode = returncode
        self.stdout = stdout
        self.stderr = stderr

    def __str__(self) -> str:
        return f"command `{shlex.join(self.argv)}` ended with status {self.returncode}"


class RunTimeout(CommandError):
    """The command took longer than allowed and was killed. What it wrote until then is here."""

    def __init__(self, argv: Sequence[str], timeout_s: float, stdout: bytes, stderr: bytes) -> None:
        super().__init__(argv, timeout_s, stdout, stderr)
        self.argv = argv
        self.timeout_s = timeout_s
        self.stdout = stdout
        self.stderr = stderr

    def __str__(self) -> str:
        return f"command `{shlex.join(self.argv)}` did not end within {self.timeout_s} s and was killed"


class OutputOverrun(CommandError):
    """Too much output of a process was left unread, and it was dropped. The process itself is unharmed."""

    def __init__(self, process_id: str, limit_bytes: int) -> None:
        super().__init__(process_id, limit_bytes)
        self.process_id = process_id
        self.limit_bytes = limit_bytes

    def __str__(self) -> str:
        return (
            f"the output of process {self.process_id!r} was dropped: {self.limit_bytes} bytes were unread on "
            "its connection while somebody waited for an answer; read the output sooner"
        )


class LocalFileError(PaddockError):
    """A file of this host could not be read or written during a transfer."""

    def __init__(self, path: str, error: OSError) -> None:
        super().__init__(path, error)
        self.path = path
        self.error = error

    def __str__(self) -> str:
        where = (
            os.fsdecode(self.error.filename) if isinstance(self.error.filename, str | bytes) else self.path
        )
        return f"{where!r} of this host: {self.error.strerror}"


class AuditLogError(PaddockError):
    """An audit log can't be opened or read. Nothing was started."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path = path
        self.problem = problem

    def __str__(self) -> str:
        return f"audit log {self.path}: {self.problem}"


class RulesError(PaddockError):
    """Rules about commands can't be loaded, or changed."""


class InvalidRule(RulesError):
    """A call in a file of rules says something that has no meaning. The text is for the file's author."""


class RulesFileError(RulesError):
    """A file of rules is not in force: it can't be read, or something in it is wrong."""

    def __init__(
        self, path: str, problem: str, place: tuple[int, int] | None, excerpt: str, *, is_unreadable: bool
    ) -> None:
        super().__init__(path, problem, place, excerpt, is_unreadable)
        self.path = path
        self.problem = problem
        self.place = place
        """Line and column, counted from 1; None if the whole file is meant."""
        self.excerpt = excerpt
        self.is_unreadable = is_unreadable

    def __str__(self) -> str:
        failure = "read" if self.is_unreadable else "parse"
        place = f", line {self.place[0]}, column {self.place[1]}" if self.place is not None else ""
        sentence = f"failed to {failure} policy at {self.path}{place}: {self.problem}"
        return f"{sentence}\n{self.excerpt}" if self.excerpt else sentence


class RulesUnavailable(RulesError):
    """A library that only rules need is not installed."""

    def __init__(self, purpose: str, library: str) -> None:
        super().__init__(purpose, library)
        self.purpose = purpose
        self.library = library

    def __str__(self) -> str:
        return f"can't {self.purpose} without {self.library}; install paddock-exec[rules]"


class AmendmentRefused(RulesError):
    """The prefix allows too much to be always allowed by a command. The file is as it was."""

    def __init__(self, prefix: Sequence[str], problem: str) -> None:
        super().__init__(prefix, problem)
        self.prefix = prefix
        self.problem = problem

    def __str__(self) -> str:
        return (
            f"`{shlex.join(self.prefix)}` is not added: {self.problem}; name more words of the command, "
            "or write the rule into the file yourself"
        )


class SelectionError(PaddockError):
    """A name fits no process or server, or more than one. Nothing was done."""

    def __init__(self, problem: str, candidates: Sequence[str] = ()) -> None:
        super().__init__(problem, candidates)
        self.problem = problem
        self.candidates = candidates

    def __str__(self) -> str:
        return f"{self.problem}: {', '.join(self.candidates)}" if self.candidates else self.problem


class OutputGap(CommandError):
    """Output was missed, and the server no longer had it. Whoever goes on reading gets what came after it.

    `size_bytes` is at most how much that was, None if the server does not tell.
    """

    def __init__(self, process_id: str, from_seq: int, to_seq: int, size_bytes: int | None) -> None:
        super().__init__(process_id, from_seq, to_seq, size_bytes)
        self.process_id = process_id
        self.from_seq = from_seq
        self.to_seq = to_seq
        self.size_bytes = size_bytes

    def __str__(self) -> str:
        size = "some" if self.size_bytes is None else f"{self.size_bytes} bytes of"
        return (
            f"{size} output of process {self.process_id!r} was missed, numbers {self.from_seq} to "
            f"{self.to_seq}: the server keeps a limited amount while nobody reads; go on reading, or let "
            "the server keep more"
        )


class ProcessLost(CommandError):
    """What became of a process will never be known here: its session, or the connection for good, is gone."""

    def __init__(self, process_id: str, reason: str) -> None:
        super().__init__(process_id, reason)
        self.process_id = process_id
        self.reason = reason

    def __str__(self) -> str:
        return f"process {self.process_id!r} is lost: {self.reason}"


class TransportError(PaddockError):
    """The connection itself, not a request on it."""


class ListenError(TransportError):
    """The address can't be listened on."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(address, reason)
        self.address = address
        self.reason = reason

    def __str__(self) -> str:
        return f"can't listen on {self.address}: {self.reason}"


class NoRuntimeDirectory(ListenError):
    """There is no private directory for control sockets and what sandboxes share."""

    def __init__(self, reason: str) -> None:
        super().__init__("a control socket", reason)

    def __str__(self) -> str:
        return f"no private directory of Paddock's can be used: {self.reason}"


class ConnectError(TransportError):
    """No connection could be made."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(address, reason)
        self.address = address
        self.reason = reason

    def __str__(self) -> str:
        return f"can't connect to {self.address}: {self.reason}"


class HandshakeRefused(ConnectError):
    """The server answered the websocket upgrade with an HTTP error.

    `body` is what it said, as it came: it may be a page, or meant to disturb a terminal. The error's
    own text has the beginning of it, in one line of printable characters.
    """

    QUOTED_CHARS: ClassVar = 200
    """More than any server of ours says."""

    def __init__(self, address: str, status: int, body: str) -> None:
        line = "".join(filter(str.isprintable, " ".join(body.split())))
        if len(line) > self.QUOTED_CHARS:
            line = f"{line[: self.QUOTED_CHARS]}…"
        super().__init__(address, f"the server refused with HTTP {status} {line}".rstrip())
        self.status = status
        self.body = body


class MessageTooLarge(TransportError):
    """A message is over the limit; the connection is dropped."""

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(limit_bytes)
        self.limit_bytes = limit_bytes

    def __str__(self) -> str:
        return f"a message exceeds the limit of {self.limit_bytes} bytes"


class ConnectionLost(TransportError):
    """The connection ended before the answer came; whether the request took effect is not known."""


class WriteLost(ConnectionLost):
    """The connection ended while a file or directory was written; `outcome` says what is there now.

    "unchanged" is what was there before, for nothing was put in its place. "incomplete" is a part of the new
    content. "unknown" is either the old or the new content: the last answer did not come.
    """

    def __init__(
        self, path: str, outcome: Literal["unchanged", "incomplete", "unknown"], reason: str
    ) -> None:
        super().__init__(path, outcome, reason)
        self.path = path
        self.outcome = outcome
        self.reason = reason

    def __str__(self) -> str:
        states = {
            "unchanged": f"{self.path!r} was not written, and what was there is unchanged",
            "incomplete": f"{self.path!r} was not written to its end",
            "unknown": f"whether {self.path!r} was written is not known",
        }
        return f"{states[self.outcome]}: {self.reason}; write it again"


class RequestTimeout(TransportError):
    """No answer came within the caller's time; whether the request took effect is not known."""
