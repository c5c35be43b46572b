"""THE table of methods: name, parameters, result, and how a request is scheduled.

The server, the client and the generated reference all read this table. A method
without a result type has declared parameters, so that the server answers bad ones
correctly, but this version does not offer it.

The table names types by the module beside this one and the class in it, and imports a
module when somebody asks for one of its types: a process that starts one command uses
four methods.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum, StrEnum
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

if TYPE_CHECKING:
    from paddock.protocol.question import QuestionParams
    from paddock.protocol.structure import Params, Result

INITIALIZE = "initialize"
INITIALIZED = "initialized"

NO_PARAMS: Final = "structure.NoParams"
EMPTY: Final = "structure.Empty"


class Family(StrEnum):
    """A group of methods, by its name in error messages."""

    SESSION = "session"
    ENVIRONMENT_INFO = "environment info"
    ENVIRONMENT_STATUS = "environment status"
    EXEC = "exec"
    FILESYSTEM = "filesystem"
    HTTP = "http"
    ENVIRONMENT_CONFIG = "environment config"
    CAPABILITY_DISCOVERY = "capability discovery"
    CONTROL = "control"


class RequestQueue(Enum):
    """Which requests wait for each other. Control requests overtake a queue of ordinary ones."""

    ORDINARY = "ordinary"
    CONTROL = "control"


class Method(Struct, frozen=True):
    """One request method."""

    name: str
    params_type: str
    result_type: str | None
    family: Family
    queue: RequestQueue = RequestQueue.ORDINARY
    is_opening: bool = False
    """Whether it creates the process or file handle that it names; no request overtakes it."""
    is_closing: bool = False
    """Whether it ends the file handle that it names; it overtakes nothing that uses the handle."""
    is_extension: bool = False
    capability: str | None = None
    """The name by which a server announces the method to clients that ask for extensions."""
    is_operators: bool = False
    """Whether only the control socket offers it; elsewhere the method does not exist."""

    @property
    def params(self) -> type[Params]:
        """Return the type of its parameters."""
        kind: type[Params] = _type_named(self.params_type)
        return kind

    @property
    def result(self) -> type[Result] | None:
        """Return the type of its result."""
        return None if self.result_type is None else _type_named(self.result_type)

    @property
    def is_offered(self) -> bool:
        """Return whether this version has it."""
        return self.result_type is not None

    @property
    def is_for_all(self) -> bool:
        """Return whether every client may call it at any time once the handshake is complete."""
        return self.is_offered and not self.is_operators and self.name != INITIALIZE


@cache
def _type_named(name: str) -> Any:
    module, _, kind = name.partition(".")
    return getattr(import_module(f"{__package__}.{module}"), kind)


_ALL = (
    Method(
        INITIALIZE,
        "session.InitializeParams",
        "session.InitializeResult",
        Family.SESSION,
        RequestQueue.CONTROL,
    ),
    Method(
        "environment/info",
        NO_PARAMS,
        "session.EnvironmentInfo",
        Family.ENVIRONMENT_INFO,
        RequestQueue.CONTROL,
    ),
    Method(
        "environment/status",
        NO_PARAMS,
        "session.EnvironmentStatus",
        Family.ENVIRONMENT_STATUS,
        RequestQueue.CONTROL,
    ),
    Method("process/start", "process.StartParams", "process.StartResult", Family.EXEC, is_opening=True),
    Method("process/read", "process.ReadParams", "process.ReadResult", Family.EXEC),
    Method("process/write", "process.WriteParams", "process.WriteResult", Family.EXEC),
    Method("process/signal", "process.SignalParams", EMPTY, Family.EXEC, RequestQueue.CONTROL),
    Method(
        "process/terminate",
        "process.TerminateParams",
        "process.TerminateResult",
        Family.EXEC,
        RequestQueue.CONTROL,
    ),
    Method(
        "process/closeStdin",
        "process.ProcessParams",
        EMPTY,
        Family.EXEC,
        is_extension=True,
        capability="processCloseStdin",
    ),
    Method(
        "process/resize",
        "process.ResizeParams",
        EMPTY,
        Family.EXEC,
        is_extension=True,
        capability="processResize",
    ),
    Method(
        "process/wait",
        "process.WaitParams",
        "process.WaitResult",
        Family.EXEC,
        is_extension=True,
        capability="processWait",
    ),
    Method(
        "process/snapshot",
        "process.ProcessParams",
        "process.SnapshotResult",
        Family.EXEC,
        is_extension=True,
        capability="processSnapshot",
    ),
    Method(
        "process/list",
        NO_PARAMS,
        "process.ListResult",
        Family.EXEC,
        is_extension=True,
        capability="processList",
    ),
    Method(
        "control/status",
        NO_PARAMS,
        "control.StatusResult",
        Family.CONTROL,
        RequestQueue.CONTROL,
        is_extension=True,
        is_operators=True,
    ),
    Method(
        "control/questions",
        NO_PARAMS,
        "control.QuestionsResult",
        Family.CONTROL,
        RequestQueue.CONTROL,
        is_extension=True,
        is_operators=True,
    ),
    Method(
        "control/answer",
        "control.AnswerParams",
        EMPTY,
        Family.CONTROL,
        RequestQueue.CONTROL,
        is_extension=True,
        is_operators=True,
    ),
    Method("fs/readFile", "fs.FollowablePathParams", "fs.ReadFileResult", Family.FILESYSTEM),
    Method("fs/writeFile", "fs.WriteFileParams", EMPTY, Family.FILESYSTEM),
    Method("fs/createDirectory", "fs.CreateDirectoryParams", EMPTY, Family.FILESYSTEM),
    Method("fs/getMetadata", "fs.FollowablePathParams", "fs.MetadataResult", Family.FILESYSTEM),
    Method("fs/readDirectory", "fs.ReadDirectoryParams", "fs.ReadDirectoryResult", Family.FILESYSTEM),
    Method("fs/canonicalize", "fs.CanonicalizeParams", "fs.CanonicalizeResult", Family.FILESYSTEM),
    Method("fs/walk", "fs.WalkParams", "fs.WalkResult", Family.FILESYSTEM),
    Method("fs/remove", "fs.RemoveParams", EMPTY, Family.FILESYSTEM),
    Method("fs/copy", "fs.CopyParams", EMPTY, Family.FILESYSTEM),
    Method("fs/open", "fs.OpenParams", "fs.OpenResult", Family.FILESYSTEM, is_opening=True),
    Method("fs/readBlock", "fs.ReadBlockParams", "fs.ReadBlockResult", Family.FILESYSTEM),
    Method("fs/writeBlock", "fs.WriteBlockParams", EMPTY, Family.FILESYSTEM),
    Method("fs/close", "fs.CloseParams", EMPTY, Family.FILESYSTEM, RequestQueue.CONTROL, is_closing=True),
    Method("fs/watchMissing", "watch.WatchMissingParams", "watch.WatchMissingResult", Family.FILESYSTEM),
    Method(
        "fs/watch",
        "watch.WatchParams",
        "watch.WatchResult",
        Family.FILESYSTEM,
        is_extension=True,
        capability="fsWatch",
    ),
    Method(
        "fs/search",
        "text.SearchParams",
        "text.SearchResult",
        Family.FILESYSTEM,
        is_extension=True,
        capability="fsSearch",
    ),
    Method(
        "fs/edit",
        "text.EditParams",
        "text.EditResult",
        Family.FILESYSTEM,
        is_extension=True,
        capability="fsEdit",
    ),
    Method("fs/move", "fs.MoveParams", EMPTY, Family.FILESYSTEM, is_extension=True, capability="fsMove"),
    Method("fs/chmod", "fs.ChmodParams", EMPTY, Family.FILESYSTEM, is_extension=True, capability="fsChmod"),
    Method("fs/unwatch", "watch.UnwatchParams", EMPTY, Family.FILESYSTEM, is_extension=True),
    Method(
        "network/policyUpdate",
        "network.PolicyUpdateParams",
        EMPTY,
        Family.EXEC,
        RequestQueue.CONTROL,
        is_extension=True,
    ),
    Method("http/request", "fetch.HttpRequestParams", "fetch.HttpResult", Family.HTTP),
    Method(
        "environmentConfig/read",
        "discovery.EnvironmentConfigParams",
        "discovery.EnvironmentConfigResult",
        Family.ENVIRONMENT_CONFIG,
    ),
    Method(
        "capabilityRoots/discoverV1",
        "discovery.CapabilityRootsParams",
        "discovery.CapabilityRootsResult",
        Family.CAPABILITY_DISCOVERY,
    ),
    Method(
        "capabilities/discoverV2",
        "discovery.CapabilitiesParams",
        "discovery.CapabilitiesResult",
        Family.CAPABILITY_DISCOVERY,
    ),
)

METHODS: dict[str, Method] = {method.name: method for method in _ALL}


class MessageTypes(Mapping[str, "type[Result]"]):
    """The types of messages by the name of the message."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def __getitem__(self, message: str) -> type[Result]:
        kind: type[Result] = _type_named(self._names[message])
        return kind

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


