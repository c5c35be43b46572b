"""What a process takes on itself inside a sandbox, as data.

Mounts and namespaces are there for whoever enters a sandbox. Landlock rules and a filter of system
calls are not: they belong to a process and its children. Who makes a sandbox says what they
are; who enters it takes them on.
"""

from __future__ import annotations

from msgspec import Struct


class LandlockRules(Struct, frozen=True, kw_only=True):
    """Rights that are taken away, as bits of linux/landlock.h, and where those on files stay granted."""

    files: int
    ports: int
    scopes: int
    writable: tuple[str, ...]
    """Absolute paths; one that does not exist needs no grant."""


class Restriction(Struct, frozen=True, kw_only=True):
    """Rules and a filter, for good."""

    landlock: LandlockRules | None
    """None where the kernel has none that do no harm."""
    filter: bytes
    """A seccomp program."""
