"""Rules and policies for tests, written short."""

from __future__ import annotations

from collections.abc import Sequence

from paddock.model.decision import Action, Origin
from paddock.rules.rule import Pattern, PrefixRule

HERE = Origin("test.rules", 1)


def pattern(*places: str | Sequence[str]) -> Pattern:
    return tuple((place,) if isinstance(place, str) else tuple(place) for place in places)


def rule(
    *places: str | Sequence[str],
    action: Action = Action.ALLOW,
    unless: Sequence[Pattern] = (),
    has_free_flags: bool = False,
    justification: str | None = None,
    line: int = 1,
) -> PrefixRule:
    return PrefixRule(
        pattern(*places),
        action,
        Origin("test.rules", line),
        justification,
        tuple(unless),
        has_free_flags,
    )
