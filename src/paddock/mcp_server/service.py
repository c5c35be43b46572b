"""The MCP server itself: one object for both eras of the protocol, whatever the transport.

It turns requests into calls of a session, and their outcomes into results. In the handshake era a question
goes to the client as a request of ours, while the call waits. In the stateless era the call ends with
`input_required`, and its repetition, which carries the answer, goes on with the same work.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError
from starlette.requests import HTTPConnection

from paddock.errors import CallRejected, InvalidProfile, InvalidToolCall, PaddockError
from paddock.mcp_server.call_table import CallTable
from paddock.mcp_server.catalogue import Declaration, declarations
from paddock.mcp_server.pending_call import PendingCall, Question
from paddock.mcp_server.question_asker import NO_PROMPT
from paddock.mcp_server.sandbox_state import (
    CAPABILITIES,
    META_KEY,
    UPDATE_METHOD,
    SandboxState,
    parse_state,
)
from paddock.mcp_server.task import TASK_AFTER_S, Tasks, requests_of, takes_tasks
from paddock.version import __version__

NAME: Final = "paddock"
INSTRUCTIONS: Final = (
    "This server runs commands and changes files in a sandbox. Rules decide which programs may leave it, "
    "and the user may be asked. A result says what was denied and which permission would help."
)

PROGRESS_S: Final = 5.0
"""How often the server reports progress to a client that wants it."""

ROOTS_TIMEOUT_S: Final = 5.0

KEPT_S: Final = 120.0
"""How long a call may continue, or its outcome is kept, after the time for its question is over."""

Context = ServerRequestContext[Any, Any]


class ToolSession(Protocol):
    """The part of a session that its client's requests use: `paddock.mcp_server.session.Session`."""

    sandbox_state: SandboxState | None

    @property
    def calls(self) -> CallTable:
        """Return the calls under way."""

    @property
    def prompt_timeout_s(self) -> float:
        """Return how long the server waits for an answer."""

    @property
    def wants_roots(self) -> bool:
        """Return whether the server has to ask the client for its roots before the next call."""

    def take_roots(self, uris: Iterable[str]) -> None:
        """Take the client's roots."""

    def forget_roots(self) -> None:
        """Forget the client's roots, because they have changed."""

    def begin(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        no_prompt: str | None,
        state: SandboxState | None = None,
    ) -> PendingCall:
        """Start a call. Raises InvalidToolCall or CallRejected."""


