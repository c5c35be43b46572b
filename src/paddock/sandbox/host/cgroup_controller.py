"""Finds where this user can make control groups that limit a resource (cgroups(7))."""

from __future__ import annotations

import os
from collections.abc import Iterator

from paddock.sandbox.host.kernel import Kernel


def directory(kernel: Kernel, controller: str) -> str | None:
    """Return where groups with a controller can be made, or None if this user can't make any."""
    return next((path for path in _hierarchies(kernel, controller) if kernel.can_write(path)), None)


def _hierarchies(kernel: Kernel, controller: str) -> Iterator[str]:
    """Yield our own group in each hierarchy whose groups have the controller."""
    own: dict[str, str] = {}
    for line in (kernel.text("/proc/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        own |= dict.fromkeys(controllers.split(","), path)
    for line in (kernel.text("/proc/self/mountinfo") or "").splitlines():
        mounted, _, kind = line.partition(" - ")
        root, mount_point = mounted.split()[3:5]
        match kind.split():
            case ["cgroup", _, options] if controller in options.split(",") and controller in own:
                yield _below(mount_point, root, own[controller])
            case ["cgroup2", _, _] if "" in own:
                group = _below(mount_point, root, own[""])
                # Children have it only if it is switched on for them, which is up to whoever owns the group.
                if controller in (kernel.text(f"{group}/cgroup.subtree_control") or "").split():
                    yield group


def _below(mount_point: str, root: str, path: str) -> str:
    """Return where a group is, in a hierarchy of which the part below `root` is mounted."""
    return os.path.normpath(mount_point + "/" + path.removeprefix(root.rstrip("/")))
