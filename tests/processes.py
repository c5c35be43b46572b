"""What a test may know of the processes on this host: /proc, read without racing."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def open_descriptors(pid: int | str = "self") -> int:
    """How many descriptors a process has open, without the one that looks."""
    return len(os.listdir(f"/proc/{pid}/fd")) - (1 if pid == "self" else 0)


def children_of(pid: int) -> list[int]:
    """The direct children of a process; none when it has ended."""
    # Not from /proc/PID/task/TID/children, which misses some while others end (proc(5)).
    return [child for child in _all_processes() if parent_of(child) == pid]


def _all_processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def parent_of(pid: int) -> int | None:
    """The parent of a process; None when it has ended."""
    status = _status_of(pid)
    return int(status[1]) if status else None


def is_stopped(pid: int) -> bool:
    """Whether a signal has stopped a process."""
    return _status_of(pid)[:1] == ["T"]


def _status_of(pid: int) -> list[str]:
    """The fields of a process from its state on; none when it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return []
    # The name before them may hold anything, brackets too.
    return stat.rpartition(")")[2].split()


def descendants_of(pid: int) -> list[int]:
    """Children, their children, and so on."""
    found = []
    for child in children_of(pid):
        found.append(child)
        found.extend(descendants_of(child))
    return found


def command_of(pid: int) -> str:
    """The name of the program that a process runs, cut to 15 bytes (proc(5)); empty when it has ended."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().rstrip("\n")
    except (FileNotFoundError, ProcessLookupError):
        return ""


@contextmanager
def watched(pid: int) -> Iterator[int]:
    """A pidfd of a process, which becomes readable when it ends."""
    fd = os.pidfd_open(pid)
    try:
        yield fd
    finally:
        os.close(fd)


def has_ended(pidfd: int, timeout_s: float) -> bool:
    """Whether the process ends within a time."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(timeout_s * 1000))


def peak_bytes(pid: int) -> int:
    """The most memory that a process has had (proc(5))."""
    return int(Path(f"/proc/{pid}/status").read_text().split("VmHWM:")[1].split()[0]) * 1024
