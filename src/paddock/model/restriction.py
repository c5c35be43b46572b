"""The restrictions that a process applies to itself inside a sandbox, as data.

Mounts and namespaces already surround every process that enters a sandbox. Landlock rules and a filter
of system calls do not: they belong to a process and its children. The maker of a sandbox defines them,
and a process that enters applies them to itself.
"""

from __future__ import annotations

from msgspec import Struct


class Restriction(Struct, frozen=True):
    """Rules and a filter that can't be lifted, as native/worker.c reads them."""

    words: bytes
    """The words by which paddock-init keeps the sandbox, each ended by NUL."""
    filter: bytes
    """A seccomp program."""
