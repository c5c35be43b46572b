"""Declares a tool to a model, in the format of each kind of API. Pure."""

from __future__ import annotations

import math
import posixpath
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from paddock.errors import InvalidToolCall

S = TypeVar("S", bound=Struct)


class SchemaFormat(StrEnum):
    """The API whose format the declaration of a tool follows."""

    OPENAI = "openai"
    """The format of the Responses API."""
    OPENAI_CHAT = "openai-chat"
    """The format of the Chat Completions API, which many other servers speak."""
    ANTHROPIC = "anthropic"
    MCP = "mcp"


class Tool(Struct, frozen=True):
    """A tool by its name; `arguments` is a struct whose fields and descriptions are the parameters."""

    name: str
    description: str
    arguments: type[Struct]
    output: type[Struct] | None = None
    """The fields of the reply besides its text."""
    is_read_only: bool = False
    hidden: tuple[str, ...] = ()
    """Parameters that the tool understands but does not show to models."""

    @property
    def parameters(self) -> dict[str, Any]:
        """Return the JSON schema of the arguments."""
        schema = schema_of(self.arguments)
        for name in self.hidden:
            del schema["properties"][name]
        return schema

    def schema(self, wanted: SchemaFormat) -> dict[str, Any]:
        """Return the declaration, ready to be sent as JSON."""
        parameters = self.parameters
        match wanted:
            case SchemaFormat.OPENAI:
                return {"type": "function", **self._function(parameters)}
            case SchemaFormat.OPENAI_CHAT:
                return {"type": "function", "function": self._function(parameters)}
            case SchemaFormat.ANTHROPIC:
                return {"name": self.name, "description": self.description, "input_schema": parameters}
            case SchemaFormat.MCP:
                declared: dict[str, Any] = {
                    "name": self.name,
                    "description": self.description,
                    "inputSchema": parameters,
                    "annotations": {"readOnlyHint": self.is_read_only},
                }
                if self.output is not None:
                    declared["outputSchema"] = schema_of(self.output)
                return declared

    def _function(self, parameters: dict[str, Any]) -> dict[str, Any]:
        return {
            "name": self.name,
            "description": self.description,
            "strict": False,
            "parameters": parameters,
        }


def parse_format(wanted: str) -> SchemaFormat:
    """Return the format of a name. Raises ValueError."""
    try:
        return SchemaFormat(wanted)
    except ValueError:
        known = ", ".join(SchemaFormat)
        raise ValueError(f"there is no schema format {wanted!r}; there are {known}") from None


def decode_arguments(tool: str, arguments: Mapping[str, Any] | str, kind: type[S]) -> S:
    """Return a model's arguments, decoded. Raises InvalidToolCall, whose text tells the model what is wrong.

    Some APIs hand on the JSON as the model wrote it. A parameter that is null counts as left out: models of
    some APIs fill in all of them.
    """
    if isinstance(arguments, str):
        arguments = _object(tool, arguments)
    if not isinstance(arguments, Mapping):
        raise InvalidToolCall(tool, f"the arguments are {type(arguments).__name__}, not an object")
    given = {name: value for name, value in arguments.items() if value is not None}
    _check(tool, given)
    try:
        return msgspec.convert(given, type=kind)
    except (msgspec.ValidationError, ValueError) as error:
        raise InvalidToolCall(tool, str(error)) from error


def joined_path(tool: str, directory: str, path: str) -> str:
    """Return the absolute path of what a model names. Raises InvalidToolCall for what no path can be."""
    if "\0" in path:
        raise InvalidToolCall(tool, f"the path {path!r} contains a NUL byte")
    return posixpath.join(directory, path) if path else directory


def _object(tool: str, written: str) -> Any:
    try:
        # Some models send a call without arguments as an empty text.
        return msgspec.json.decode(written) if written.strip() else {}
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise InvalidToolCall(tool, f"the arguments are not JSON: {error}") from error


def _check(tool: str, value: Any) -> None:
    """Refuse what some readers of JSON accept, and nobody can carry out or pass on."""
    match value:
        case dict():
            for each in value.values():
                _check(tool, each)
        case list():
            for each in value:
                _check(tool, each)
        case str():
            try:
                value.encode()
            except UnicodeEncodeError as error:
                raise InvalidToolCall(tool, "a text contains half a character (a lone surrogate)") from error
        case float() if not math.isfinite(value):
            raise InvalidToolCall(tool, f"{value} is not a number")


def schema_of(kind: type[Struct]) -> dict[str, Any]:
    """Return the JSON schema of a struct as one object, for not every API follows references."""
    (schema,), parts = msgspec.json.schema_components((kind,), ref_template="{name}")
    resolved: dict[str, Any] = _resolved(schema, parts)
    resolved.pop("title", None)
    resolved.pop("description", None)
    return resolved


def _resolved(schema: Any, parts: Mapping[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_resolved(item, parts) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        part = dict(_resolved(parts[schema["$ref"]], parts))
        part.pop("title", None)
        return part | {name: value for name, value in schema.items() if name != "$ref"}
    return {name: _resolved(value, parts) for name, value in schema.items()}
