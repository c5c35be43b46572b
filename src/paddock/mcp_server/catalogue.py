"""Declares the tools to clients: which, in which order, and in which words. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from paddock.agent.agent import TOOLS
from paddock.agent.tool import Tool, schema_of
from paddock.errors import PaddockError
from paddock.mcp_server.shell_arguments import SHELL

SCHEMA_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

ALL_TOOLS: Final[Mapping[str, Tool]] = {tool.name: tool for tool in (SHELL, *TOOLS)}
"""All tools, in the order of every list."""

_TITLES: Final = {
    "shell": "Run a Bash command",
    "exec_command": "Start a command",
    "write_stdin": "Type to a running command",
    "read_file": "Read a file",
    "edit_file": "Edit a file",
    "search_files": "Search files",
    "list_files": "List a directory",
    "apply_patch": "Apply a patch",
}

_REACHING_OUT: Final = frozenset({"shell", "exec_command", "write_stdin"})
"""Tools that may have effects beyond the files of the workspace, as far as profile and rules allow."""


class TextFields(Struct, frozen=True, forbid_unknown_fields=True):
    """The structured result of a tool whose reply is a text."""

    output: str


class Declaration(Struct, frozen=True):
    """A tool in the words of MCP."""

    name: str
    title: str
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]
    is_read_only: bool
    is_open_world: bool


def declarations(names: Iterable[str]) -> list[Declaration]:
    """Return the declarations of tools, in the order of the catalogue."""
    wanted = frozenset(names)
    return [_declaration(tool) for tool in ALL_TOOLS.values() if tool.name in wanted]


def chosen_tools(text: str) -> tuple[str, ...]:
    """Return the tools of a list such as `shell,read_file`. Raises PaddockError for an unknown name."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in ALL_TOOLS:
            raise PaddockError(f"there is no tool {name!r}; there are {', '.join(ALL_TOOLS)}")
    if not names:
        raise PaddockError(f"no tool is named; there are {', '.join(ALL_TOOLS)}")
    return tuple(name for name in ALL_TOOLS if name in names)


def _declaration(tool: Tool) -> Declaration:
    return Declaration(
        name=tool.name,
        title=_TITLES[tool.name],
        description=tool.description,
        input_schema={"$schema": SCHEMA_DIALECT, **tool.parameters},
        output_schema={"$schema": SCHEMA_DIALECT, **schema_of(tool.output or TextFields)},
        is_read_only=tool.is_read_only,
        is_open_world=tool.name in _REACHING_OUT,
    )
