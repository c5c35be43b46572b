"""A control group that counts the processes of a sandbox, where the kernel does not do so by itself.

RLIMIT_NPROC never binds root, in whatever user namespace (copy_process in kernel/fork.c); the controller
`pids` binds everybody. A group is made below our own, so that whatever limits us limits the sandbox too. The
first process of the sandbox enters it through a descriptor that we have opened: it neither sees the hierarchy
nor has a right to it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from paddock.errors import SandboxUnavailable
from paddock.sandbox.kernel import Kernel

CONTROLLER: Final = "pids"
PREFIX: Final = "paddock-"

ABANDONED_S: Final = 60.0
"""A group this old that nothing is in was left by a launcher that was killed: entering it is a matter of
milliseconds."""


@dataclass(frozen=True, slots=True)
class Group:
    """A group that was made for one sandbox."""

    path: Path
    entrance: int
    """A descriptor; who writes 0 to it is moved into the group. The caller closes it."""

    def discard(self) -> None:
        """Nobody will enter it: close the entrance, and remove it."""
        os.close(self.entrance)
        self.remove()

    def remove(self) -> None:
        """Remove it, unless something is in it: then a later `make` does."""
        with contextlib.suppress(OSError):
            self.path.rmdir()


def directory(kernel: Kernel) -> str | None:
    """Where groups that count can be made, or None if this user can't make any."""
    return next((path for path in _hierarchies(kernel) if kernel.can_write(path)), None)


def make(parent: str, processes: int) -> Group:
    """A group for so many processes and the one that enters it. Raises SandboxUnavailable."""
    _remove_abandoned(Path(parent))
    path = Path(parent, f"{PREFIX}{secrets.token_hex(8)}")
    try:
        path.mkdir()
        (path / "pids.max").write_text(str(processes + 1))
        return Group(path, os.open(path / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC))
    except OSError as error:
        with contextlib.suppress(OSError):
            path.rmdir()
        raise SandboxUnavailable(
            f"the number of processes can't be limited: {path}: {error.strerror}", "leave the limit out"
        ) from error


def _hierarchies(kernel: Kernel) -> Iterator[str]:
    """Our own group in each hierarchy whose groups have the controller (cgroups(7))."""
    own: dict[str, str] = {}
    for line in (kernel.text("/proc/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        own |= dict.fromkeys(controllers.split(","), path)
    for line in (kernel.text("/proc/self/mountinfo") or "").splitlines():
        place, _, kind = line.partition(" - ")
        root, mount_point = place.split()[3:5]
        match kind.split():
            case ["cgroup", _, options] if CONTROLLER in options.split(",") and CONTROLLER in own:
                yield _below(mount_point, root, own[CONTROLLER])
            case ["cgroup2", _, _] if "" in own:
                group = _below(mount_point, root, own[""])
                # Children have it only if it is switched on for them, which is up to whoever owns the group.
                if CONTROLLER in (kernel.text(f"{group}/cgroup.subtree_control") or "").split():
                    yield group


def _below(mount_point: str, root: str, path: str) -> str:
    """Where a group is, in a hierarchy of which the part below `root` is mounted."""
    return os.path.normpath(mount_point + "/" + path.removeprefix(root.rstrip("/")))


def _remove_abandoned(parent: Path) -> None:
    for path in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > ABANDONED_S:
                # Refused by the kernel as long as something is in it.
                path.rmdir()
