"""Explains what a sandbox had to do with the end of a command, in words for people. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from paddock.model.cause import Cause
from paddock.model.denial import OWN, DenialKind
from paddock.model.endpoint import Endpoint, NetworkProtocol
from paddock.model.host_pattern import ANY, LOCAL_NAMES, WEB_PORTS, normal_host, parse_address, split_port
from paddock.model.profile import NetworkMode
from paddock.printable import printable

if TYPE_CHECKING:
    from paddock.client.ending import Ending
    from paddock.model.denial import Denial, Trace
    from paddock.model.profile import Limits

_LIMITS: Final[dict[Cause | None, str]] = {
    Cause.CPU: "cpuSeconds",
    Cause.WALL: "wallSeconds",
    Cause.PROCESSES: "processes",
}

PROXIED: Final = f"network = {NetworkMode.PROXIED}"
"""How a rule begins that leaves nothing but the proxy."""

_DEEDS: Final = {
    DenialKind.WRITE: "writing",
    DenialKind.READ: "reading",
    DenialKind.NETWORK: "network access",
    DenialKind.EXEC: "running",
    DenialKind.SYSCALL: "the system call",
}
_NAMELESS_DEEDS: Final = {
    DenialKind.WRITE: "writing to a file",
    DenialKind.READ: "reading a file",
    DenialKind.NETWORK: "network access",
    DenialKind.EXEC: "running a program",
    DenialKind.SYSCALL: "a system call",
}
"""What to say where nobody knows the name."""


def explanations(ending: Ending, limits: Limits | None = None) -> Iterator[str]:
    """Yield one line for each thing that the sandbox did to a command, with the way out.

    For a command that succeeded, a server reports denials only if it was asked to trace it. `limits` are
    those of the profile, if it is known here: a server tells only that memory was the cause.
    """
    limit = _memory_limit(limits) if ending.cause is Cause.MEMORY else _LIMITS.get(ending.cause)
    if limit is not None:
        yield f"the limit {limit} of its profile ended it; raise it if that is too low"
    if ending.cause is Cause.BREACH:
        yield "somebody moved, removed or replaced what its profile denies it; run it again"
    for denial in ending.denials:
        yield explanation(denial)
    # A server that reports causes has checked the failure against the profile, and found that the profile
    # allows it.
    if ending.sandbox_denied and not ending.denials and ending.cause is None:
        yield "the sandbox probably made it fail; its output says where, and a wider --profile may help"


def _memory_limit(limits: Limits | None) -> str:
    has_total = limits is None or limits.total_memory_bytes is not None
    has_each = limits is None or (limits.address_space_bytes or limits.memory_bytes) is not None
    names = {"addressSpaceBytes": has_each, "totalMemoryBytes": has_total}
    return " or ".join([name for name, is_set in names.items() if is_set] or names)


def trace_explanations(trace: Trace) -> Iterator[str]:
    """Yield one line for each thing that a traced command was denied, and one if that was nothing."""
    for denial in trace.denials:
        yield explanation(denial)
    if trace.more:
        yield f"the sandbox denied {trace.more} more"
    if not trace.denials:
        yield "the sandbox denied nothing"


def explanation(denial: Denial) -> str:
    """Say what the sandbox denied, by which rule, and the way out if there is one that works.

    It is one line: the command has chosen the names in it.
    """
    way_out = _way_out(denial)
    return printable(_what(denial) if way_out is None else f"{_what(denial)}; {way_out}")


def _what(denial: Denial) -> str:
    verb = "denied" if denial.is_certain else "may have denied"
    rule = "" if denial.rule is None else f" ({denial.rule})"
    if denial.target is None:
        return f"the sandbox {verb} {_NAMELESS_DEEDS[denial.kind]}{rule}"
    to = "to " if denial.kind is DenialKind.NETWORK else ""
    return f"the sandbox {verb} {_DEEDS[denial.kind]} {to}{denial.target}{rule}"


def _way_out(denial: Denial) -> str | None:
    rule = denial.rule
    if rule is None:
        # Perhaps it was not the sandbox.
        return None
    if rule.startswith(OWN):
        return (
            "no profile allows it, because Paddock itself runs or obeys it; "
            "if it is in the way, give Paddock an environment of its own (uv tool install, pipx)"
        )
    match denial.kind:
        case DenialKind.WRITE | DenialKind.READ | DenialKind.EXEC as kind:
            if denial.grant is None:
                return None
            access = DenialKind.WRITE if kind is DenialKind.WRITE else DenialKind.READ
            return f'a profile with {_quoted(denial.grant)} = "{access}" allows it'
        case DenialKind.NETWORK if denial.endpoint is not None:
            return _host_way_out(denial.endpoint, rule)
        case DenialKind.NETWORK if rule.startswith(PROXIED):
            return "have it use that proxy"
        case DenialKind.NETWORK:
            return _network_way_out(denial.target)
        case DenialKind.SYSCALL:
            return "no profile but :danger-full-access allows it"


def _quoted(path: str) -> str:
    """Write a path as TOML and JSON do."""
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _network_way_out(target: str | None) -> str:
    """Say what lets a command reach a host by itself, or be reached."""
    host = None if target is None else _far_host(target)
    if host is None:
        # The loopback of a sandbox is its own, so servers of the host are not there.
        return 'a profile with network = "enabled" allows it, and "loopback" among its own processes'
    return (
        f"--allow-host {host} allows it for programs that use HTTP_PROXY, "
        'a profile with network = "enabled" for all'
    )


def _far_host(target: str) -> str | None:
    """Return the host that `--allow-host` must name; None for this host, a socket file and what is no host
    at all."""
    name, port = split_port(target)
    try:
        host = normal_host(name)
    except ValueError:
        return None
    address = parse_address(host)
    if host in LOCAL_NAMES or (address is not None and (address.is_loopback or address.is_unspecified)):
        return None
    # Without a port only 80 and 443 are allowed, and which one it was is not always said.
    shown = f"[{host}]" if ":" in host else host
    return f"'{shown}:{ANY}'" if port is None else f"{shown}:{port}"


def _host_way_out(endpoint: Endpoint, rule: str) -> str:
    if endpoint.protocol is NetworkProtocol.SOCKS5_UDP:
        return "no profile allows datagrams"
    pattern = endpoint.host if endpoint.port in WEB_PORTS and ":" not in endpoint.host else str(endpoint)
    if "allowLocal" in rule:
        return "--allow-local allows it"
    if "network.allow " in rule:
        return f"--allow-host {pattern} allows it"
    return "as long as that stands, nothing allows it"
