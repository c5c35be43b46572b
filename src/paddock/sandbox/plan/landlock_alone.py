"""Has Landlock alone enforce a plan: it hides nothing and restricts only writing. Pure."""

from __future__ import annotations

from paddock.errors import SandboxUnavailable
from paddock.model.denial import OWN
from paddock.model.profile import Access
from paddock.sandbox.plan import landlock
from paddock.sandbox.plan.plan import PRIVATE, Plan
from paddock.sandbox.profile.access import AccessTable
from paddock.sandbox.profile.path import ROOT


def ruleset_alone(plan: Plan, abi: int) -> landlock.Ruleset:
    """Return the ruleset that enforces a plan instead of its mounts.

    Raises SandboxUnavailable, with every reason, when only mounts could.
    """
    ruleset = landlock.alone(_reach(plan), abi)
    if isinstance(ruleset, tuple):
        raise SandboxUnavailable(
            f"Landlock alone can't enforce the profile: {'; '.join(ruleset)}",
            "switch use_legacy_landlock off, or use another profile",
        )
    return ruleset


def _reach(plan: Plan) -> landlock.Reach:
    table = AccessTable(plan.rules)
    return landlock.Reach(
        is_fully_readable=all(rule.access is not Access.DENY or rule.origin == PRIVATE for rule in plan.rules)
        and table.access_of(ROOT) is not Access.DENY,
        is_fully_writable=table.access_of(ROOT) is Access.WRITE,
        writable=tuple(rule.path for rule in plan.rules if rule.access is Access.WRITE),
        exceptions=tuple(
            rule.path
            for rule in plan.rules
            if rule.access is not Access.WRITE
            and table.access_around(rule.path) is Access.WRITE
            # A command that may write everything may also write what Paddock's programs depend on.
            and not (rule.origin == OWN and table.access_of(ROOT) is Access.WRITE)
        ),
        network=plan.network,
        has_process_limit=plan.limits.processes is not None,
    )
