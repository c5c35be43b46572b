"""Resources, prompts, completion and log levels, which `paddock mcp` itself does not have."""

from __future__ import annotations

import json
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from paddock.mcp_server.service import Context
from tests.interop.mcp_fixture.content import PNG, embedded, image, text

STATIC_TEXT = "test://static-text"
STATIC_BINARY = "test://static-binary"
RESOURCE_NOT_FOUND = -32002
"""Of the handshake revisions."""


def install(server: Server[Any]) -> None:
    """Add them all to a server."""
    server.add_request_handler("resources/list", types.PaginatedRequestParams, _resources)
    server.add_request_handler("resources/templates/list", types.PaginatedRequestParams, _templates)
    server.add_request_handler("resources/read", types.ReadResourceRequestParams, _read)
    server.add_request_handler("resources/subscribe", types.SubscribeRequestParams, _nothing)
    server.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, _nothing)
    server.add_request_handler("prompts/list", types.PaginatedRequestParams, _prompts)
    server.add_request_handler("prompts/get", types.GetPromptRequestParams, _prompt)
    server.add_request_handler("completion/complete", types.CompleteRequestParams, _complete)
    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, _nothing)


async def _nothing(context: Context, params: types.RequestParams) -> types.EmptyResult:
    return types.EmptyResult()


async def _resources(context: Context, params: types.PaginatedRequestParams) -> types.ListResourcesResult:
    return types.ListResourcesResult(
        resources=[
            types.Resource(uri=STATIC_TEXT, name="text", description="A text", mime_type="text/plain"),
            types.Resource(uri=STATIC_BINARY, name="image", description="An image", mime_type="image/png"),
        ]
    )


async def _templates(
    context: Context, params: types.PaginatedRequestParams
) -> types.ListResourceTemplatesResult:
    template = types.ResourceTemplate(
        uri_template="test://template/{id}/data",
        name="template",
        description="Data by number",
        mime_type="application/json",
    )
    return types.ListResourceTemplatesResult(resource_templates=[template])


async def _read(context: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    uri = str(params.uri)
    if uri == STATIC_BINARY:
        blob = types.BlobResourceContents(uri=uri, mime_type="image/png", blob=PNG)
        return types.ReadResourceResult(contents=[blob])
    parts = uri.removeprefix("test://template/").split("/")
    if uri == STATIC_TEXT:
        words, kind = "This is the content of the static text resource.", "text/plain"
    elif uri.startswith("test://template/") and len(parts) == 2 and parts[1] == "data":
        data = {"id": parts[0], "templateTest": True, "data": f"Data for ID: {parts[0]}"}
        words, kind = json.dumps(data), "application/json"
    else:
        modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
        code = types.INVALID_PARAMS if modern else RESOURCE_NOT_FOUND
        raise MCPError(code, "Resource not found", {"uri": uri})
    return types.ReadResourceResult(
        contents=[types.TextResourceContents(uri=uri, mime_type=kind, text=words)]
    )


def _argument(name: str) -> types.PromptArgument:
    return types.PromptArgument(name=name, description=f"The argument {name}", required=True)


async def _prompts(context: Context, params: types.PaginatedRequestParams) -> types.ListPromptsResult:
    return types.ListPromptsResult(
        prompts=[
            types.Prompt(name="test_simple_prompt", description="A text"),
            types.Prompt(
                name="test_prompt_with_arguments",
                description="A text with two arguments",
                arguments=[_argument("arg1"), _argument("arg2")],
            ),
            types.Prompt(
                name="test_prompt_with_embedded_resource",
                description="A resource in a prompt",
                arguments=[_argument("resourceUri")],
            ),
            types.Prompt(name="test_prompt_with_image", description="An image in a prompt"),
            types.Prompt(name="test_input_required_result_prompt", description="Asks for its context"),
        ]
    )


async def _prompt(
    context: Context, params: types.GetPromptRequestParams
) -> types.GetPromptResult | types.InputRequiredResult:
    given = params.arguments or {}
    match params.name:
        case "test_simple_prompt":
            return _said(text("This is a simple prompt for testing."))
        case "test_prompt_with_arguments":
            return _said(text(f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'"))
        case "test_prompt_with_embedded_resource":
            resource = embedded(given["resourceUri"], "Embedded resource content for testing.")
            return _said(resource, text("Please process the embedded resource above."))
        case "test_prompt_with_image":
            return _said(image(), text("Please analyze the image above."))
        case "test_input_required_result_prompt":
            return _prompt_that_asks(params.input_responses or {})
        case other:
            raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {other}")


def _prompt_that_asks(answers: types.InputResponses) -> types.GetPromptResult | types.InputRequiredResult:
    answer = answers.get("user_context")
    if isinstance(answer, types.ElicitResult):
        return _said(text(f"The context is {(answer.content or {}).get('context')}."))
    form = {"type": "object", "properties": {"context": {"type": "string"}}, "required": ["context"]}
    question = types.ElicitRequest(
        params=types.ElicitRequestFormParams(
            message="What context should the prompt use?", requested_schema=form
        )
    )
    return types.InputRequiredResult(input_requests={"user_context": question})


def _said(*content: types.ContentBlock) -> types.GetPromptResult:
    return types.GetPromptResult(
        messages=[types.PromptMessage(role="user", content=each) for each in content]
    )


async def _complete(context: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
    values = [word for word in ("paris", "park", "party") if word.startswith(params.argument.value)]
    return types.CompleteResult(completion=types.Completion(values=values, total=len(values), has_more=False))
