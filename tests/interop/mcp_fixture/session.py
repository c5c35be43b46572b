"""Sessions whose tools are functions of the tests, on the calls, questions and tasks of `paddock mcp`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import mcp_types as types

from paddock.errors import InvalidToolCall
from paddock.mcp_server.call_table import CallTable
from paddock.mcp_server.pending_call import PendingCall
from paddock.mcp_server.sandbox_state import SandboxState
from paddock.mcp_server.service import Context

PROMPT_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class FixturePrompt:
    """Asks the client for anything; the answer is its result itself."""

    id: str
    request: types.InputRequest
    result_type: type[types.ElicitResult | types.CreateMessageResult | types.ListRootsResult]

    def read(self, answer: types.InputResponse) -> Any | None:
        return answer if isinstance(answer, self.result_type) else None

    def unasked(self, reason: str) -> Any:
        return types.ElicitResult(action="cancel")


@dataclass(frozen=True)
class Turn:
    """One call of a tool, and the request that began it."""

    context: Context
    arguments: Mapping[str, Any]
    call: PendingCall

    async def ask(self, prompt: FixturePrompt) -> Any:
        """The client's answer, perhaps one that came along with the call."""
        given = types.CallToolRequestParams.model_validate(self.context.params).input_responses or {}
        known = prompt.read(given[prompt.id]) if prompt.id in given else None
        return known if known is not None else await self.call.ask(prompt)


@dataclass(frozen=True)
class FixtureTool:
    """A tool that the conformance runner calls by its name."""

    declaration: types.Tool
    run: Callable[[Turn], Awaitable[types.CallToolResult]]


class FixtureSession:
    """The calls of one client."""

    def __init__(self, tools: Mapping[str, FixtureTool]) -> None:
        self.tools = tools
        self.calls = CallTable()

    def at(self, context: Context) -> RequestView:
        """The session as one of its requests sees it."""
        return RequestView(self, context)

    async def aclose(self) -> None:
        self.calls.aclose()


class RequestView:
    """What the service knows of a session."""

    wants_roots = False
    prompt_timeout_s = PROMPT_TIMEOUT_S

    def __init__(self, session: FixtureSession, context: Context) -> None:
        self.sandbox_state: SandboxState | None = None
        self.calls = session.calls
        self._tools = session.tools
        self._context = context

    def take_roots(self, uris: Iterable[str]) -> None:
        raise AssertionError("nobody asked for them")

    def forget_roots(self) -> None:
        return

    def begin(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        no_prompt: str | None,
        state: SandboxState | None = None,
    ) -> PendingCall:
        found = self._tools[tool]
        for name in found.declaration.input_schema.get("required", ()):
            if name not in arguments:
                raise InvalidToolCall(tool, f"{name} is missing")
        call = PendingCall(tool, no_prompt=no_prompt)
        self.calls.add(call)
        call.begin(_run(found, Turn(self._context, arguments, call)))
        return call


async def _run(tool: FixtureTool, turn: Turn) -> types.CallToolResult:
    return await tool.run(turn)