class Service:
    """Answers the requests of clients. `session_of` returns the session that a request belongs to."""

    def __init__(
        self,
        tools: Sequence[types.Tool],
        session_of: Callable[[Context], ToolSession],
        *,
        task_after_s: float = TASK_AFTER_S,
    ) -> None:
        self._names = [tool.name for tool in tools]
        self._task_after_s = task_after_s
        self._session_of = session_of
        self._declared = list(tools)
        self.server: Server[Any] = _Server(
            NAME,
            version=__version__,
            title="Paddock",
            instructions=INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
        )
        self.server.add_request_handler(UPDATE_METHOD, types.RequestParams, self._update_sandbox_state)
        self.server.add_notification_handler(
            "notifications/cancelled", types.CancelledNotificationParams, self._cancelled
        )
        self.server.add_notification_handler(
            "notifications/roots/list_changed", types.NotificationParams, self._roots_changed
        )
        self._tasks = Tasks(session_of, _result)
        self._tasks.install(self.server)
        self.server.middleware.append(
            RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=NAME)
        )

    def options(self) -> InitializationOptions:
        """Return the description of this server for the handshake."""
        return self.server.create_initialization_options()

    async def _update_sandbox_state(self, context: Context, params: types.RequestParams) -> types.EmptyResult:
        """Take the sandbox that a client wants from now on; stateless requests say it each time."""
        if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            raise MCPError(types.METHOD_NOT_FOUND, "Method not found", context.method)
        if context.params is None:
            raise MCPError(types.INVALID_PARAMS, "missing params for sandbox state request")
        try:
            self._session_of(context).sandbox_state = parse_state(context.params)
        except InvalidProfile as error:
            data = dict(context.params)
            raise MCPError(types.INVALID_PARAMS, "failed to deserialize sandbox state", data) from error
        return types.EmptyResult()

    async def _cancelled(self, context: Context, params: types.CancelledNotificationParams) -> None:
        """End a call whose request was answered with a question: no request of it is open to be cancelled.

        Only a client with a stream of its own gets here. Over HTTP the SDK drops such a notification of a
        stateless client; `paddock.mcp_server.http` handles it instead.
        """
        if context.protocol_version in MODERN_PROTOCOL_VERSIONS and params.request_id is not None:
            self._session_of(context).calls.cancel(request_name(None, params.request_id))

    async def _roots_changed(self, context: Context, params: types.NotificationParams) -> None:
        """Ask for the roots again before the next call."""
        self._session_of(context).forget_roots()

    async def _list_tools(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=self._declared)

    async def _call_tool(self, context: Context, params: types.CallToolRequestParams) -> Any:
        if params.name not in self._names:
            known = ", ".join(self._names)
            raise MCPError(types.INVALID_PARAMS, f"tool not found: {params.name!r}; there are {known}")
        session = self._session_of(context)
        if session.wants_roots:
            session.take_roots(await _roots(context))
        call = self._resumed(session, params) or self._begun(session, context, params)
        try:
            if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
                return await self._stateless_result(context, session, call)
            await self._attend(context, call)
            return _result(call)
        finally:
            if session.calls.kept(call.id) is None:
                session.calls.end(call)

    async def _stateless_result(
        self, context: Context, session: ToolSession, call: PendingCall
    ) -> types.CallToolResult | types.InputRequiredResult | dict[str, Any]:
        """Wait for the end of a call, or until it asks something or has become a task."""
        questions: list[Question] = []
        with anyio.move_on_after(self._task_after_s if takes_tasks(context) else None) as patience:
            questions = await _stirred(context, call)
        if questions:
            asked = request_name(context.request, context.request_id)
            session.calls.keep(call, session.prompt_timeout_s + KEPT_S, asked=asked)
            return types.InputRequiredResult(input_requests=requests_of(questions), request_state=call.id)
        if patience.cancelled_caught and not call.is_over:
            return self._tasks.begin(session.calls, call)
        return _result(call)

    def _begun(
        self, session: ToolSession, context: Context, params: types.CallToolRequestParams
    ) -> PendingCall:
        try:
            return session.begin(
                params.name,
                params.arguments or {},
                no_prompt=_no_prompt(context),
                state=_state_of(context),
            )
        except InvalidToolCall as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from error
        except CallRejected as error:
            raise MCPError(types.INTERNAL_ERROR, str(error)) from error

    def _resumed(self, session: ToolSession, params: types.CallToolRequestParams) -> PendingCall | None:
        """Return the call that a repeated request continues, after delivering its answers."""
        if params.request_state is None:
            return None
        call = session.calls.resume(params.request_state)
        if call is None:
            raise MCPError(
                types.INVALID_PARAMS, "the call that this answers is over: it timed out; call again"
            )
        call.deliver(params.input_responses or {})
        return call

    async def _attend(self, context: Context, call: PendingCall) -> None:
        """Wait for the end of a call, and pass its questions to the client."""
        questions = await _stirred(context, call)
        # Most calls ask nothing, and a group of tasks costs as much as the rest of a call.
        if not questions:
            return
        async with anyio.create_task_group() as asking:
            known: frozenset[str] = frozenset()
            while questions:
                for question in questions:
                    known |= {question.id}
                    asking.start_soon(_ask, context, call, question)
                questions = await _stirred(context, call, known)
            asking.cancel_scope.cancel()


async def _stirred(
    context: Context, call: PendingCall, known: frozenset[str] = frozenset()
) -> list[Question]:
    """Wait as `settled_or_asking` does, and report progress to a client that wants it."""
    while True:
        with anyio.move_on_after(PROGRESS_S):
            return await call.settled_or_asking(known)
        elapsed_s = time.time() - call.created_at
        await context.session.report_progress(
            elapsed_s, message=f"{call.tool} has been running for {elapsed_s:.0f} s"
        )


