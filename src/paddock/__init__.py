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
from typing import TYPE_CHECKING, Any

from paddock.version import __version__

if TYPE_CHECKING:
    from paddock.client.box import Box, CompletedProcess
    from paddock.client.confinement import Sandbox
    from paddock.client.connect import connect
    from paddock.client.ending import Ending
    from paddock.client.files import Files, Found, Match, Tree
    from paddock.client.inbox import Output
    from paddock.client.process import Process, ProcessState
    from paddock.client.reconnect import ReconnectPolicy
    from paddock.client.remote_file import RemoteReader, RemoteWriter
    from paddock.client.remote_path import RemotePath
    from paddock.client.timeline import Gap
    from paddock.client.watch import Changes, FileChange, Watch
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
        PaddockError,
        ProcessExists,
        ProcessLost,
        ProfileExceeded,
        RequestError,
        RequestTimeout,
        RunTimeout,
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
        WriteLost,
    )
    from paddock.model.cause import Cause
    from paddock.model.denial import Denial, DenialKind
    from paddock.model.stream import Stream
    from paddock.model.terminal import TerminalSize
    from paddock.model.usage import Usage
    from paddock.protocol.fs import MetadataResult
    from paddock.protocol.process import ProcessSummary, SnapshotResult
    from paddock.protocol.session import EnvironmentInfo
    from paddock.server.app import Server, serve

__all__ = [
    "AuditLogError",
    "Box",
    "CapabilityMissing",
    "Cause",
    "Changes",
    "CommandError",
    "CommandFailed",
    "CompletedProcess",
    "ConfigError",
    "ConnectError",
    "ConnectionLost",
    "Denial",
    "DenialKind",
    "Ending",
    "EnvironmentInfo",
    "ExecForbidden",
    "FileChange",
    "Files",
    "Found",
    "Gap",
    "HandshakeRefused",
    "InvalidParams",
    "InvalidRequest",
    "ListenError",
    "LocalFileError",
    "Match",
    "MetadataResult",
    "MethodNotFound",
    "NotATerminal",
    "NotFound",
    "OperationFailed",
    "Output",
    "OutputGap",
    "OutputOverrun",
    "PaddockError",
    "Process",
    "ProcessExists",
    "ProcessLost",
    "ProcessState",
    "ProcessSummary",
    "ProfileExceeded",
    "ReconnectPolicy",
    "RemotePath",
    "RemoteReader",
    "RemoteWriter",
    "RequestError",
    "RequestTimeout",
    "RunTimeout",
    "Sandbox",
    "Server",
    "SessionAttached",
    "Settings",
    "SnapshotResult",
    "SpawnError",
    "SpawnerLost",
    "StdinClosed",
    "StdinFull",
    "Stream",
    "TerminalSize",
    "TooManyProcesses",
    "TooManyWaits",
    "TransportError",
    "Tree",
    "UnknownProcess",
    "UnknownSession",
    "Usage",
    "Watch",
    "WriteLost",
    "__version__",
    "connect",
    "serve",
]

_HOMES = {
    "paddock.client.box": ("Box", "CompletedProcess"),
    "paddock.client.confinement": ("Sandbox",),
    "paddock.client.connect": ("connect",),
    "paddock.client.ending": ("Ending",),
    "paddock.client.files": ("Files", "Found", "Match", "Tree"),
    "paddock.client.inbox": ("Output",),
    "paddock.client.process": ("Process", "ProcessState"),
    "paddock.client.reconnect": ("ReconnectPolicy",),
    "paddock.client.remote_file": ("RemoteReader", "RemoteWriter"),
    "paddock.client.remote_path": ("RemotePath",),
    "paddock.client.timeline": ("Gap",),
    "paddock.client.watch": ("Changes", "FileChange", "Watch"),
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
        "PaddockError",
        "ProcessExists",
        "ProcessLost",
        "ProfileExceeded",
        "RequestError",
        "RequestTimeout",
        "RunTimeout",
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
        "WriteLost",
    ),
    "paddock.model.cause": ("Cause",),
    "paddock.model.denial": ("Denial", "DenialKind"),
    "paddock.model.stream": ("Stream",),
    "paddock.model.terminal": ("TerminalSize",),
    "paddock.model.usage": ("Usage",),
    "paddock.protocol.fs": ("MetadataResult",),
    "paddock.protocol.process": ("ProcessSummary", "SnapshotResult"),
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
    # A type checker that saw it would take every misspelt name for a good one.
    __getattr__ = _load


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
