"""The tools that the conformance runner calls by name, with the results that it wants."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError

from paddock.mcp_server.task import EXTENSION, takes_tasks
from tests.interop.mcp_fixture.content import audio, embedded, image, text
from tests.interop.mcp_fixture.session import FixturePrompt, FixtureTool, Turn

STEP_S = 0.05
"""Between the messages of a tool that tells how far it is."""

LONG_S = 0.5
"""Until a tool that is to become a task goes on; by then it has."""

STRING = {"type": "string"}
NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}}

Run = Callable[[Turn], Awaitable[types.CallToolResult]]


def said(*content: types.ContentBlock, is_error: bool = False) -> types.CallToolResult:
    return types.CallToolResult(content=list(content), is_error=is_error)


def form(
    key: str, message: str, properties: dict[str, Any], required: list[str] | None = None
) -> FixturePrompt:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    schema["required"] = list(properties) if required is None else required
    params = types.ElicitRequestFormParams(message=message, requested_schema=schema)
    return FixturePrompt(key, types.ElicitRequest(params=params), types.ElicitResult)


def sampling(key: str, words: str, max_tokens: int = 100) -> FixturePrompt:
    message = types.SamplingMessage(role="user", content=text(words))
    params = types.CreateMessageRequestParams(messages=[message], max_tokens=max_tokens)
    return FixturePrompt(key, types.CreateMessageRequest(params=params), types.CreateMessageResult)


def roots(key: str) -> FixturePrompt:
    return FixturePrompt(key, types.ListRootsRequest(), types.ListRootsResult)


def require(turn: Turn, name: str) -> None:
    """Refuse a client that did not declare a capability."""
    declared = turn.context.session.client_capabilities
    if declared is None or getattr(declared, name) is None:
        data: dict[str, Any] = {"requiredCapabilities": {name: {}}}
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, f"{name} is needed", data)


# --- one answer ----------------------------------------------------------------


def answers(*content: types.ContentBlock, is_error: bool = False) -> Run:
    """A tool that always gives the same."""

    async def run(turn: Turn) -> types.CallToolResult:
        return said(*content, is_error=is_error)

    return run


async def with_logging(turn: Turn) -> types.CallToolResult:
    for number, message in enumerate(
        ("Tool execution started", "Tool processing data", "Tool execution completed")
    ):
        await asyncio.sleep(STEP_S if number else 0)
        params = types.LoggingMessageNotificationParams(level="info", data=message)
        if "io.modelcontextprotocol/protocolVersion" in (turn.context.meta or {}):
            continue  # A stateless request says whether it wants them, and those of the runner do not.
        await turn.context.session.send_notification(
            types.LoggingMessageNotification(params=params), turn.context.request_id
        )
    return said(text("Tool with logging executed"))


async def with_progress(turn: Turn) -> types.CallToolResult:
    for progress in (0, 50, 100):
        await turn.context.session.report_progress(progress, 100)
        await asyncio.sleep(STEP_S)
    return said(text("Tool with progress executed"))


async def greet(turn: Turn) -> types.CallToolResult:
    return said(text(f"Hello, {turn.arguments['name']}!"))


async def region(turn: Turn) -> types.CallToolResult:
    return said(text(f"In {turn.arguments.get('region')}"))


# --- questions -------------------------------------------------------------------


async def sample(turn: Turn) -> types.CallToolResult:
    require(turn, "sampling")
    answer = await turn.ask(sampling("sample", str(turn.arguments["prompt"])))
    return said(text(f"LLM response: {answer.content.text}"))


async def elicit(turn: Turn) -> types.CallToolResult:
    require(turn, "elicitation")
    properties = {
        "username": STRING | {"description": "User's response"},
        "email": STRING | {"description": "User's email address"},
    }
    answer = await turn.ask(form("user", str(turn.arguments["message"]), properties))
    return said(text(f"User response: action: {answer.action}, content: {answer.content}"))


def completed(message: str, properties: dict[str, Any]) -> Run:
    """A tool that shows a form and tells what came of it."""

    async def run(turn: Turn) -> types.CallToolResult:
        require(turn, "elicitation")
        answer = await turn.ask(form("form", message, properties, required=[]))
        return said(text(f"Elicitation completed: action={answer.action}, content={answer.content}"))

    return run


DEFAULTS: dict[str, Any] = {
    "name": STRING | {"default": "John Doe"},
    "age": {"type": "integer", "default": 30},
    "score": {"type": "number", "default": 95.5},
    "status": STRING | {"enum": ["active", "inactive", "pending"], "default": "active"},
    "verified": {"type": "boolean", "default": True},
}

OPTIONS = ["option1", "option2", "option3"]
TITLED = [{"const": f"value{n}", "title": f"{word} Option"} for n, word in enumerate(("First", "Second"), 1)]
ENUMS: dict[str, Any] = {
    "untitledSingle": STRING | {"enum": OPTIONS},
    "titledSingle": STRING | {"oneOf": TITLED},
    "legacyEnum": STRING | {"enum": OPTIONS, "enumNames": ["One", "Two", "Three"]},
    "untitledMulti": {"type": "array", "items": STRING | {"enum": OPTIONS}},
    "titledMulti": {"type": "array", "items": {"anyOf": TITLED}},
}


def asks(*prompts: FixturePrompt, after_s: float = 0.0) -> Run:
    """A tool that asks all of these at once, and says what was answered."""

    async def run(turn: Turn) -> types.CallToolResult:
        await asyncio.sleep(after_s)
        answered = await asyncio.gather(*(turn.ask(prompt) for prompt in prompts))
        return said(text("; ".join(each.model_dump_json(exclude_none=True) for each in answered)))

    return run


NAME = form("user_name", "What is your name?", {"name": STRING})
CONFIRM = form("confirm", "Please confirm", {"ok": {"type": "boolean"}})


async def confirmed(turn: Turn) -> types.CallToolResult:
    """The service finds the call by its sealed state, or not at all."""
    await turn.ask(CONFIRM)
    return said(text("state-ok"))


async def two_rounds(turn: Turn) -> types.CallToolResult:
    name = await turn.ask(form("step1", "Step 1: What is your name?", {"name": STRING}))
    color = await turn.ask(form("step2", "Step 2: What is your favorite color?", {"color": STRING}))
    return said(text(f"{name.content} likes {color.content}"))


async def what_the_client_can(turn: Turn) -> types.CallToolResult:
    declared = turn.context.session.client_capabilities
    assert declared is not None
    prompts = []
    if declared.elicitation is not None:
        prompts.append(NAME)
    if declared.sampling is not None:
        prompts.append(sampling("greeting", "Generate a greeting"))
    return await asks(*prompts)(turn)


async def needs_sampling(turn: Turn) -> types.CallToolResult:
    require(turn, "sampling")
    return said(text("The client can sample"))


# --- tasks -----------------------------------------------------------------------


def only_as_task(run: Run) -> Run:
    """A tool that a client without tasks can't call."""

    async def checked(turn: Turn) -> types.CallToolResult:
        if not takes_tasks(turn.context):
            data: dict[str, Any] = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
            raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "tasks are needed", data)
        return await run(turn)

    return checked


