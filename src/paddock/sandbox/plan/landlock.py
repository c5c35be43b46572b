"""Writes Landlock's part of a plan: the rights that a command keeps on files, as rules for paddock-init.

Landlock serves twice. Under bubblewrap it is the second layer: the mounts decide what can be read and
written, and Landlock takes away the right to write anywhere else, in case a mount is wrong. Without
bubblewrap, behind the setting `use_legacy_landlock`, it is the only layer, and Paddock accepts only what
Landlock can express.

A rule grants, and no rule below it can take back, so Landlock alone can't make an exception inside a writable
directory. The caller gives the kernel's ABI; nothing here asks the kernel.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from paddock.model.profile import NetworkMode
from paddock.sandbox.host.landlock_abi import NEEDED_ABI, PORTS_ABI, SCOPES_ABI, Port, Right, Scope, rights_of

ALONE_ABI: Final = 3
"""Before this ABI (Linux 6.2) a command could truncate any file, which is too weak without mounts."""

ALWAYS_WRITABLE: Final = ("/dev", "/proc")
"""The sandbox has its own, so writing there reaches nobody else. The mount refuses the host's devices, and
the host's /proc/sys is covered."""

ALWAYS_WRITABLE_ALONE: Final = (
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
)
"""Without bubblewrap /dev and /proc are the host's; programs expect to open these for writing."""


class Ruleset(Struct, frozen=True):
    """The rights to take away, and the paths below which writing stays allowed."""

    handled: Right
    ports: Port
    scopes: Scope
    writable: tuple[str, ...]


class Reach(Struct, frozen=True):
    """The facts about a profile on this host that decide whether Landlock alone can enforce it."""

    is_fully_readable: bool
    is_fully_writable: bool
    writable: tuple[str, ...]
    exceptions: tuple[str, ...]
    """Paths below a writable one that must not be written, or not even read."""
    network: NetworkMode
    has_process_limit: bool = False


def second_layer(writable: Iterable[str], network: NetworkMode, abi: int) -> Ruleset | None:
    """Return the rules inside bubblewrap's mounts, or None if this ABI is too old to do no harm."""
    if abi < NEEDED_ABI:
        return None
    return _ruleset((*ALWAYS_WRITABLE, *writable), network, abi)


def alone(reach: Reach, abi: int) -> Ruleset | tuple[str, ...]:
    """Return the rules that enforce a profile without bubblewrap, or every reason why none can."""
    if reasons := tuple(_inexpressible(reach, abi)):
        return reasons
    writable = ("/",) if reach.is_fully_writable else (*ALWAYS_WRITABLE_ALONE, *reach.writable)
    return _ruleset(writable, reach.network, abi)


def _ruleset(writable: Iterable[str], network: NetworkMode, abi: int) -> Ruleset:
    has_no_network = network is NetworkMode.RESTRICTED
    return Ruleset(
        handled=rights_of(abi),
        ports=Port.BIND_TCP | Port.CONNECT_TCP if has_no_network and abi >= PORTS_ABI else Port(0),
        scopes=Scope.ABSTRACT_UNIX_SOCKET | Scope.SIGNAL if abi >= SCOPES_ABI else Scope(0),
        writable=tuple(dict.fromkeys(writable)),
    )


def _inexpressible(reach: Reach, abi: int) -> Iterable[str]:
    if abi < ALONE_ABI:
        yield f"this kernel's Landlock (ABI {abi}) can't forbid truncating files; Linux 6.2 can"
    if not reach.is_fully_readable:
        yield "it restricts what can be read"
    if reach.exceptions:
        told = ", ".join(reach.exceptions[:3]) + (", …" if len(reach.exceptions) > 3 else "")
        yield f"it protects paths below writable ones ({told})"
    if reach.network in (NetworkMode.LOOPBACK, NetworkMode.PROXIED):
        yield "a private loopback needs a network namespace"
    if reach.network is NetworkMode.ENABLED:
        # Among them are Paddock's own, through which a command could start others unconfined.
        yield "with the network it could connect to local sockets that only mounts can hide"
    if reach.has_process_limit:
        yield "a limit of processes needs a user namespace"
