"""Tells whether a host can trace commands, or decide on what they execute, and why not. Pure."""

from __future__ import annotations

from typing import Final

from paddock.model.host import HostFacts, Problem

TRACING_KERNEL: Final = (5, 5)
"""Since this version, a supervisor can let a call continue (seccomp_unotify(2))."""


INTERCEPTING_KERNEL: Final = (5, 14)
"""Since this version, a supervisor can answer a call with a descriptor."""

INTERCEPTING_MACHINE: Final = "x86_64"
"""The only machine whose registers Paddock knows, and on which interception was tested."""


def untraceable(facts: HostFacts, *, has_namespaces: bool) -> Problem | None:
    """Return what keeps commands from being traced, if anything; the caller must not start one then."""
    if not has_namespaces:
        return Problem(
            "trace", "only what bubblewrap confines can be traced", "use bubblewrap, or do not trace"
        )
    if facts.kernel < TRACING_KERNEL:
        version = ".".join(map(str, TRACING_KERNEL))
        return Problem(
            "trace",
            "this kernel can't report refused calls",
            f"use Linux {version} or newer, or do not trace",
        )
    return None


def uninterceptable(facts: HostFacts, *, has_namespaces: bool) -> Problem | None:
    """Return what keeps every back-end from intercepting executions, as `untraceable` does."""
    if not has_namespaces:
        return Problem(
            "intercept",
            "only what bubblewrap confines can be intercepted",
            "use bubblewrap, or do not intercept",
        )
    return None


def unnotifiable(facts: HostFacts) -> Problem | None:
    """Return what keeps the kernel from asking about executions, as far as versions tell."""
    if facts.arch != INTERCEPTING_MACHINE:
        return Problem(
            "notify",
            f"it is not there for {facts.arch}",
            f"use {INTERCEPTING_MACHINE}, or the wrapper (make bash)",
        )
    if facts.kernel < INTERCEPTING_KERNEL:
        version = ".".join(map(str, INTERCEPTING_KERNEL))
        return Problem(
            "notify",
            "this kernel can't report what is executed",
            f"use Linux {version} or newer, or the wrapper (make bash)",
        )
    return None
