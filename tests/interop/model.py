"""The model of a Codex CLI, played by a test.

The CLI asks an HTTP server on loopback what to do next, in the streaming form of the
Responses API. The answer is held back until the test has decided it, so that a test is a
conversation: it has a tool used, looks at what came back, and goes on from there.
Requests to review an approval are answered at once, with a yes.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

from tests.http_origin import Asked, origin, response

Json = dict[str, Any]

LAST_ANSWER = "that is all"
"""What the model says in the end; the CLI prints it."""

_APPROVAL = json.dumps(
    {"risk_level": "low", "user_authorization": "high", "outcome": "allow", "rationale": "part of the test"}
)
_EXIT_CODE = re.compile(r"^(?:Process exited with code|Exit code:) (-?\d+)$", re.MULTILINE)
_SESSION = re.compile(r"^Process running with session ID (\d+)$", re.MULTILINE)
_TOKENS = re.compile(r"^Original token count: (\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Call:
    """One use of a tool: with named arguments, or with a text for tools that take one."""

    tool: str
    arguments: Json | str
    namespace: str | None = None
    """Of a tool that comes from an MCP server."""

    def item(self, call_id: str) -> Json:
        """The call as the model says it."""
        if isinstance(self.arguments, str):
            return {
                "type": "custom_tool_call",
                "call_id": call_id,
                "name": self.tool,
                "input": self.arguments,
            }
        call = {
            "type": "function_call",
            "call_id": call_id,
            "name": self.tool,
            "arguments": json.dumps(self.arguments),
        }
        return call if self.namespace is None else call | {"namespace": self.namespace}


@dataclass(frozen=True, slots=True)
class Reply:
    """What the CLI tells the model after a call: a head of facts, and what was printed."""

    text: str

    @property
    def output(self) -> str:
        """What the command printed; nothing if the call failed before there was one."""
        return self.text.partition("Output:\n")[2]

    @property
    def exit_code(self) -> int | None:
        return self._fact(_EXIT_CODE)

    @property
    def session(self) -> int | None:
        """The number by which a command that is still running can be talked to."""
        return self._fact(_SESSION)

    @property
    def tokens(self) -> int | None:
        """How much the CLI has received, however little of it the model is shown."""
        return self._fact(_TOKENS)

    def _fact(self, pattern: re.Pattern[str]) -> int | None:
        found = pattern.search(self.text.partition("Output:\n")[0])
        return int(found[1]) if found else None


class ModelLeft(Exception):
    """The CLI has ended, so there is nobody left to have a tool used."""


class Model:
    """Answers one CLI. `use` and `say` are for the test, `listen` comes first."""

    def __init__(self) -> None:
        self.url: str
        self._requests: asyncio.Queue[Json | None] = asyncio.Queue()
        self._turns: asyncio.Queue[list[Json]] = asyncio.Queue()
        self._numbers = count(1)

    async def listen(self) -> Json:
        """The first request, with everything that the CLI has gathered for the model to begin with."""
        return await self._next_request()

    async def use(self, *calls: Call) -> list[Reply]:
        """Have tools used, all at once, and give what came of each."""
        named = {f"call-{next(self._numbers)}": call for call in calls}
        self._turns.put_nowait([call.item(call_id) for call_id, call in named.items()])
        request = await self._next_request()
        outputs = {item["call_id"]: item["output"] for item in request["input"] if "output" in item}
        return [Reply(_text(outputs[call_id])) for call_id in named]

    def say(self, text: str) -> None:
        """End the turn with a message: the CLI prints it and leaves."""
        self._turns.put_nowait([_message(text)])

    def leave(self) -> None:
        """Wake a test that waits for a CLI which has ended."""
        self._requests.put_nowait(None)

    async def answer(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        """Carry out one HTTP request."""
        if asked.method != "POST" or asked.target != "/v1/responses":
            writer.write(response(b"", status="404 Not Found"))
            return
        request = json.loads(asked.body)
        if _is_review(request):
            items = [_message(_APPROVAL)]
        else:
            self._requests.put_nowait(request)
            items = await self._turns.get()
        writer.write(response(_stream(items), "Content-Type: text/event-stream"))

    async def _next_request(self) -> Json:
        request = await self._requests.get()
        if request is None:
            raise ModelLeft
        return request


@asynccontextmanager
async def scripted_model() -> AsyncIterator[Model]:
    """A model on a port of its own for the time of the block."""
    model = Model()
    async with origin(model.answer) as server:
        model.url = f"{server.url}/v1"
        yield model


def _is_review(request: Json) -> bool:
    """Whether the CLI asks for a verdict on an approval: it then prescribes the form of the answer."""
    form = (request.get("text") or {}).get("format") or {}
    return "outcome" in form.get("schema", {}).get("properties", {})


def _message(text: str) -> Json:
    return {
        "type": "message",
        "role": "assistant",
        "id": "message",
        "content": [{"type": "output_text", "text": text}],
    }


def _stream(items: Sequence[Json]) -> bytes:
    """A whole response as server-sent events."""
    usage = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
    events: list[Json] = [
        {"type": "response.created", "response": {"id": "response"}},
        *({"type": "response.output_item.done", "item": item} for item in items),
        {"type": "response.completed", "response": {"id": "response", "usage": usage}},
    ]
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()


def _text(output: str | list[Json]) -> str:
    if isinstance(output, str):
        return output
    return "\n".join(part.get("text") or part.get("image_url", "") for part in output)
