"""Reads a skill's description of itself: the front matter of `SKILL.md`, and `agents/openai.yaml` beside it.

Both are YAML that people write. A description with a colon in it is not YAML, but it is common;
so lines that are plain `key: value` pairs are understood where YAML gives up.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any, TypeVar

import msgspec
import yaml
from msgspec import Struct

from paddock.discovery.root import SkillFiles

_FRONT_MATTER = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*$", re.DOTALL | re.MULTILINE)
_PAIR = re.compile(r"^([A-Za-z][\w-]*):[ \t]+(\S.*)$", re.MULTILINE)

T = TypeVar("T", bound=Struct)

MAX_YAML_CHARACTERS = 64 * 1024
"""YAML is slow to read, and no sensible description of a skill is longer than this."""

_SAFE_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_SAFE_LOADER):  # type: ignore[misc]
    """Makes plain values only, and has no merge keys: thirty lines with those take a gigabyte."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Leave the node as it is; a merge key is then an unknown tag, and an error."""


class Tool(Struct, frozen=True, kw_only=True):
    """A tool that a skill needs."""

    type: str
    value: str
    description: str | None = None
    transport: str | None = None
    command: str | None = None
    url: str | None = None
    oauth_callback_port: int | None = None


class Dependencies(Struct, frozen=True, kw_only=True):
    """What a skill needs."""

    tools: list[Tool] = []


class Policy(Struct, frozen=True, kw_only=True):
    """When a skill may be used."""

    allow_implicit_invocation: bool | None = None
    products: list[str] = []


class Skill(Struct, frozen=True):
    """One skill."""

    name: str
    description: str
    short_description: str | None
    path: bytes
    dependencies: Dependencies | None
    policy: Policy | None


def describe(files: SkillFiles, prefix: str = "") -> Skill:
    """Read a skill's description of itself, and put `prefix` before its name. Raises ValueError."""
    front = _front_matter(files.instructions.contents)
    description = front.get("description")
    if not isinstance(description, str) or not description.strip():
        raise ValueError("its front matter has no description")
    name = front.get("name")
    if not isinstance(name, str) or not name.strip():
        folder = posixpath.basename(posixpath.dirname(files.instructions.path))
        name = folder.decode("utf-8", "replace")
    more = front.get("metadata")
    short = more.get("short-description") if isinstance(more, dict) else None
    agent = _mapping(files.metadata.contents) if files.metadata is not None else {}
    return Skill(
        name=prefix + _one_line(name),
        description=_one_line(description),
        short_description=_one_line(short) if isinstance(short, str) else None,
        path=files.instructions.path,
        dependencies=_part(agent, "dependencies", Dependencies),
        policy=_part(agent, "policy", Policy),
    )


def _front_matter(text: str) -> dict[str, Any]:
    found = _FRONT_MATTER.match(text)
    if found is None:
        raise ValueError("it does not begin with front matter between lines of `---`")
    try:
        return _mapping(found[1])
    except ValueError:
        pairs = {
            key: value.rstrip(" \t").strip("'\"")
            for key, value in _PAIR.findall(found[1][:MAX_YAML_CHARACTERS])
        }
        if not pairs:
            raise
        return pairs


def _mapping(text: str) -> dict[str, Any]:
    if len(text) > MAX_YAML_CHARACTERS:
        raise ValueError(f"it has more than {MAX_YAML_CHARACTERS} characters of YAML")
    try:
        value = yaml.load(text, _Loader)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError("it is not valid YAML") from error
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError("it is not a YAML mapping")
    return value


def _part(agent: dict[str, Any], key: str, kind: type[T]) -> T | None:
    if agent.get(key) is None:
        return None
    try:
        return msgspec.convert(agent[key], kind)
    except msgspec.ValidationError as error:
        raise ValueError(f"its {key} are not understood: {error}") from error


def _one_line(text: str) -> str:
    return " ".join(text.split())
