"""What a process takes on itself inside a sandbox, as data.

Mounts and namespaces are there for whoever enters a sandbox. Landlock rules and a filter of system
calls are not: they belong to a process and its children. Who makes a sandbox says what they
are; who enters it takes them on.
"""

from __future__ import annotations

from msgspec import Struct


class Restriction(Struct, frozen=True):
    """Rules and a filter, for good, as native/worker.c reads them."""

    words: bytes
    """The words by which paddock-init keeps the sandbox, each ended by NUL."""
    filter: bytes
    """A seccomp program."""
