"""Finds where this user can make control groups that limit a resource (cgroups(7)).

In version 1 that is our own group. In version 2 a group that holds processes can't give its children a
controller, so our own group serves only if we may divide it; `enforce.cgroup` does that for the first sandbox
that needs it. We may divide the group of a systemd unit with `Delegate=yes` and, where systemd does not run,
as in most containers, a group that holds no processes but ours.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from paddock.sandbox.host.kernel import Kernel
from paddock.sandbox.host.mount_line import MountLine, mount_lines
from paddock.sandbox.host.propagation import TABLE

LEAF: Final = "paddock.launcher"
"""The child of a divided group in which we and everything without a limit live."""

_OWN_GROUPS: Final = "/proc/self/cgroup"

_DELEGATED: Final = ("user.delegate", "trusted.delegate")
"""How systemd marks a group that it leaves alone: for everybody since version 251, for root before."""

_SYSTEMD: Final = "/run/systemd/system"
"""Exists while systemd runs the host (sd_booted(3)) and manages every group that it has not delegated."""


def directory(kernel: Kernel, controller: str) -> str | None:
    """Return where groups with a controller can be made, or None if this user can't make any."""
    return next((path for path in _hierarchies(kernel, controller) if kernel.can_write(path)), None)


def _hierarchies(kernel: Kernel, controller: str) -> Iterator[str]:
    """Yield the group in each hierarchy whose children can have the controller."""
    named = controller.encode()
    own: dict[bytes, bytes] = {}
    # The name of a group has no newline, but may have any other character.
    for line in (kernel.content(_OWN_GROUPS) or b"").split(b"\n"):
        if line:
            _, controllers, path = line.split(b":", 2)
            own |= dict.fromkeys(controllers.split(b","), path)
    for mount in mount_lines(kernel.content(TABLE) or b""):
        if mount.kind == b"cgroup" and named in mount.options.split(b",") and named in own:
            yield _below(mount, own[named])
        elif mount.kind == b"cgroup2" and b"" in own:
            yield from _divisible(kernel, _below(mount, own[b""]), controller)


def _divisible(kernel: Kernel, group: str, controller: str) -> Iterator[str]:
    """Yield our own group of version 2 and the one above it, if their children have the controller or can."""
    if _lists(kernel, f"{group}/cgroup.subtree_control", controller) or (
        _can_give(kernel, group, controller) and _may_divide(kernel, group)
    ):
        yield group
    # We are here once the group is divided, by us or by systemd (DelegateSubgroup=).
    above, name = os.path.split(group)
    if (name == LEAF or _is_marked(kernel, above)) and _can_give(kernel, above, controller):
        yield above


def _can_give(kernel: Kernel, group: str, controller: str) -> bool:
    """Return whether the group has the controller, and we may pass it on to its children."""
    return _lists(kernel, f"{group}/cgroup.controllers", controller) and kernel.can_write(
        f"{group}/cgroup.subtree_control"
    )


def _may_divide(kernel: Kernel, group: str) -> bool:
    """Return whether we may move everything in a group to a child of it."""
    if _is_marked(kernel, group):
        # Children that are not ours belong to somebody who has divided the group differently.
        is_whole = (kernel.text(f"{group}/cgroup.stat") or "").startswith("nr_descendants 0")
        return is_whole or kernel.exists(f"{group}/{LEAF}")
    pids = (kernel.text(f"{group}/cgroup.procs") or "").split()
    return not kernel.exists(_SYSTEMD) and all(_is_ours(kernel, int(pid)) for pid in pids)


def _is_marked(kernel: Kernel, group: str) -> bool:
    return any(kernel.attribute(group, name) == b"1" for name in _DELEGATED)


def _is_ours(kernel: Kernel, pid: int) -> bool:
    """Return whether a process is this one or descends from it."""
    while pid > 1 and pid != os.getpid():
        # "PID (NAME) STATE PARENT ...", and the name can contain anything: proc(5).
        _, _, rest = (kernel.text(f"/proc/{pid}/stat") or "").rpartition(")")
        pid = int(rest.split()[1]) if rest else 0
    return pid == os.getpid()


def _lists(kernel: Kernel, path: str, controller: str) -> bool:
    return controller in (kernel.text(path) or "").split()


def _below(mount: MountLine, path: bytes) -> str:
    """Return the directory of a group, in a hierarchy of which a part is mounted."""
    return os.fsdecode(os.path.normpath(mount.point + b"/" + path.removeprefix(mount.root.rstrip(b"/"))))
