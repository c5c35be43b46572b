"""What this host can enforce, as values.

`paddock.sandbox.host.probe` finds these facts; everything that plans or explains a confinement
uses them. Tests make up hosts that do not exist.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Enforcement(StrEnum):
    """How much of a profile the host enforces. Code that starts a command must check it."""

    FULL = "full"
    """All of it."""

    PARTIAL = "partial"
    """All that the profile says, but a second layer of defence is missing; the plan gives the reasons."""

    NONE = "none"
    """Nothing, because the profile asks for nothing."""


class BwrapCapabilities(Struct, frozen=True):
    """Which options a bubblewrap has. All but the last are needed."""

    perms: bool = False
    seccomp: bool = False
    as_pid_1: bool = False
    args: bool = False
    disable_userns: bool = False


class Bubblewrap(Struct, frozen=True):
    """A bubblewrap that the probe chose and examined."""

    path: str
    """Absolute and resolved. Only for messages and plans: Paddock executes it through `fd`."""

    capabilities: BwrapCapabilities
    version: str = ""
    is_bundled: bool = False
    is_setuid: bool = False
    """It needs no user namespace of its own, and gives up its privileges itself."""
    fd: int | None = None
    """An open descriptor of the examined file. The caller of the probe owns that of a bundled one."""


class Problem(Struct, frozen=True):
    """An obstacle that prevents or weakens a sandbox, and the remedy."""

    name: str
    """The subject, in a word or two."""
    detail: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.name}: {self.detail}; {self.remedy}"


class HostFacts(Struct, frozen=True):
    """What the kernel and the installed programs offer."""

    arch: str
    """As `uname -m` says it."""
    kernel: tuple[int, int]
    bwrap: Bubblewrap | None
    can_unshare: bool
    """Whether bubblewrap may make user namespaces here."""
    can_mount_proc: bool = True
    """Whether a new /proc can be mounted in there; many containers refuse it."""
    can_limit_processes: bool = True
    """Whether the kernel counts the processes of a sandbox."""
    pids_cgroup: str | None = None
    """Where to make control groups that count processes, if that is the only way; it is for root."""
    memory_cgroup: str | None = None
    """Where to make control groups that limit memory; None if this user can't make any."""
    landlock_abi: int = 0
    """0 without Landlock."""
    problems: tuple[Problem, ...] = ()
    """What is missing or degraded; for doctor and for the server's start."""
