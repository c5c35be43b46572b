"""One declaration of a tool, in the formats of several APIs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from paddock.agent.agent import TOOLS
from paddock.agent.exec_arguments import EXEC_COMMAND, WRITE_STDIN, ExecArguments
from paddock.agent.file_arguments import ListArguments
from paddock.agent.tool import SchemaFormat, decode_arguments, parse_format
from paddock.errors import InvalidToolCall


def references(schema: Any) -> list[str]:
    if isinstance(schema, dict):
        here = [schema["$ref"]] if "$ref" in schema else []
        return here + [found for value in schema.values() for found in references(value)]
    if isinstance(schema, list):
        return [found for value in schema for found in references(value)]
    return []


@pytest.mark.parametrize("wanted", SchemaFormat)
def test_every_tool_is_declared_without_references_and_closed(wanted: SchemaFormat) -> None:
    keys = {"openai": "parameters", "openai-chat": "parameters", "anthropic": "input_schema"}
    key = keys.get(wanted, "inputSchema")
    for tool in TOOLS:
        schema = tool.schema(wanted)
        assert json.loads(json.dumps(schema)) == schema
        assert references(schema) == []
        if wanted is SchemaFormat.OPENAI_CHAT:
            assert sorted(schema) == ["function", "type"]
            schema = schema["function"]
        assert schema["name"] == tool.name
        parameters = schema[key]
        assert parameters["type"] == "object"
        assert parameters["additionalProperties"] is False
        assert all(each.get("description") for each in parameters["properties"].values())


def test_parameters_of_the_tools_that_models_know() -> None:
    exec_command = EXEC_COMMAND.schema(SchemaFormat.OPENAI)
    assert (exec_command["type"], exec_command["strict"]) == ("function", False)
    parameters = exec_command["parameters"]
    assert parameters["required"] == ["cmd"]
    types = {name: each.get("type") for name, each in parameters["properties"].items()}
    assert (
        types.items()
        >= {
            "cmd": "string",
            "workdir": "string",
            "tty": "boolean",
            "stdin": "string",
            "yield_time_ms": "number",
            "max_output_tokens": "number",
            "shell": "string",
            "justification": "string",
            "prefix_rule": "array",
        }.items()
    )
    assert parameters["properties"]["sandbox_permissions"]["enum"] == [
        "require_escalated",
        "use_default",
        "with_additional_permissions",
    ]
    write_stdin = WRITE_STDIN.schema(SchemaFormat.OPENAI)["parameters"]
    assert write_stdin["required"] == ["session_id"]
    assert write_stdin["properties"]["session_id"]["type"] == "number"


def test_reply_has_a_schema_for_mcp() -> None:
    output = EXEC_COMMAND.schema(SchemaFormat.MCP)["outputSchema"]
    assert sorted(output["required"]) == ["output", "wall_time_seconds"]
    assert set(output["properties"]) == {
        "chunk_id",
        "wall_time_seconds",
        "exit_code",
        "session_id",
        "original_token_count",
        "output",
    }


def test_null_counts_as_left_out() -> None:
    arguments = decode_arguments("exec_command", {"cmd": "ls", "workdir": None, "stdin": None}, ExecArguments)
    assert arguments == ExecArguments("ls")


def test_arguments_may_be_json_as_the_model_wrote_it() -> None:
    assert decode_arguments("exec_command", '{"cmd": "ls", "tty": null}', ExecArguments) == ExecArguments(
        "ls"
    )
    assert decode_arguments("list_files", "", ListArguments) == ListArguments()


def test_format_that_does_not_exist_is_explained() -> None:
    with pytest.raises(ValueError, match="there are openai, openai-chat, anthropic, mcp"):
        parse_format("gemini")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ('{"cmd": "ls"', "not JSON"),
        ("\ud800", "not JSON"),
        ("[" * 10_000, "not JSON"),
        ('["ls"]', "list, not an object"),
        (None, "NoneType, not an object"),
        ({}, "missing required field `cmd`"),
        ({"cmd": 1}, "Expected `str`, got `int` - at `$.cmd`"),
        ({"cmd": "x", "sandbox": 1}, "unknown field `sandbox`"),
        ({"cmd": "x", "yield_time_ms": "1"}, "`$.yield_time_ms`"),
        ({"cmd": "x\ud800"}, "a lone surrogate"),
        ({"cmd": "x", "prefix_rule": ["\udfff"]}, "a lone surrogate"),
        ({"cmd": "x", "yield_time_ms": float("nan")}, "nan is not a number"),
        ({"cmd": "x", "wait_for": {"idle_ms": float("inf")}}, "inf is not a number"),
        ({"cmd": "x", "sandbox_permissions": "all"}, "Invalid enum value 'all'"),
    ],
)
def test_arguments_that_do_not_fit_are_explained(arguments: Any, problem: str) -> None:
    with pytest.raises(InvalidToolCall) as raised:
        decode_arguments("exec_command", arguments, ExecArguments)
    assert problem in str(raised.value)
