"""Run and supervise processes, here or on another host.

    import asyncio
    import paddock

    async def main() -> None:
        async with paddock.connect() as box:
            done = await box.run(["echo", "hello"])
            print(done.stdout.decode())

    asyncio.run(main())

Everything named in `__all__` is public. Names are loaded when they are first used,
so that `import paddock` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module

from paddock.version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from paddock.agent.agent import Agent, Tools
    from paddock.agent.approval import Approval, ApprovalDecision, ApprovalRequest, Approver
    from paddock.agent.approval_policy import ApprovalPolicy, Granular
    from paddock.agent.approver import TerminalApprover, allow_list, deny_all, first_of
    from paddock.agent.command_session import CommandSession
    from paddock.agent.console import ConsoleApprover
    from paddock.agent.event import (
        AgentEvent,
        ApprovalAnswered,
        ApprovalAsked,
        DeltasMissed,
        EventReader,
        ExecCommandBegin,
        ExecCommandEnd,
        ExecCommandOutputDelta,
        ReaderOverrun,
        TerminalInteraction,
    )
    from paddock.agent.executor import (
        Command,
        Executor,
        FileAccess,
        PreparedExecSpec,
        ProgramRules,
        RunningCommand,
    )
    from paddock.agent.fake_executor import FakeCommand, FakeExecutor
    from paddock.agent.permission import Permissions
    from paddock.agent.question_text import question_lines
    from paddock.agent.reply import ExecReply, Reply
    from paddock.agent.tool import SchemaFormat
    from paddock.client.box import Box
    from paddock.client.completed_process import CompletedProcess
    from paddock.client.confinement import Sandbox
    from paddock.client.connect import Connecting, connect
    from paddock.client.ending import Ending
    from paddock.client.event_sequence import Gap
    from paddock.client.files import Files, Found, Match, Tree
    from paddock.client.inbox import Output
    from paddock.client.process import Process, ProcessState
    from paddock.client.reconnect import ReconnectPolicy
    from paddock.client.reference import BoxReference
    from paddock.client.remote_file import RemoteReader, RemoteWriter
    from paddock.client.remote_path import RemotePath
    from paddock.client.watch import Changes, FileChange, Watch
    from paddock.client.workspace import OpenWorkspace, Workspace
    from paddock.config import Settings
    from paddock.errors import (
        AuditLogError,
        CapabilityMissing,
        CommandError,
        CommandFailed,
        ConfigError,
        ConnectError,
        ConnectionLost,
        ExecForbidden,
        FileError,
        HandshakeRefused,
        InvalidParams,
        InvalidRequest,
        ListenError,
        LocalFileError,
        MethodNotFound,
        NotATerminal,
        NotFound,
        OperationFailed,
        OutputGap,
        OutputOverrun,
        OutputTooLarge,
        PaddockError,
        PatternNotFound,
        ProcessExists,
        ProcessLost,
        ProfileExceeded,
        RequestError,
        RequestTimeout,
        RulesError,
        RunTimeout,
        SandboxUnenforceable,
        SessionAttached,
        SpawnerLost,
        SpawnError,
        StdinClosed,
        StdinFull,
        TooManyProcesses,
        TooManyWaits,
        TransportError,
        UnknownProcess,
        UnknownSession,
        WaitTimeout,
        WriteLost,
    )
    from paddock.model.cause import Cause
    from paddock.model.denial import Denial, DenialKind
    from paddock.model.profile import Limits
    from paddock.model.stream import Stream
    from paddock.model.terminal import TerminalSize
    from paddock.model.usage import Usage
    from paddock.model.verdict import Remember, Verdict
    from paddock.protocol.fs import MetadataResult
    from paddock.protocol.intercept import InterceptParams, InterceptRule
    from paddock.protocol.process import ProcessSummary, SnapshotResult
    from paddock.protocol.question import ExecApprovalParams, ExecApprovalResult, MatchedRule
    from paddock.protocol.session import EnvironmentInfo
    from paddock.server.app import Server, serve

__all__ = [
    "Agent",
    "AgentEvent",
    "Approval",
    "ApprovalAnswered",
    "ApprovalAsked",
    "ApprovalDecision",
    "ApprovalPolicy",
    "ApprovalRequest",
    "Approver",
    "AuditLogError",
    "Box",
    "BoxReference",
    "CapabilityMissing",
    "Cause",
    "Changes",
    "Command",
    "CommandError",
    "CommandFailed",
    "CommandSession",
    "CompletedProcess",
    "ConfigError",
    "ConnectError",
    "Connecting",
    "ConnectionLost",
    "ConsoleApprover",
    "DeltasMissed",
    "Denial",
    "DenialKind",
    "Ending",
    "EnvironmentInfo",
    "EventReader",
    "ExecApprovalParams",
    "ExecApprovalResult",
    "ExecCommandBegin",
    "ExecCommandEnd",
    "ExecCommandOutputDelta",
    "ExecForbidden",
    "ExecReply",
    "Executor",
    "FakeCommand",
    "FakeExecutor",
    "FileAccess",
    "FileChange",
    "FileError",
    "Files",
    "Found",
    "Gap",
    "Granular",
    "HandshakeRefused",
    "InterceptParams",
    "InterceptRule",
    "InvalidParams",
    "InvalidRequest",
    "Limits",
    "ListenError",
    "LocalFileError",
    "Match",
    "MatchedRule",
    "MetadataResult",
    "MethodNotFound",
    "NotATerminal",
    "NotFound",
    "OpenWorkspace",
    "OperationFailed",
    "Output",
    "OutputGap",
    "OutputOverrun",
    "OutputTooLarge",
    "PaddockError",
    "PatternNotFound",
    "Permissions",
    "PreparedExecSpec",
    "Process",
    "ProcessExists",
    "ProcessLost",
    "ProcessState",
    "ProcessSummary",
    "ProfileExceeded",
    "ProgramRules",
    "ReaderOverrun",
    "ReconnectPolicy",
    "Remember",
    "RemotePath",
    "RemoteReader",
    "RemoteWriter",
    "Reply",
    "RequestError",
    "RequestTimeout",
    "RulesError",
    "RunTimeout",
    "RunningCommand",
    "Sandbox",
    "SandboxUnenforceable",
    "SchemaFormat",
    "Server",
    "SessionAttached",
    "Settings",
    "SnapshotResult",
    "SpawnError",
    "SpawnerLost",
    "StdinClosed",
    "StdinFull",
    "Stream",
    "TerminalApprover",
    "TerminalInteraction",
    "TerminalSize",
    "TooManyProcesses",
    "TooManyWaits",
    "Tools",
    "TransportError",
    "Tree",
    "UnknownProcess",
    "UnknownSession",
    "Usage",
    "Verdict",
    "WaitTimeout",
    "Watch",
    "Workspace",
    "WriteLost",
    "__version__",
    "allow_list",
    "connect",
    "deny_all",
    "first_of",
    "question_lines",
    "serve",
]

_HOMES = {
    "paddock.agent.agent": ("Agent", "Tools"),
    "paddock.agent.approval": ("Approval", "ApprovalDecision", "ApprovalRequest", "Approver"),
    "paddock.agent.approval_policy": ("ApprovalPolicy", "Granular"),
    "paddock.agent.approver": ("TerminalApprover", "allow_list", "deny_all", "first_of"),
    "paddock.agent.command_session": ("CommandSession",),
    "paddock.agent.console": ("ConsoleApprover",),
    "paddock.agent.event": (
        "AgentEvent",
        "ApprovalAnswered",
        "ApprovalAsked",
        "DeltasMissed",
        "EventReader",
        "ExecCommandBegin",
        "ExecCommandEnd",
        "ExecCommandOutputDelta",
        "ReaderOverrun",
        "TerminalInteraction",
    ),
    "paddock.agent.executor": (
        "Command",
        "Executor",
        "FileAccess",
        "PreparedExecSpec",
        "ProgramRules",
        "RunningCommand",
    ),
    "paddock.agent.fake_executor": (
        "FakeCommand",
        "FakeExecutor",
    ),
    "paddock.agent.permission": ("Permissions",),
    "paddock.agent.question_text": ("question_lines",),
    "paddock.agent.reply": (
        "ExecReply",
        "Reply",
    ),
    "paddock.agent.tool": ("SchemaFormat",),
    "paddock.client.box": ("Box",),
    "paddock.client.completed_process": ("CompletedProcess",),
    "paddock.client.confinement": ("Sandbox",),
    "paddock.client.connect": ("Connecting", "connect"),
    "paddock.client.ending": ("Ending",),
    "paddock.client.files": ("Files", "Found", "Match", "Tree"),
    "paddock.client.inbox": ("Output",),
    "paddock.client.process": ("Process", "ProcessState"),
    "paddock.client.reconnect": ("ReconnectPolicy",),
    "paddock.client.reference": ("BoxReference",),
    "paddock.client.remote_file": ("RemoteReader", "RemoteWriter"),
    "paddock.client.remote_path": ("RemotePath",),
    "paddock.client.event_sequence": ("Gap",),
    "paddock.client.watch": ("Changes", "FileChange", "Watch"),
    "paddock.client.workspace": ("OpenWorkspace", "Workspace"),
    "paddock.config": ("Settings",),
    "paddock.errors": (
        "AuditLogError",
        "CapabilityMissing",
        "CommandError",
        "CommandFailed",
        "ConfigError",
        "ConnectError",
        "ConnectionLost",
        "ExecForbidden",
        "FileError",
        "HandshakeRefused",
        "InvalidParams",
        "InvalidRequest",
        "ListenError",
        "MethodNotFound",
        "NotATerminal",
        "NotFound",
        "OperationFailed",
        "LocalFileError",
        "OutputGap",
        "OutputOverrun",
        "OutputTooLarge",
        "PaddockError",
        "PatternNotFound",
        "ProcessExists",
        "ProcessLost",
        "ProfileExceeded",
        "RequestError",
        "RequestTimeout",
        "RulesError",
        "RunTimeout",
        "SandboxUnenforceable",
        "SessionAttached",
        "SpawnError",
        "SpawnerLost",
        "StdinClosed",
        "StdinFull",
        "TooManyProcesses",
        "TooManyWaits",
        "TransportError",
        "UnknownProcess",
        "UnknownSession",
        "WaitTimeout",
        "WriteLost",
    ),
    "paddock.model.cause": ("Cause",),
    "paddock.model.denial": ("Denial", "DenialKind"),
    "paddock.model.profile": ("Limits",),
    "paddock.model.stream": ("Stream",),
    "paddock.model.terminal": ("TerminalSize",),
    "paddock.model.usage": ("Usage",),
    "paddock.model.verdict": ("Remember", "Verdict"),
    "paddock.protocol.fs": ("MetadataResult",),
    "paddock.protocol.process": ("ProcessSummary", "SnapshotResult"),
    "paddock.protocol.intercept": ("InterceptParams", "InterceptRule"),
    "paddock.protocol.question": ("ExecApprovalParams", "ExecApprovalResult", "MatchedRule"),
    "paddock.protocol.session": ("EnvironmentInfo",),
    "paddock.server.app": ("Server", "serve"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def _load(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


if not TYPE_CHECKING:
    # A type checker that saw it would accept every misspelt name.
    __getattr__ = _load


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
