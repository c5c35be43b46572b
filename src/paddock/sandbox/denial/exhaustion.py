"""Finds the limit of its profile that a command has reached, as far as that is known. Pure.

Three limits are certain: the kernel ends a command that is out of processor time with a signal of its own, it
counts what it kills in a control group that is out of memory, and the first process of a sandbox keeps the
clock. The kernel enforces address space and processes by an error instead, which the command may well survive
and which the kernel does not count. So Paddock reports those only for a command that failed and said so
itself, or that crashed with nearly all its memory in use. Having as many processes as allowed is no failure:
a command that may have one has one.
"""

from __future__ import annotations

import signal
from typing import Final

from msgspec import Struct

from paddock.model.cause import Cause
from paddock.model.profile import Limits

LAST_WORDS_BYTES: Final = 8192
"""Bytes at the end of the output to search for the reason: more than an interpreter's stack trace."""

CRASHES: Final = frozenset({signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGTRAP, signal.SIGILL})
"""Signals that end programs which can't go on without memory."""

BRINK: Final = 7 / 8
"""Share of the limit. Programs that filled their memory bit by bit ended with 92 to 100 % of it resident."""

_OUT_OF_MEMORY: Final = (
    b"out of memory",
    b"outofmemory",
    b"memoryerror",
    b"memory exhausted",
    b"process oom",
    b"bad_alloc",
    b"cannot allocate",
    b"can't allocate",
    b"memory allocation of",
)
_NO_PROCESS: Final = (b"cannot fork", b"can't fork", b"can't start new thread")
_REFUSED: Final = (b"resource temporarily unavailable", b"eagain")
_PROCESS_WORDS: Final = (b"fork", b"clone", b"spawn", b"thread")


class End(Struct, frozen=True):
    """How a command ended."""

    exit_code: int
    death_signal: int | None
    peak_memory_bytes: int
    is_full: bool = False
    """Whether the number of processes was at its limit at that moment."""
    is_starved: bool = False
    """Whether the kernel killed a process because all together ran out of memory."""


def spent(limits: Limits, end: End) -> Cause | None:
    """Return the limit that the command has reached according to the kernel."""
    if end.is_starved and end.exit_code != 0:
        return Cause.MEMORY
    is_timed = limits.cpu_seconds is not None
    return Cause.CPU if is_timed and end.death_signal == signal.SIGXCPU else None


def exhausted(limits: Limits, end: End, last_words: bytes) -> Cause | None:
    """Return the limit that made the command fail, judging by its last output and how it ended."""
    is_crash = end.death_signal in CRASHES
    if end.exit_code == 0 or (end.death_signal is not None and not is_crash):
        return None
    words = last_words.lower()
    if limits.memory_bytes is not None:
        is_full = end.peak_memory_bytes >= BRINK * limits.memory_bytes
        if (is_crash and is_full) or _says(words, _OUT_OF_MEMORY):
            return Cause.MEMORY
    if limits.processes is not None:
        is_about_processes = end.is_full or _says(words, _PROCESS_WORDS)
        if _says(words, _NO_PROCESS) or (_says(words, _REFUSED) and is_about_processes):
            return Cause.PROCESSES
    return None


def _says(words: bytes, phrases: tuple[bytes, ...]) -> bool:
    return any(phrase in words for phrase in phrases)