async def _ask(context: Context, call: PendingCall, question: Question) -> None:
    """Ask the client. A missing or invalid answer is a refusal."""
    prompt = question.prompt
    # On the stream of the request that it belongs to, where there are several.
    related = ServerMessageMetadata(related_request_id=context.request_id)
    try:
        answer = await context.session.send_request(prompt.request, prompt.result_type, metadata=related)
    except MCPError as error:
        call.answer(question.id, prompt.unasked(str(error)))
    except ValidationError:
        call.answer(question.id, prompt.unasked("its answer can't be read"))
    else:
        call.deliver({question.id: answer})


class _Server(Server[Any]):
    """Tells clients of either era that they may say which sandbox they want."""

    def get_capabilities(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
        *,
        protocol_version: str | None = None,
    ) -> types.ServerCapabilities:
        experimental = dict(CAPABILITIES) | (experimental_capabilities or {})
        return super().get_capabilities(
            notification_options, experimental, extensions, protocol_version=protocol_version
        )


def request_name(request: HTTPConnection | None, request_id: types.RequestId | None) -> Hashable:
    """Return a name that distinguishes a request from those of other clients, as far as possible.

    The ids are the clients' own: on a stream of its own a client uses each once. Over HTTP the address and
    the program of the client narrow it down.
    """
    if request is None:
        return request_id
    host = None if request.client is None else request.client.host
    return host, request.headers.get("user-agent"), request_id


def _state_of(context: Context) -> SandboxState | None:
    """Return the sandbox that a call wants for itself. One that can't be read is an error, not no sandbox."""
    written = (context.meta or {}).get(META_KEY)
    if written is None:
        return None
    try:
        if not isinstance(written, dict):
            raise InvalidProfile(META_KEY, "it is not an object")
        return parse_state(written)
    except InvalidProfile as error:
        raise MCPError(types.INVALID_PARAMS, f"failed to deserialize sandbox state: {error}") from error


async def _roots(context: Context) -> list[str]:
    """Ask a client of the handshake era for its roots; return none for any other client, or without an
    answer."""
    capabilities = context.session.client_capabilities
    if capabilities is None or capabilities.roots is None or not context.session.can_send_request:
        return []
    with anyio.move_on_after(ROOTS_TIMEOUT_S), suppress(MCPError):
        found = await context.session.send_request(types.ListRootsRequest(), types.ListRootsResult)
        return [str(root.uri) for root in found.roots]
    return []


def _no_prompt(context: Context) -> str | None:
    capabilities = context.session.client_capabilities
    offered = None if capabilities is None else capabilities.elicitation
    if offered is None or (offered.form is None and offered.url is not None):
        return NO_PROMPT
    return None


def _result(call: PendingCall) -> types.CallToolResult:
    if call.is_cancelled:
        raise MCPError(types.INTERNAL_ERROR, "the session of this call has ended")
    try:
        return call.outcome()
    except CallRejected as error:
        raise MCPError(types.INTERNAL_ERROR, str(error)) from error
    except PaddockError as error:
        told = types.TextContent(text=f"{call.tool} failed: {error}")
        return types.CallToolResult(content=[told], is_error=True)


def offered(names: Iterable[str]) -> list[types.Tool]:
    """Return the tools of Paddock with these names, in the order of the catalogue."""
    return [_tool(each) for each in declarations(names)]


def _tool(declared: Declaration) -> types.Tool:
    return types.Tool(
        name=declared.name,
        title=declared.title,
        description=declared.description,
        input_schema=declared.input_schema,
        output_schema=declared.output_schema,
        annotations=types.ToolAnnotations(
            title=declared.title,
            read_only_hint=declared.is_read_only,
            destructive_hint=not declared.is_read_only,
            idempotent_hint=declared.is_read_only,
            open_world_hint=declared.is_open_world,
        ),
    )
