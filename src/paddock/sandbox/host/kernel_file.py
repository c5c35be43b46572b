"""Finds the kernel's own files that a confined command has no use for.

/proc and /sys hold more than processes and devices: names of keys, the state of every page of memory, logs of
crashes, traces. This module lists what a command may see; everything else that this user could read is
closed, including what a newer kernel or a module adds. It looks again and again, because modules are loaded
and file systems mounted while a server runs.
"""

from __future__ import annotations

import os
import select
import time
from _thread import allocate_lock

from paddock.sandbox.host.absence import ABSENT, refuse_unless
from paddock.sandbox.host.mount_line import mount_lines
from paddock.sandbox.profile.path import KERNEL_OBJECTS, PROC

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    Closed = tuple[str, bool]
    """A path, and whether it is a directory."""

VISIBLE: Final = frozenset(
    (
        # About the sandbox itself: its processes, mounts, network, IPC and the settings in force in it.
        *("self", "thread-self", "mounts", "net", "sys", "sysvipc"),
        # Programs read these to size themselves to the machine.
        *("cgroups", "cpuinfo", "loadavg", "meminfo", "pressure", "schedstat", "stat", "swaps", "uptime"),
        *("vmstat", "zoneinfo"),
        # The kernel's version and abilities.
        *("bootconfig", "cmdline", "config.gz", "crypto", "devices", "execdomains", "filesystems", "misc"),
        *("modules", "tty", "version", "version_signature"),
        # Hardware and statistics. The kernel shows addresses in them to nobody without a capability.
        *("asound", "buddyinfo", "consoles", "diskstats", "dma", "fb", "interrupts", "iomem", "ioports"),
        *("kallsyms", "locks", "mdstat", "pagetypeinfo", "partitions", "slabinfo", "softirqs"),
        *("timer_list",),
        # Information that drivers and file systems publish about themselves.
        *("acpi", "driver", "fs", "scsi"),
        # How many keys each user has, without their names.
        *("key-users",),
    )
)
"""Entries of /proc that a command may see besides processes."""

CLOSED_BY_KERNEL: Final = frozenset(("kcore", "kmsg", "bus", "irq", "sysrq-trigger"))
"""The first two open for nobody without a capability; the others bubblewrap makes read-only."""

SHOWN_FILE_SYSTEMS: Final = frozenset((b"sysfs", b"cgroup", b"cgroup2", b"tmpfs"))
"""File systems in /sys that a command may see. Others are for tracing, debugging, crashes, firmware."""

LOOK_INTERVAL_S: Final = 10.0
"""Least time between two listings of /proc. A listing takes half a millisecond with many processes, and its
entries change only when a module is loaded, which no command can do."""

MOUNT_TABLE: Final = f"{PROC}/self/mountinfo"

_PIECE_BYTES: Final = 1 << 16


def closed_files() -> tuple[Closed, ...]:
    """Return the files to close in a sandbox of this user now.

    Raises OSError or ProfileRefused if they can't be determined.
    """
    return (*_ENTRIES.closed(), *_MOUNTS.in_kernel_objects())


class _Entries:
    """Everything in /proc besides processes."""

    def __init__(self) -> None:
        self._user: int | None = None
        self._looked_s = 0.0
        self._closed: tuple[Closed, ...] = ()

    def closed(self) -> tuple[Closed, ...]:
        """Return the files that must be closed for this user, as of some seconds ago."""
        now_s = time.monotonic()
        if self._user != os.geteuid() or now_s - self._looked_s > LOOK_INTERVAL_S:
            # Two threads may do this at once, with the same result.
            self._closed = tuple(_closed_entries())
            self._user, self._looked_s = os.geteuid(), now_s
        return self._closed


def _closed_entries() -> list[Closed]:
    found = []
    try:
        with os.scandir(PROC) as entries:
            for entry in entries:
                # Processes come last (proc_root_readdir), and may be thousands.
                if entry.name.isdigit():
                    break
                if entry.name in VISIBLE or entry.name in CLOSED_BY_KERNEL or not _can_read(entry.path):
                    continue
                found.append((entry.path, entry.is_dir(follow_symlinks=False)))
    except OSError as error:
        # Where none is mounted, none can be in a sandbox.
        refuse_unless(ABSENT, error, PROC)
        return []
    return sorted(found)


def _can_read(path: str) -> bool:
    return os.access(path, os.R_OK, effective_ids=True)


class _Mounts:
    """The mounts in /sys, read again when the kernel reports a change (proc_pid_mountinfo(5))."""

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._owner: int | None = None
        self._file = -1
        self._news = select.poll()
        self._mount_points: tuple[str, ...] = ()

    def in_kernel_objects(self) -> list[Closed]:
        """Return the mounts that must be closed for this user."""
        with self._lock:
            try:
                self._refresh()
            except OSError as error:
                self._owner = None
                refuse_unless(ABSENT, error, MOUNT_TABLE)
                return []
            mount_points = self._mount_points
        return [(mount_point, True) for mount_point in mount_points if _can_read(mount_point)]

    def _refresh(self) -> None:
        # A fork needs a table of its own, or it would consume its parent's notifications.
        if self._owner != os.getpid():
            self._file = os.open(MOUNT_TABLE, os.O_RDONLY | os.O_CLOEXEC)
            self._news = select.poll()
            self._news.register(self._file, select.POLLPRI)
            self._owner = os.getpid()
        elif not self._news.poll(0):
            return
        text = b""
        while piece := os.pread(self._file, _PIECE_BYTES, len(text)):
            text += piece
        self._mount_points = tuple(sorted(_closed_mounts(text)))


def _closed_mounts(mountinfo: bytes) -> set[str]:
    top = os.fsencode(f"{KERNEL_OBJECTS}/")
    found = {
        os.fsdecode(line.point)
        for line in mount_lines(mountinfo, b" " + top)
        if line.point.startswith(top) and line.kind not in SHOWN_FILE_SYSTEMS
    }
    # A closed mount hides what is mounted in it.
    return {path for path in found if not any(path.startswith(f"{other}/") for other in found)}


_ENTRIES: Final = _Entries()
_MOUNTS: Final = _Mounts()
