"""Bounds how often a sandbox is planned again for one command. Pure.

Between the plan and the moment when everything is mounted, other programs may change the files that the
plan was made of. That is noticed at different points: while placeholders are made, while mounts are looked
up, and by bubblewrap or the init after the start. Each of them asks here whether another plan may be made,
so there is one count for all.
"""

from __future__ import annotations

from typing import Final

PLAN_LIMIT: Final = 6
"""Plans for one command. Files at rest need one, and a change that comes once, such as a checkout, a second.
What still differs after six, each of which takes milliseconds, differs all the time."""


class PlanAttempts:
    """Counts the plans for one command, and remembers why they were of no use."""

    def __init__(self) -> None:
        self._problems: list[str] = []

    def may_plan_again(self, problem: str) -> bool:
        """Note why the last plan was of no use, and return whether another may be made."""
        self._problems.append(problem)
        return len(self._problems) < PLAN_LIMIT

    @property
    def problems(self) -> str:
        """Every problem that was noted, once each, in the order of their first time."""
        return "; ".join(dict.fromkeys(self._problems))
