"""Tells which limits a host can enforce, and why it can't enforce the others. Pure.

paddock-init sets each as a resource limit of the kernel. A control group replaces a resource limit only where
that does not bind (`cgroup`). The total memory of all processes always needs a group.
"""

from __future__ import annotations

from typing import Final

from paddock.model.host import HostFacts, Problem
from paddock.model.profile import Limits

COUNTING_KERNEL: Final = (5, 14)
"""Since then RLIMIT_NPROC counts the processes of one user namespace, not all of the user's."""


MEMORY_PROBLEM: Final = Problem(
    "limits",
    "the memory of a command as a whole can't be limited: that takes a control group with `memory`, and none "
    "can be made here",
    "run paddock in a unit of systemd with Delegate=yes, as in `systemd-run --user --scope -p Delegate=yes "
    "paddock ...`, or limit each process: addressSpaceBytes instead of totalMemoryBytes",
)


def can_count_processes(kernel: tuple[int, int], user: int) -> bool:
    """Return whether RLIMIT_NPROC can limit a sandbox's processes. It never binds root (kernel's fork)."""
    return user != 0 and kernel >= COUNTING_KERNEL


def unenforceable(limits: Limits, facts: HostFacts) -> Problem | None:
    """Return what keeps these limits from being enforced, and so the command from being started; or None."""
    if limits.total_memory_bytes is not None and facts.memory_cgroup is None:
        return MEMORY_PROBLEM
    if limits.processes is None or facts.can_limit_processes:
        return None
    return processes_problem(facts)


def processes_problem(facts: HostFacts) -> Problem:
    """Return why the number of processes can't be limited on a host where it can't."""
    if facts.kernel < COUNTING_KERNEL:
        version = ".".join(map(str, COUNTING_KERNEL))
        detail = (
            "the number of processes can't be limited: this kernel counts all processes of the user together"
        )
        return Problem("limits", detail, f"use Linux {version} or newer, or leave the limit out")
    detail = "the number of processes can't be limited: the kernel counts root's in control groups only"
    return Problem(
        "limits",
        f"{detail}, and none can be made here",
        "run paddock as an ordinary user or in a unit of systemd with Delegate=yes, or leave the limit out",
    )
