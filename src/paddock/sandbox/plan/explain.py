"""Explains in words what confines a command and why. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import assert_never

from msgspec.structs import asdict

from paddock.model.host import Enforcement
from paddock.model.profile import Limits, NetworkMode
from paddock.printable import printable
from paddock.sandbox.plan import seccomp
from paddock.sandbox.plan.landlock import Ruleset
from paddock.sandbox.plan.mount import (
    Bind,
    Devices,
    EmptyDirectory,
    InitProgram,
    Mount,
    Processes,
    Seal,
    Shortcut,
    UnreadableFile,
)
from paddock.sandbox.plan.plan import Plan

_NETWORKS = {
    NetworkMode.RESTRICTED: "none: no sockets but connected pairs, in a network of its own",
    NetworkMode.LOOPBACK: "a private loopback: nothing enters or leaves",
    NetworkMode.PROXIED: "a private loopback, from which a proxy leads to the hosts that are allowed",
    NetworkMode.ENABLED: "that of the host",
}


def explain(plan: Plan, enforcement: Enforcement, alone: Ruleset | None = None) -> str:
    """Describe the confinement in order, one step a line; `alone` is the ruleset that replaces the mounts.

    Commands may have chosen the names, so no name can disturb a terminal or pass for another step.
    """
    lines = _lines(plan, enforcement) if alone is None else _lines_alone(plan, enforcement, alone)
    return "\n".join(map(printable, (*lines, *_system_calls(plan)))) + "\n"


def _lines(plan: Plan, enforcement: Enforcement) -> Iterator[str]:
    yield f"enforcement      {enforcement}"
    yield f"network          {_NETWORKS[plan.network]}"
    yield "processes        it sees only its own, and all end with it; no capabilities, no new privileges"
    yield f"limits           {_limits(plan.limits)}"
    yield f"works in         {plan.cwd}"
    if plan.placeholders:
        yield "held meanwhile   " + " ".join(placeholder.path for placeholder in plan.placeholders)
    yield ""
    yield "files, in the order in which the view is built:"
    for mount in plan.mounts:
        what, path, reason = _description(mount)
        yield f"  {what:<11} {path}" + (f"  ({reason})" if reason else "")


def _lines_alone(plan: Plan, enforcement: Enforcement, ruleset: Ruleset) -> Iterator[str]:
    yield f"enforcement      {enforcement}: Landlock alone, without namespaces"
    yield "network          none: no sockets but connected pairs"
    yield "processes        those of the host are visible; no new privileges"
    yield f"limits           {_limits(plan.limits)}"
    yield f"works in         {plan.cwd}"
    yield ""
    yield "files: everything is readable, and only these and what is below them are writable:"
    yield from (f"  read-write  {path}" for path in ruleset.writable)


def _system_calls(plan: Plan) -> Iterator[str]:
    yield ""
    yield "system calls that are refused:"
    for reason, rules in groupby(seccomp.rules(plan.network), key=lambda rule: rule.reason):
        calls = dict.fromkeys(rule.call + (" (some)" if rule.conditions else "") for rule in rules)
        yield f"  {', '.join(calls)}: {reason}"


def _limits(limits: Limits) -> str:
    given = [f"{name}={value}" for name, value in asdict(limits).items() if value is not None]
    return " ".join(given) or "none"


def _description(mount: Mount) -> tuple[str, str, str]:
    match mount:
        case Bind(path=path, is_writable=is_writable, reason=reason):
            return ("read-write" if is_writable else "read-only", path, reason)
        case EmptyDirectory(path=path, mode=mode, reason=reason):
            return ("empty", path, f"{reason}; mode {mode:03o}")
        case UnreadableFile(path=path, reason=reason):
            return ("unreadable", path, reason)
        case Seal(path=path):
            return ("sealed", path, "nothing can be made or changed in it")
        case Shortcut(path=path, target=target):
            return ("link", path, f"to {target}")
        case Devices(path=path):
            return ("devices", path, "null, zero, full, random, urandom, tty, pts, shm")
        case Processes(path=path):
            return ("processes", path, "those of the sandbox")
        case InitProgram(path=path):
            return ("program", path, "the first process")
        case _:
            assert_never(mount)
