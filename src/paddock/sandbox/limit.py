"""Which limits a host can enforce, and why not the others. Pure."""

from __future__ import annotations

from typing import Final

from paddock.model.host import HostFacts, Problem
from paddock.model.profile import Limits

COUNTING_KERNEL: Final = (5, 14)
"""Since then RLIMIT_NPROC counts the processes of one user namespace, not all of the user's."""


def can_count_processes(kernel: tuple[int, int], user: int) -> bool:
    """Whether the processes of a sandbox can be limited. Those of root never are (fork in the kernel)."""
    return user != 0 and kernel >= COUNTING_KERNEL


def unenforceable(limits: Limits, facts: HostFacts) -> Problem | None:
    """What keeps these limits from being enforced; whoever starts a command must refuse it then."""
    if limits.processes is None or facts.can_limit_processes:
        return None
    return processes_problem(facts)


def processes_problem(facts: HostFacts) -> Problem:
    """Why the number of processes can't be limited on a host where it can't."""
    if facts.kernel < COUNTING_KERNEL:
        version = ".".join(map(str, COUNTING_KERNEL))
        detail = "the number of processes can't be limited: this kernel counts all of the user's together"
        return Problem("limits", detail, f"use Linux {version} or newer, or leave the limit out")
    detail = "the number of processes can't be limited: the kernel does not count those of root"
    return Problem("limits", detail, "run paddock as an ordinary user, or leave the limit out")
