"""Executions and rules for tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paddock.intercept.execution import Execution, ScriptLine
from paddock.intercept.verdict import Terms
from paddock.model.decision import Action, Origin
from paddock.rules.policy import Policy
from paddock.rules.rule import PrefixRule

WORK = "/work"
GIVEN = {"PATH": "/usr/bin:/bin", "HOME": "/home/user", "LANG": "C.UTF-8"}


def in_work(path: str) -> bool:
    """The sandbox may write below /work and nowhere else."""
    return path == WORK or path.startswith(f"{WORK}/")


def execution(
    program: str,
    *arguments: str,
    called: str | None = None,
    arg0: str | None = None,
    environment: Mapping[str, str] | None = None,
    **facts: Any,
) -> Execution:
    called = called or program
    facts.setdefault("script_lines", tuple(map(ScriptLine, facts.get("interpreters", ()))))
    return Execution(
        id=facts.pop("id", "1"),
        program=program,
        called=called,
        argv=(called if arg0 is None else arg0, *arguments),
        cwd=facts.pop("cwd", WORK),
        environment=GIVEN if environment is None else environment,
        is_genuine=facts.pop("is_genuine", True),
        **facts,
    )


def rule(action: Action, *words: str, line: int = 1, justification: str | None = None) -> PrefixRule:
    return PrefixRule(tuple((word,) for word in words), action, Origin("/etc/x.rules", line), justification)


def policy(*rules: PrefixRule, **parts: Any) -> Policy:
    return Policy(rules, **parts)


def terms(**changes: Any) -> Terms:
    held: dict[str, Any] = {"is_writable": in_work, "environment": GIVEN}
    return Terms(**(held | changes))
