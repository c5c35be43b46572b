"""Codex's settings on this host, layer by layer, reduced to the requested keys.

The layers are those of the machine (`/etc/codex`) and of the user; the client judges a project's
own settings. `insertion_index` is where a client puts layers that it has from
elsewhere: after the machine's, before the user's.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from functools import partial
from typing import Any

import tomli_w
from msgspec import Struct

from paddock.discovery.files import MAX_FILE_BYTES, Files
from paddock.discovery.toml_text import parse_toml
from paddock.errors import InvalidParams, NotFound, OperationFailed, RequestError

MACHINE_DIRECTORY = b"/etc/codex"

KeyPath = Sequence[str]


class Home(Struct, frozen=True):
    """The user's directories."""

    user_home: bytes
    codex_home: bytes
    machine: bytes = MACHINE_DIRECTORY

    @property
    def config_file(self) -> bytes:
        """Return the settings of the user."""
        return posixpath.join(self.codex_home, b"config.toml")


class Layer(Struct, frozen=True):
    """What one file says about the keys in question, as TOML."""

    source: str
    directory: bytes
    toml: str


class Layers(Struct, frozen=True):
    """Layers, weakest first."""

    layers: list[Layer]
    insertion_index: int


async def read_settings(
    home: Home, config_paths: Sequence[KeyPath], requirements_paths: Sequence[KeyPath], files: Files
) -> tuple[Layers, Layers]:
    """Read settings and requirements. Raises InvalidParams, and OperationFailed for a file in error."""
    if not config_paths and not requirements_paths:
        raise InvalidParams("at least one config or requirements path is required")
    if not all((*config_paths, *requirements_paths)):
        raise InvalidParams("TOML paths must contain at least one key segment")
    machine = posixpath.join(home.machine, b"config.toml")
    managed = posixpath.join(home.machine, b"managed_config.toml")
    required = posixpath.join(home.machine, b"requirements.toml")
    managed_table = await read_table(managed, files)
    machine_table, user_table, required_table = [
        await read_table(path, files) for path in (machine, home.config_file, required)
    ]
    config = [
        (f"system ({_text(machine)})", machine, machine_table),
        (f"user ({_text(home.config_file)})", home.config_file, user_table),
        (f"legacy managed_config.toml ({_text(managed)})", managed, managed_table),
    ]
    requirements = [
        (_text(required), required, required_table),
        (_text(managed), managed, _requirements_of(managed_table)),
    ]
    return (
        await files.compute(partial(_layers, config, config_paths)),
        await files.compute(partial(_layers, requirements, requirements_paths)),
    )


async def read_table(path: bytes, files: Files) -> dict[str, Any]:
    """Read a TOML file; one that does not exist says nothing. Raises OperationFailed."""
    try:
        data = await files.read(path, MAX_FILE_BYTES + 1)
    except NotFound:
        return {}
    except RequestError as error:
        raise OperationFailed(f"failed to load executor-local config: {error}") from error
    if len(data) > MAX_FILE_BYTES:
        raise OperationFailed(
            f"failed to load executor-local config: {_text(path)} is larger than {MAX_FILE_BYTES} bytes"
        )
    return await files.compute(partial(_table, path, data))


def _table(path: bytes, data: bytes) -> dict[str, Any]:
    try:
        return parse_toml(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise OperationFailed(f"failed to load executor-local config: {_text(path)}: {error}") from error


def select(table: dict[str, Any], paths: Sequence[KeyPath]) -> dict[str, Any]:
    """Select the part of a table that the paths name; a path that ends early in a value gives that value."""
    selected: dict[str, Any] = {}
    for path in paths:
        _select_one(table, path, selected)
    return selected


def _select_one(table: dict[str, Any], path: KeyPath, into: dict[str, Any]) -> None:
    key, rest = path[0], path[1:]
    if key not in table:
        return
    value = table[key]
    if not rest or not isinstance(value, dict):
        into[key] = value
        return
    present = into.get(key)
    if present is value:
        return
    part: dict[str, Any] = dict(present) if isinstance(present, dict) else {}
    _select_one(value, rest, part)
    if part:
        into[key] = part


def _requirements_of(managed: dict[str, Any]) -> dict[str, Any]:
    """Translate the requirements of administrators' older file into the terms of the newer one."""
    requirements: dict[str, Any] = {}
    policy, mode = managed.get("approval_policy"), managed.get("sandbox_mode")
    if isinstance(policy, str):
        requirements["allowed_approval_policies"] = [policy]
    if isinstance(mode, str):
        # A value that permits less is always allowed.
        requirements["allowed_sandbox_modes"] = list(dict.fromkeys(["read-only", mode]))
    return requirements


def _layer(source: str, path: bytes, table: dict[str, Any], paths: Sequence[KeyPath]) -> Layer | None:
    selected = select(table, paths)
    return Layer(source, posixpath.dirname(path), tomli_w.dumps(selected)) if selected else None


def _layers(tables: Sequence[tuple[str, bytes, dict[str, Any]]], paths: Sequence[KeyPath]) -> Layers:
    """Collect the layers. The machine's comes first; a client adds its own after it."""
    found = [_layer(*table, paths) for table in tables]
    layers = [layer for layer in found if layer is not None]
    return Layers(layers, insertion_index=0 if found[0] is None else 1)


def _text(path: bytes) -> str:
    return path.decode("utf-8", "replace")
