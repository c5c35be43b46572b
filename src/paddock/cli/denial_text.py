"""What a sandbox had to do with the end of a command, in words for people. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from paddock.model.cause import Cause
from paddock.model.denial import DenialKind

if TYPE_CHECKING:
    from paddock.client.ending import Ending
    from paddock.model.denial import Denial

_LIMITS: Final = {
    Cause.MEMORY: "memoryBytes",
    Cause.CPU: "cpuSeconds",
    Cause.WALL: "wallSeconds",
    Cause.PROCESSES: "processes",
}

_DEEDS: Final = {
    DenialKind.WRITE: "writing",
    DenialKind.READ: "reading",
    DenialKind.NETWORK: "network access",
    DenialKind.EXEC: "running",
    DenialKind.SYSCALL: "the system call",
}


def explanations(ending: Ending) -> Iterator[str]:
    """One line for each thing that the sandbox did to a command, with the way out.

    Of one that ended well a server tells denials only if it was asked to trace it.
    """
    if ending.cause in _LIMITS:
        yield f"the limit {_LIMITS[ending.cause]} of its profile ended it; raise it if that is too low"
    if ending.cause is Cause.BREACH:
        yield "what its profile keeps from it was moved, removed or replaced by somebody else; run it again"
    for denial in ending.denials:
        yield f"{_what(denial)}; {_way_out(denial)}"
    # A server that tells causes has held the failure against the profile, and found that it allows it.
    if ending.sandbox_denied and not ending.denials and ending.cause is None:
        yield "the sandbox probably made it fail; what it wrote says where, a wider --profile is the way out"


def _what(denial: Denial) -> str:
    verb = "denied" if denial.is_certain else "may have denied"
    target = "" if denial.target is None else f" {denial.target}"
    if target and denial.kind is DenialKind.NETWORK:
        target = f" to{target}"
    rule = "" if denial.rule is None else f" ({denial.rule})"
    return f"the sandbox {verb} {_DEEDS[denial.kind]}{target}{rule}"


def _way_out(denial: Denial) -> str:
    match denial.kind:
        case DenialKind.WRITE | DenialKind.READ as kind:
            place = f'"{denial.target}" = "{kind}"' if denial.target is not None else f"{kind} access there"
            return f"a profile with {place} allows it"
        case DenialKind.EXEC:
            place = f'"{denial.target}" = "read"' if denial.target is not None else "read access there"
            return f"a profile with {place} allows it"
        case DenialKind.NETWORK:
            return 'a profile with network = "loopback" or "enabled" allows it'
        case DenialKind.SYSCALL:
            return "no profile but :danger-full-access allows it"
