"""The environment of a child, derived from the server's by a policy. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import assert_never

from msgspec import Struct

from paddock.errors import InvalidParams
from paddock.wildcard import WildcardList, folded

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
"""Credentials of the server's launcher. No child gets them, not even if a client names them."""

WORK_LIMIT = 8_000_000
"""Limit for the size of all names times that of all patterns with wildcards: a few milliseconds, in which the
server does nothing else. 400 variables and 25 patterns of 20 characters each are just within it."""

NAME_COST = 8
"""What a name adds to the size in addition to its characters."""

REMEMBERED_POLICIES = 16
"""Number of pattern lists that are kept ready: nearly every start brings the same ones. The wire bounds their
lengths (`protocol/bound.py`)."""

TOOL_CALL_VARIABLE = "CODEX_TOOL_CALL_ID"
THREAD_VARIABLE = "CODEX_THREAD_ID"
"""Tell a child which tool call, of which conversation, it belongs to."""


class Inherit(StrEnum):
    """How much of the server's environment a policy starts from."""

    ALL = "all"
    CORE = "core"
    NONE = "none"


class InheritancePolicy(Struct, frozen=True):
    """Which variables of the server a child inherits. Patterns are globs that ignore case."""

    inherit: Inherit
    ignore_default_excludes: bool
    exclude: tuple[str, ...]
    assign: Mapping[str, str]
    include_only: tuple[str, ...]


def child_environment(
    base: Mapping[str, str], policy: InheritancePolicy | None, overlay: Mapping[str, str]
) -> dict[str, str]:
    """Return the child's environment: what the policy takes from `base`, then `overlay`, unfiltered.

    Without a policy nothing is inherited. Raises InvalidParams for a policy that would take long to apply.
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
        for name in _named(kept, excludes):
            del kept[name]
    kept.update(policy.assign)
    if policy.include_only:
        included = _named(kept, policy.include_only)
        kept = {name: value for name, value in kept.items() if name in included}
    return kept


def _named(names: Collection[str], patterns: Collection[str]) -> set[str]:
    """Return the names that match the patterns. Raises InvalidParams if matching would take long."""
    ready = _ready(tuple(patterns))
    if sum(NAME_COST + len(name) for name in names) * ready.size > WORK_LIMIT:
        raise InvalidParams(
            f"params.envPolicy: {len(patterns)} patterns for {len(names)} variables take too long; give fewer"
        )
    return {name for name in names if ready.matches_folded(folded(name))}


# Brackets stand for themselves, as in the reference.
_ready = lru_cache(REMEMBERED_POLICIES)(WildcardList)
