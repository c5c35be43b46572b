"""Every exception that Paddock raises on purpose.

    PaddockError
    ├── ConfigError                 a setting has an unknown name or a bad value
    ├── ProtocolError               the other side broke the protocol
    │   ├── MalformedMessage        one message could not be read; the connection goes on
    │   └── ProtocolViolation       the connection must be dropped
    ├── RequestError                a request was understood and refused, or failed
    │   ├── InvalidRequest          the caller's mistake, or the wrong moment
    │   │   ├── InvalidPath         no path on the server's host; also a ValueError. Nothing was sent
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
    │   │   ├── UnknownQuestion     no open question has that id
    │   │   ├── UnknownSession
    │   │   └── ForeignSession
    │   ├── MethodNotFound          this server does not have the method
    │   │   └── CapabilityMissing   the server announced that it lacks what a call needs; nothing was sent
    │   ├── InvalidParams           the parameters do not fit the method
    │   │   ├── InvalidProfile      a sandbox profile that can't be read or means nothing
    │   │   └── SandboxUnenforceable   this host can't enforce the requested sandbox
    │   │       └── SandboxNotMade  building it failed; another attempt may succeed
    │   ├── NotFound                the named thing does not exist
    │   ├── FileError               the operating system refused a file operation; each is also the
    │   │   │                       class of its code, and the builtin OSError of its errno
    │   │   ├── FileMissing         NotFound, FileNotFoundError
    │   │   ├── FileForbidden       InvalidRequest, PermissionError
    │   │   ├── FileUnfit           InvalidRequest
    │   │   ├── FileTaken           OperationFailed, FileExistsError
    │   │   ├── FileNotDirectory    OperationFailed, NotADirectoryError
    │   │   ├── FileIsDirectory     OperationFailed, IsADirectoryError
    │   │   └── FileFailed          OperationFailed
    │   ├── SessionAttached         another connection holds the session
    │   └── OperationFailed         the operating system, or the server itself, failed
    │       ├── FetchFailed         an HTTP request on behalf of a client got no complete answer
    │       ├── AuditUnwritable     the server can't record a start, so it did not carry it out
    │       ├── SpawnError          the program could not be started
    │       ├── SpawnerLost         the helper that starts programs has ended
    │       └── SandboxUnavailable  the host lacks a mechanism that the profile needs
    ├── QuestionError               a question of the server that has no answer
    │   ├── TooManyQuestions        the session is at its limit of open questions; this one was not asked
    │   ├── QuestionTimedOut        nobody answered in time, which is not a refusal
    │   ├── QuestionWithdrawn       nothing needs the answer any more, or the session has ended
    │   └── AnswerFailed            the client could not answer, or its answer means nothing
    ├── CommandError                a command that a client ran, not the request for it
    │   ├── CommandFailed           it ended with a status other than 0, and the caller wanted 0
    │   ├── RunTimeout              it took longer than the caller allowed, and was killed
    │   ├── OutputTooLarge          it wrote more than the caller allowed, and was killed
    │   ├── WaitTimeout             what the caller waited for did not happen in time; it goes on
    │   ├── PatternNotFound         its output does not contain the pattern
    │   ├── OutputOverrun           the client left too much of its output unread, and dropped it
    │   ├── OutputGap               the server dropped some of its output while the client was away
    │   └── ProcessLost             its outcome will never be known
    ├── ToolError                   a call of a tool that did nothing; its text is for the model
    │   ├── InvalidToolCall         the tool does not exist, or the arguments do not fit it
    │   ├── CallRejected            a rule, a policy or a person rejects it
    │   ├── ApprovalFailed          the approver could not be asked, or gave a meaningless answer
    │   └── PatchError              a patch that a model wrote
    │       ├── InvalidPatch        it can't be read
    │       ├── PatchMismatch       the file does not contain the lines to replace
    │       ├── PatchTooLong        to find them would take too long
    │       └── PatchIncomplete     a write failed; the earlier writes were undone where possible
    ├── ProxyError                  a connection that a command requested from the proxy failed
    │   ├── ProxyRequestError       the request to the proxy makes no sense
    │   ├── HostUnreachable         the host is allowed, but has no address or does not answer
    │   └── SecretUnusable          a secret of the settings can't be read, or can't be sent
    ├── LocalFileError              a file of this host, and not of the server's
    ├── AuditLogError               an audit log can't be opened or read
    ├── RulesError                  rules about commands
    │   ├── InvalidRule             a call in a file of rules has no meaning
    │   ├── RulesFileError          a file of rules can't be read, or is broken
    │   ├── RulesUnavailable        a library that only rules need is not installed
    │   └── AmendmentRefused        a rule would allow too much to be added without review
    ├── SelectionError              a name fits nothing, or more than one thing
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
that the server raised. A server of the reference protocol sends only a code: its
refusals become the class that stands for the code, such as InvalidRequest or
OperationFailed. Siblings differ by what the caller can do about them.

Each branch has a module of its own; import them from here. A branch is loaded when one of its classes is
first used: a command line that starts one program needs two of them.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    from paddock.errors.base import (
        AuditLogError,
        ConfigError,
        LocalFileError,
        PaddockError,
        SelectionError,
    )
    from paddock.errors.command import (
        CommandError,
        CommandFailed,
        OutputGap,
        OutputOverrun,
        OutputTooLarge,
        PatternNotFound,
        ProcessLost,
        RunTimeout,
        WaitTimeout,
    )
    from paddock.errors.file import (
        FileError,
        FileFailed,
        FileForbidden,
        FileIsDirectory,
        FileMissing,
        FileNotDirectory,
        FileTaken,
        FileUnfit,
        file_error,
    )
    from paddock.errors.protocol import (
        MalformedMessage,
        ProtocolError,
        ProtocolViolation,
    )
    from paddock.errors.proxy import HostUnreachable, ProxyError, ProxyRequestError, SecretUnusable
    from paddock.errors.question import (
        AnswerFailed,
        QuestionError,
        QuestionTimedOut,
        QuestionWithdrawn,
        TooManyQuestions,
    )
    from paddock.errors.request import (
        AuditUnwritable,
        CapabilityMissing,
        ExecForbidden,
        FetchFailed,
        ForeignSession,
        InvalidParams,
        InvalidPath,
        InvalidProfile,
        InvalidRequest,
        MethodNotFound,
        NotATerminal,
        NotFound,
        OperationFailed,
        ProcessExists,
        ProfileExceeded,
        ProfileRefused,
        RequestError,
        SandboxNotMade,
        SandboxRequired,
        SandboxUnavailable,
        SandboxUnenforceable,
        SessionAttached,
        SpawnerLost,
        SpawnError,
        StdinClosed,
        StdinFull,
        TooManyProcesses,
        TooManyWaits,
        UnknownProcess,
        UnknownQuestion,
        UnknownSession,
    )
    from paddock.errors.rules import (
        AmendmentRefused,
        InvalidRule,
        RulesError,
        RulesFileError,
        RulesUnavailable,
    )
    from paddock.errors.tool import (
        ApprovalFailed,
        CallRejected,
        InvalidPatch,
        InvalidToolCall,
        PatchError,
        PatchIncomplete,
        PatchMismatch,
        PatchTooLong,
        ToolError,
    )
    from paddock.errors.transport import (
        ConnectError,
        ConnectionLost,
        HandshakeRefused,
        ListenError,
        MessageTooLarge,
        NoRuntimeDirectory,
        RequestTimeout,
        TransportError,
        WriteLost,
    )

__all__ = [
    "AmendmentRefused",
    "AnswerFailed",
    "ApprovalFailed",
    "AuditLogError",
    "AuditUnwritable",
    "CallRejected",
    "CapabilityMissing",
    "CommandError",
    "CommandFailed",
    "ConfigError",
    "ConnectError",
    "ConnectionLost",
    "ExecForbidden",
    "FetchFailed",
    "FileError",
    "FileFailed",
    "FileForbidden",
    "FileIsDirectory",
    "FileMissing",
    "FileNotDirectory",
    "FileTaken",
    "FileUnfit",
    "ForeignSession",
    "HandshakeRefused",
    "HostUnreachable",
    "InvalidParams",
    "InvalidPatch",
    "InvalidPath",
    "InvalidProfile",
    "InvalidRequest",
    "InvalidRule",
    "InvalidToolCall",
    "ListenError",
    "LocalFileError",
    "MalformedMessage",
    "MessageTooLarge",
    "MethodNotFound",
    "NoRuntimeDirectory",
    "NotATerminal",
    "NotFound",
    "OperationFailed",
    "OutputGap",
    "OutputOverrun",
    "OutputTooLarge",
    "PaddockError",
    "PatchError",
    "PatchIncomplete",
    "PatchMismatch",
    "PatchTooLong",
    "PatternNotFound",
    "ProcessExists",
    "ProcessLost",
    "ProfileExceeded",
    "ProfileRefused",
    "ProtocolError",
    "ProtocolViolation",
    "ProxyError",
    "ProxyRequestError",
    "QuestionError",
    "QuestionTimedOut",
    "QuestionWithdrawn",
    "RequestError",
    "RequestTimeout",
    "RulesError",
    "RulesFileError",
    "RulesUnavailable",
    "RunTimeout",
    "SandboxNotMade",
    "SandboxRequired",
    "SandboxUnavailable",
    "SandboxUnenforceable",
    "SecretUnusable",
    "SelectionError",
    "SessionAttached",
    "SpawnError",
    "SpawnerLost",
    "StdinClosed",
    "StdinFull",
    "TooManyProcesses",
    "TooManyQuestions",
    "TooManyWaits",
    "ToolError",
    "TransportError",
    "UnknownProcess",
    "UnknownQuestion",
    "UnknownSession",
    "WaitTimeout",
    "WriteLost",
    "file_error",
]

_BRANCHES: Final = (
    "base",
    "request",
    "transport",
    "file",
    "command",
    "protocol",
    "proxy",
    "question",
    "rules",
    "tool",
)
"""The modules of the branches, those first that most programs need."""


def _load(name: str) -> Any:
    if name in __all__:
        for branch in _BRANCHES:
            found = vars(import_module(f"{__name__}.{branch}")).get(name)
            if found is not None:
                globals()[name] = found
                return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if not TYPE_CHECKING:
    # A type checker that saw it would accept every misspelt name.
    __getattr__ = _load