NOTIFICATIONS: Final = MessageTypes(
    {
        "process/output": "process_event.OutputEvent",
        "process/exited": "process_event.ExitedEvent",
        "process/closed": "process_event.ClosedEvent",
        "http/request/bodyDelta": "fetch.BodyDelta",
        "fs/missingChanged": "watch.MissingChangedEvent",
        "fs/changed": "watch.ChangedEvent",
    }
)
"""Notifications that the server sends to every client."""

OPTIONAL_NOTIFICATIONS: Final = MessageTypes(
    {
        "process/started": "process_event.StartedEvent",
        "process/failed": "process_event.FailedEvent",
        "process/exec": "intercept.ExecEvent",
        "network/policyDecision": "network.PolicyDecisionEvent",
        "question/closed": "question.QuestionClosedEvent",
    }
)
"""Notifications that the server sends to clients that name them in `initialize`."""


class ServerRequest(Struct, frozen=True):
    """One request method of the server."""

    name: str
    params_type: str
    result_type: str

    @property
    def params(self) -> type[QuestionParams]:
        """Return the type of its parameters."""
        kind: type[QuestionParams] = _type_named(self.params_type)
        return kind

    @property
    def result(self) -> type[Params]:
        """Return the type of an answer."""
        kind: type[Params] = _type_named(self.result_type)
        return kind


SERVER_REQUESTS: dict[str, ServerRequest] = {
    request.name: request
    for request in (
        ServerRequest("process/execApproval", "question.ExecApprovalParams", "question.ExecApprovalResult"),
        ServerRequest("network/policyRequest", "network.PolicyRequestParams", "network.PolicyRequestResult"),
    )
}
"""Requests that the server sends to clients that name them in `initialize`."""
