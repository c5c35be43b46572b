"""The entry for `paddock mcp` in the configuration of MCP clients. Pure: text in, text out.

It keeps everything that is in a file. It refuses a file that it can't read with certainty, and shows the
entry to add by hand.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import tomli_w
from msgspec import Struct

from paddock.errors import PaddockError

NAME: Final = "paddock"
"""The server's name in every configuration."""


class ClientKind(Struct, frozen=True):
    """Where a client keeps its servers, and in which shape."""

    title: str
    path: str
    """`~` is the home directory, `$NAME` or `${NAME:-DEFAULT}` a variable."""
    key: str
    """The object, or table, that has the servers by name."""
    is_toml: bool = False
    is_typed: bool = False
    """Whether an entry says that the server speaks on standard streams."""


CLIENTS: Final[Mapping[str, ClientKind]] = {
    "claude-code": ClientKind("Claude Code", "~/.claude.json", "mcpServers", is_typed=True),
    "claude-desktop": ClientKind(
        "Claude Desktop", "${XDG_CONFIG_HOME:-~/.config}/Claude/claude_desktop_config.json", "mcpServers"
    ),
    "codex": ClientKind("Codex", "${CODEX_HOME:-~/.codex}/config.toml", "mcp_servers", is_toml=True),
    "cursor": ClientKind("Cursor", "~/.cursor/mcp.json", "mcpServers"),
    "gemini": ClientKind("Gemini CLI", "~/.gemini/settings.json", "mcpServers"),
    "vscode": ClientKind(
        "VS Code", "${XDG_CONFIG_HOME:-~/.config}/Code/User/mcp.json", "servers", is_typed=True
    ),
    "windsurf": ClientKind("Windsurf", "~/.codeium/windsurf/mcp_config.json", "mcpServers"),
}


def entry(kind: ClientKind, command: Sequence[str]) -> dict[str, Any]:
    """Return the entry with which a client starts the server."""
    written: dict[str, Any] = {"type": "stdio"} if kind.is_typed else {}
    return written | {"command": command[0], "args": list(command[1:])}


def with_entry(kind: ClientKind, text: str, command: Sequence[str]) -> str:
    """Return a configuration with the entry in it. Raises PaddockError if that can't be done safely."""
    wanted = entry(kind, command)
    return _toml(kind, text, wanted) if kind.is_toml else _json(kind, text, wanted)


def expanded(path: str, environment: Mapping[str, str], home: str) -> str:
    """Return the path of a configuration for this user."""

    def value(found: re.Match[str]) -> str:
        return environment.get(found[1], "") or found[2]

    return re.sub(r"^~(?=/)", home, re.sub(r"\$\{(\w+):-([^}]*)\}", value, path))


def _json(kind: ClientKind, text: str, wanted: dict[str, Any]) -> str:
    try:
        whole = json.loads(text, object_pairs_hook=_distinct) if text.strip() else {}
    except ValueError as error:
        raise PaddockError(
            f"it is not plain JSON ({error}), perhaps because of comments; add this by hand: "
            f"{json.dumps({kind.key: {NAME: wanted}})}"
        ) from error
    servers = whole.get(kind.key, {}) if isinstance(whole, dict) else None
    known = servers.get(NAME, {}) if isinstance(servers, dict) else None
    if not isinstance(servers, dict) or not isinstance(known, dict):
        raise PaddockError(f"what it has under {kind.key!r} is not what {kind.title} understands")
    # Additions to the entry, such as variables, stay.
    whole = whole | {kind.key: servers | {NAME: known | wanted}}
    indent = re.search(r"^([ \t]+)\"", text, re.MULTILINE)
    written = json.dumps(whole, indent=indent[1] if indent else 2, ensure_ascii=False)
    return f"{written}\n" if text.endswith("\n") or not text else written


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) != len(pairs):
        raise ValueError("a name occurs twice in one object, and one of the two would be lost")
    return dict(pairs)


def _toml(kind: ClientKind, text: str, wanted: dict[str, Any]) -> str:
    block = tomli_w.dumps({kind.key: {NAME: wanted}}).replace(f"[{kind.key}]\n", "").lstrip("\n")
    try:
        whole = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PaddockError(f"it is not TOML ({error})") from error
    servers = whole.get(kind.key, {})
    known = servers.get(NAME) if isinstance(servers, dict) else None
    if isinstance(known, dict) and known | wanted == known:
        return text
    if known is not None:
        raise PaddockError(
            f"it has another [{kind.key}.{NAME}] already; change that by hand to:\n{block.rstrip()}"
        )
    gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    added = f"{text}{gap}{block}"
    try:
        is_same = tomllib.loads(added) == whole | {kind.key: servers | {NAME: wanted}}
    except (tomllib.TOMLDecodeError, TypeError):
        # An inline table, for example, can't be added to from below.
        is_same = False
    if not is_same:
        raise PaddockError(f"an entry can't be added at its end; add this by hand:\n{block.rstrip()}")
    return added