async def slow_compute(turn: Turn) -> types.CallToolResult:
    await asyncio.sleep(float(turn.arguments.get("seconds", 0)))
    return said(text(f"Computed {turn.arguments.get('label', '')}"))


async def failing_job(turn: Turn) -> types.CallToolResult:
    await asyncio.sleep(LONG_S)
    return said(text("The job failed"), is_error=True)


async def protocol_error_job(turn: Turn) -> types.CallToolResult:
    await asyncio.sleep(LONG_S)
    raise MCPError(types.INTERNAL_ERROR, "The job broke the protocol")


async def asks_then_works(turn: Turn) -> types.CallToolResult:
    answer = await turn.ask(NAME)
    await asyncio.sleep(LONG_S)
    return said(text(f"Worked for {answer.content['name']}"))


# --- all -------------------------------------------------------------------------

RICH_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": STRING, "city": STRING},
        }
    },
    "properties": {
        "name": STRING,
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": STRING | {"enum": ["phone", "email"]},
        "phone": STRING,
        "email": STRING,
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}

MIXED = embedded("test://mixed-content-resource", '{"test":"data","value":123}', "application/json")


def _takes(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


_REGION = {"type": "object", "properties": {"region": STRING | {"x-mcp-header": "Region"}}}
_SECONDS = {"type": "object", "properties": {"seconds": {"type": "number"}, "label": STRING}}

_TABLE: tuple[tuple[str, Run, dict[str, Any]], ...] = (
    ("test_simple_text", answers(text("This is a simple text response for testing.")), NO_ARGUMENTS),
    ("test_image_content", answers(image()), NO_ARGUMENTS),
    ("test_audio_content", answers(audio()), NO_ARGUMENTS),
    (
        "test_embedded_resource",
        answers(embedded("test://embedded-resource", "This is an embedded resource content.")),
        NO_ARGUMENTS,
    ),
    (
        "test_multiple_content_types",
        answers(text("Multiple content types test:"), image(), MIXED),
        NO_ARGUMENTS,
    ),
    (
        "test_error_handling",
        answers(text("This tool intentionally returns an error for testing"), is_error=True),
        NO_ARGUMENTS,
    ),
    ("test_tool_with_logging", with_logging, NO_ARGUMENTS),
    ("test_logging_tool", with_logging, NO_ARGUMENTS),
    ("test_tool_with_progress", with_progress, NO_ARGUMENTS),
    ("test_sampling", sample, _takes(prompt=STRING)),
    ("test_elicitation", elicit, _takes(message=STRING)),
    ("test_elicitation_sep1034_defaults", completed("Please review", DEFAULTS), NO_ARGUMENTS),
    ("test_elicitation_sep1330_enums", completed("Please choose", ENUMS), NO_ARGUMENTS),
    ("test_streaming_elicitation", asks(NAME), NO_ARGUMENTS),
    ("test_missing_capability", needs_sampling, NO_ARGUMENTS),
    ("test_input_required_result_elicitation", asks(NAME), NO_ARGUMENTS),
    (
        "test_input_required_result_sampling",
        asks(sampling("capital_question", "What is the capital of France?")),
        NO_ARGUMENTS,
    ),
    ("test_input_required_result_list_roots", asks(roots("client_roots")), NO_ARGUMENTS),
    ("test_input_required_result_request_state", confirmed, NO_ARGUMENTS),
    ("test_input_required_result_tampered_state", confirmed, NO_ARGUMENTS),
    (
        "test_input_required_result_multiple_inputs",
        asks(NAME, sampling("greeting", "Generate a greeting", 50), roots("client_roots")),
        NO_ARGUMENTS,
    ),
    ("test_input_required_result_multi_round", two_rounds, NO_ARGUMENTS),
    ("test_input_required_result_capabilities", what_the_client_can, NO_ARGUMENTS),
    ("json_schema_2020_12_tool", answers(text("It takes anything that fits its schema")), RICH_SCHEMA),
    ("test_custom_header", region, _REGION),
    ("greet", greet, _takes(name=STRING)),
    ("slow_compute", slow_compute, _SECONDS),
    ("failing_job", only_as_task(failing_job), NO_ARGUMENTS),
    ("protocol_error_job", protocol_error_job, NO_ARGUMENTS),
    (
        "confirm_delete",
        asks(form("confirm", "Delete it?", {"confirm": {"type": "boolean"}}), after_s=LONG_S),
        _takes(filename=STRING),
    ),
    (
        "multi_input",
        asks(NAME, form("confirm", "Go on?", {"confirm": {"type": "boolean"}}), after_s=LONG_S),
        NO_ARGUMENTS,
    ),
    ("test_tool_with_task", asks_then_works, NO_ARGUMENTS),
)

TOOLS: dict[str, FixtureTool] = {
    name: FixtureTool(types.Tool(name=name, description=f"The fixture {name}", input_schema=schema), run)
    for name, run, schema in _TABLE
}
