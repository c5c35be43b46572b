"""Control groups that limit what the processes of a sandbox use together, where the kernel has no other way.

RLIMIT_NPROC never binds root, in whatever user namespace (copy_process in kernel/fork.c), and no resource
limit adds up the memory of several processes; the controllers `pids` and `memory` bind everybody. We make
each group below our own, so that whatever limits us limits the sandbox too. The first process of the sandbox
enters the group through a descriptor that we opened: it neither sees the hierarchy nor has any right to it.

In version 2 only a group without processes of its own can have such children. When we first need one, we
divide our own group: everything in it moves to a child, `LEAF`. We live in that child to the end and can't
remove it; whoever delegated the group to us removes both.

The janitor knows of each group, and removes it if we are killed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct

from paddock.errors import SandboxUnavailable
from paddock.sandbox.host.cgroup_controller import LEAF

PREFIX: Final = "paddock-"

ABANDONED_S: Final = 60.0
"""An empty group this old was left by a launcher and a janitor that were killed: a live one is entered within
milliseconds."""

DIVIDE_ROUNDS: Final = 100
"""A process that forks while we move it may leave a child behind, which the next round moves. No fork
outlasts this many rounds."""

_OOM_FILES: Final = ("memory.events", "memory.oom_control")
"""The file in which each version counts the processes killed for lack of memory."""


class GroupKeeper(Protocol):
    """Removes groups if we are killed."""

    def keep_group(self, path: Path) -> None:
        """Remember a group from now on."""
        ...

    def release_group(self, path: Path, *, is_removed: bool) -> None:
        """Forget a group that is removed, or remove it as soon as it is empty."""
        ...


class Group(Struct, frozen=True):
    """A group that was made for one sandbox."""

    path: Path
    entrance: int
    """A descriptor: a process that writes 0 to it moves into the group. The caller closes it."""
    keeper: GroupKeeper

    def has_starved(self) -> bool:
        """Return whether the kernel has killed a process of the group for lack of memory."""
        for name in _OOM_FILES:
            with contextlib.suppress(OSError):
                lines = (self.path / name).read_text().splitlines()
                return any(line.startswith("oom_kill ") and not line.endswith(" 0") for line in lines)
        return False

    def remove(self) -> None:
        """Remove the group, or leave that to the janitor while a process is in it."""
        try:
            self.path.rmdir()
            is_removed = True
        except OSError:
            is_removed = False
        self.keeper.release_group(self.path, is_removed=is_removed)


class Groups(Struct, frozen=True):
    """The groups of one sandbox: for its processes, for its memory, or one for both."""

    processes: Group | None = None
    memory: Group | None = None

    @property
    def each(self) -> tuple[Group, ...]:
        """Return all of the groups, each once."""
        return tuple(dict.fromkeys(group for group in (self.processes, self.memory) if group is not None))

    @property
    def entrances(self) -> Mapping[str, int]:
        """Return the descriptors by which to enter the groups, under their names in `enforce.init`."""
        named = {} if self.processes is None else {"group": self.processes.entrance}
        if self.memory is not None and self.memory is not self.processes:
            named["memory group"] = self.memory.entrance
        return named

    def has_starved(self) -> bool:
        """Return whether the kernel killed a process because all of them together used too much memory."""
        return self.memory is not None and self.memory.has_starved()

    def remove(self) -> None:
        """Remove the groups of a sandbox that has ended."""
        for group in self.each:
            group.remove()

    def discard(self) -> None:
        """Close the entrances and remove the groups, which nobody will enter."""
        for group in self.each:
            os.close(group.entrance)
        self.remove()


class Bound(Struct, frozen=True):
    """A limit on a resource, and the group below which it can be enforced."""

    parent: str
    most: int


def make(processes: Bound | None, memory: Bound | None, keeper: GroupKeeper) -> Groups:
    """Make groups that allow this many processes, plus the one that enters, and this many bytes.

    Raises SandboxUnavailable.
    """
    controllers: dict[str, list[str]] = {}
    for bound, controller in ((processes, "pids"), (memory, "memory")):
        if bound is not None:
            controllers.setdefault(bound.parent, []).append(controller)
    made: dict[str, Group] = {}
    with contextlib.ExitStack() as undone:
        for parent, names in controllers.items():
            _divide(Path(parent), names)
            made[parent] = _make(Path(parent), keeper)
            undone.callback(os.close, made[parent].entrance)
            undone.callback(made[parent].remove)
        if processes is not None:
            _set(made[processes.parent], {"pids.max": processes.most + 1})
        if memory is not None:
            _limit_memory(made[memory.parent], memory.most)
        undone.pop_all()
    return Groups(
        None if processes is None else made[processes.parent], None if memory is None else made[memory.parent]
    )


def _divide(parent: Path, controllers: Sequence[str]) -> None:
    """Give the children of a group of version 2 these controllers, and move its own processes to a child."""
    switch = parent / "cgroup.subtree_control"
    try:
        if set(controllers) <= set(switch.read_text().split()):
            return
    except FileNotFoundError:
        return  # Children of a group of version 1 always have its controllers.
    leaf = parent / LEAF
    for rounds_left in reversed(range(DIVIDE_ROUNDS)):
        try:
            leaf.mkdir(exist_ok=True)
            for pid in (parent / "cgroup.procs").read_text().split():
                # It may have ended.
                with contextlib.suppress(ProcessLookupError):
                    (leaf / "cgroup.procs").write_text(pid)
            switch.write_text(" ".join(f"+{controller}" for controller in controllers))
        except OSError as error:
            # EBUSY: a process is still, or again, in the group itself.
            if error.errno != errno.EBUSY or not rounds_left:
                raise _unavailable(switch, error) from error
        else:
            return


def _limit_memory(group: Group, most: int) -> None:
    if (group.path / "memory.max").exists():
        _set(group, {"memory.max": most})
        swap = {"memory.swap.max": 0}
    else:
        # The second file bounds the first, so the order matters.
        _set(group, {"memory.limit_in_bytes": most})
        swap = {"memory.memsw.limit_in_bytes": most, "memory.swappiness": 0}
    # Swapped memory counts as used. A host that does not account for swap lacks the file.
    _set(group, {name: value for name, value in swap.items() if (group.path / name).exists()})


def _set(group: Group, values: Mapping[str, int]) -> None:
    for name, value in values.items():
        try:
            (group.path / name).write_text(str(value))
        except OSError as error:
            raise _unavailable(group.path / name, error) from error


def _make(parent: Path, keeper: GroupKeeper) -> Group:
    _remove_abandoned(parent)
    path = parent / f"{PREFIX}{os.urandom(8).hex()}"
    # The janitor knows of the group before it exists, so a kill at any moment leaves nothing behind.
    keeper.keep_group(path)
    try:
        path.mkdir()
        return Group(path, os.open(path / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC), keeper)
    except OSError as error:
        with contextlib.suppress(OSError):
            path.rmdir()
        keeper.release_group(path, is_removed=True)
        raise _unavailable(path, error) from error


def _unavailable(path: Path, error: OSError) -> SandboxUnavailable:
    return SandboxUnavailable(
        f"the command's control group can't be made: {path}: {error.strerror}",
        "leave the limits processes and totalMemoryBytes out",
    )


def _remove_abandoned(parent: Path) -> None:
    for path in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > ABANDONED_S:
                # The kernel refuses this while a process is in the group.
                path.rmdir()
