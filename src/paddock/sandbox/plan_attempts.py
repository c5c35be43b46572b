"""Bounds how often a sandbox is planned again for one command. Pure.

Between the plan and the last mount, other programs may change the files that the plan relies on. Different
steps notice that: making the placeholders, looking up the mounts, and bubblewrap or the init after the start.
Each asks here whether to plan again, so there is one count for all.
"""

from __future__ import annotations

from typing import Final

PLAN_LIMIT: Final = 6
"""Plans for one command. Files at rest need one, and a single change, such as a checkout, needs a second.
Files that still differ after six plans, of milliseconds each, change all the time."""


class PlanAttempts:
    """Counts the plans for one command, and remembers why each failed."""

    def __init__(self) -> None:
        self._problems: list[str] = []

    def may_plan_again(self, problem: str) -> bool:
        """Note why the last plan failed, and return whether to make another."""
        self._problems.append(problem)
        return len(self._problems) < PLAN_LIMIT

    @property
    def problems(self) -> str:
        """Return the distinct problems, in the order in which they first appeared."""
        return "; ".join(dict.fromkeys(self._problems))
