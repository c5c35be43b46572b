"""The environment of a child, derived from the server's by a policy. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

CORE_VARIABLES = frozenset(
    {"PATH", "SHELL", "TMPDIR", "TEMP", "TMP", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "USER"}
)
DEFAULT_EXCLUDES = ("*KEY*", "*SECRET*", "*TOKEN*")

NEVER_INHERITED = frozenset(
    {
        "NODE_REPL_AUTH_TOKEN",
        "CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN",
        "OPENAI_FEDERATION_RULE_ID",
        "OPENAI_IDENTITY_TOKEN_FILE",
        "OPENAI_WORKLOAD_IDENTITY_CONTEXT",
        "CODEX_EXEC_SERVER_EXIT_ON_STDIN_CLOSE",
        "PADDOCK_TOKEN",
    }
)
"""Credentials of whoever launched the server; no child gets them, not even when a client names them."""

TOOL_CALL_VARIABLE = "CODEX_TOOL_CALL_ID"
THREAD_VARIABLE = "CODEX_THREAD_ID"
"""Tell a child which tool call, of which conversation, it belongs to."""


class Inherit(StrEnum):
    """How much of the server's environment a policy starts from."""

    ALL = "all"
    CORE = "core"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class InheritancePolicy:
    """Which variables of the server a child inherits. Patterns are globs that ignore case."""

    inherit: Inherit
    ignore_default_excludes: bool
    exclude: tuple[str, ...]
    assign: Mapping[str, str]
    include_only: tuple[str, ...]


def child_environment(
    base: Mapping[str, str], policy: InheritancePolicy | None, overlay: Mapping[str, str]
) -> dict[str, str]:
    """The child's environment: what the policy takes from `base`, then `overlay`, unfiltered.

    Without a policy nothing is inherited.
    """
    environment = _inherited(base, policy) if policy is not None else {}
    environment.update(overlay)
    return {name: value for name, value in environment.items() if name.upper() not in NEVER_INHERITED}


def _inherited(base: Mapping[str, str], policy: InheritancePolicy) -> dict[str, str]:
    kept: dict[str, str]
    match policy.inherit:
        case Inherit.ALL:
            kept = dict(base)
        case Inherit.CORE:
            kept = {name: value for name, value in base.items() if name.upper() in CORE_VARIABLES}
        case Inherit.NONE:
            kept = {}
        case _:
            assert_never(policy.inherit)
    excludes = policy.exclude if policy.ignore_default_excludes else (*DEFAULT_EXCLUDES, *policy.exclude)
    if excludes:
        is_excluded = _matcher(excludes)
        kept = {name: value for name, value in kept.items() if not is_excluded(name)}
    kept.update(policy.assign)
    if policy.include_only:
        is_included = _matcher(policy.include_only)
        kept = {name: value for name, value in kept.items() if is_included(name)}
    return kept


def _matcher(patterns: Iterable[str]) -> Callable[[str], re.Match[str] | None]:
    # Only * and ? are special, as in the reference; brackets stand for themselves.
    globs = (re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".") for pattern in patterns)
    return re.compile("|".join(globs), re.IGNORECASE | re.DOTALL).fullmatch
