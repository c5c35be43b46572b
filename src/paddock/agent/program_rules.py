"""Rules about the programs that a command executes, in the form in which an executor takes them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from paddock.protocol.intercept import InterceptParams, InterceptRule
from paddock.rules.policy import Policy
from paddock.rules.rule import PrefixRule


def needed_params(
    policy: Policy, *, on_prompt: Literal["ask", "deny"], distrusted: Iterable[str] = ()
) -> InterceptParams | None:
    """Return the rules of a policy; None if there are none, and every program just runs in its sandbox.

    A start without interception can have a sandbox that is there already.
    """
    if policy.is_empty:
        return None
    return intercept_params(policy, on_prompt=on_prompt, distrusted=distrusted)


def intercept_params(
    policy: Policy, *, on_prompt: Literal["ask", "deny"], distrusted: Iterable[str] = ()
) -> InterceptParams:
    """Return the rules of a policy; `on_prompt` says what becomes of what they want to be asked.

    No program in `distrusted` directories leaves its sandbox.
    """
    return InterceptParams(
        rules=[_rule(rule) for rule in policy.rules],
        host_executables={name: list(paths) for name, paths in policy.host_executables.items()},
        broken_files=[problem.path for problem in policy.problems],
        on_prompt=on_prompt,
        distrusted_paths=list(distrusted),
    )


def _rule(rule: PrefixRule) -> InterceptRule:
    return InterceptRule(
        pattern=[list(words) for words in rule.pattern],
        action=rule.action,
        path=rule.origin.path,
        line=rule.origin.line,
        justification=rule.justification,
        unless=[[list(words) for words in pattern] for pattern in rule.unless],
        free_flags=rule.has_free_flags,
    )
