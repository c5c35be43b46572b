"""Calls as tasks: the extension `io.modelcontextprotocol/tasks` of the stateless era.

A call that takes long becomes a task for a client that said it knows tasks: it asks for it with
`tasks/get`, answers its questions with `tasks/update`, and ends it with `tasks/cancel`. A task is a kept
call, under the call's own id, which nobody can guess.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final, Protocol

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import Field, TypeAdapter, ValidationError

from paddock.mcp_server.call_table import CallTable
from paddock.mcp_server.pending_call import PendingCall, Question

EXTENSION: Final = "io.modelcontextprotocol/tasks"

TASK_AFTER_S: Final = 10.0
"""A call that has not ended by then becomes a task, for clients that know them."""

TTL_S: Final = 3600.0
"""How long a task and its result are kept."""

POLL_S: Final = 1.0

NAME_HEADER: Final = "Mcp-Name"
"""Names the task for whatever stands before an HTTP server. The SDK checks it for other methods."""

_ANSWER: Final[TypeAdapter[types.InputResponse]] = TypeAdapter(types.InputResponse)

Context = ServerRequestContext[Any, Any]


class Attended(Protocol):
    """A session, as far as its tasks go."""

    @property
    def calls(self) -> CallTable:
        """Return its calls."""


class TaskParams(types.RequestParams):
    """Parameters that name a task."""

    task_id: str = Field(alias="taskId")


class UpdateParams(TaskParams):
    """Answers to what a task asks."""

    input_responses: dict[str, Any] = Field(alias="inputResponses")


Render = Callable[[PendingCall], types.CallToolResult]
"""Gives the result of a call that is over. Raises MCPError."""


class Tasks:
    """Serves the methods of the extension for all sessions."""

    def __init__(self, session_of: Callable[[Context], Attended], render: Render) -> None:
        self._session_of = session_of
        self._render = render

    def install(self, server: Server[Any]) -> None:
        """Add the methods, and tell clients of them."""
        server.extensions[EXTENSION] = {}
        server.add_request_handler("tasks/get", TaskParams, self._get)
        server.add_request_handler("tasks/update", UpdateParams, self._update)
        server.add_request_handler("tasks/cancel", TaskParams, self._cancel)

    def begin(self, calls: CallTable, call: PendingCall) -> dict[str, Any]:
        """Make a task of a call that no request attends any more; return what its client is told."""
        calls.keep(call, TTL_S)
        return {"resultType": "task", **_described(call)}

    async def _get(self, context: Context, params: TaskParams) -> dict[str, Any]:
        call = self._find(context, params.task_id)
        return {"resultType": "complete", **self._state(call)}

    async def _update(self, context: Context, params: UpdateParams) -> dict[str, Any]:
        self._find(context, params.task_id).deliver(_readable(params.input_responses))
        return {}

    async def _cancel(self, context: Context, params: TaskParams) -> dict[str, Any]:
        self._find(context, params.task_id).cancel()
        return {}

    def _find(self, context: Context, task_id: str) -> PendingCall:
        if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            raise MCPError(types.METHOD_NOT_FOUND, "Method not found", context.method)
        if not takes_tasks(context):
            raise MCPError(
                types.MISSING_REQUIRED_CLIENT_CAPABILITY,
                f"the client did not declare the extension {EXTENSION}",
                {"requiredCapabilities": {"extensions": {EXTENSION: {}}}},
            )
        named = None if context.request is None else context.request.headers.get(NAME_HEADER)
        if context.request is not None and named != task_id:
            raise MCPError(types.HEADER_MISMATCH, f"the header {NAME_HEADER} is not the id of the task")
        call = self._session_of(context).calls.kept(task_id)
        if call is None:
            raise MCPError(types.INVALID_PARAMS, f"there is no task {task_id!r}, or no more")
        return call

    def _state(self, call: PendingCall) -> dict[str, Any]:
        state = _described(call)
        if call.is_cancelled:
            return state | {"status": "cancelled"}
        if call.is_over:
            return state | self._ended(call)
        if call.questions:
            return state | {"status": "input_required", "inputRequests": _dumped(call.questions)}
        return state

    def _ended(self, call: PendingCall) -> dict[str, Any]:
        try:
            result = self._render(call)
        except MCPError as error:
            return {"status": "failed", "error": error.error.model_dump(by_alias=True, exclude_none=True)}
        dumped = result.model_dump(by_alias=True, mode="json", exclude_none=True)
        return {"status": "completed", "result": dumped}


def takes_tasks(context: Context) -> bool:
    """Return whether a request may be answered with a task."""
    capabilities = context.session.client_capabilities
    if context.protocol_version not in MODERN_PROTOCOL_VERSIONS or capabilities is None:
        return False
    return EXTENSION in (capabilities.extensions or {})


def requests_of(questions: list[Question]) -> types.InputRequests:
    """Return questions as a stateless client gets them."""
    return {question.id: question.prompt.request for question in questions}


def _described(call: PendingCall) -> dict[str, Any]:
    """Return what holds of a task whatever its state; the rest is for `tasks/get`."""
    return {
        "taskId": call.id,
        "status": "working",
        "createdAt": _time(call.created_at),
        "lastUpdatedAt": _time(call.changed_at),
        "ttlMs": round(TTL_S * 1000),
        "pollIntervalMs": round(POLL_S * 1000),
    }


def _readable(answers: Mapping[str, Any]) -> types.InputResponses:
    """Return the answers that can be read. A question whose answer can't be stays open."""
    read: types.InputResponses = {}
    for key, answer in answers.items():
        with suppress(ValidationError):
            read[key] = _ANSWER.validate_python(answer)
    return read


def _dumped(questions: list[Question]) -> dict[str, Any]:
    return {
        key: request.model_dump(by_alias=True, mode="json", exclude_none=True)
        for key, request in requests_of(questions).items()
    }


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
