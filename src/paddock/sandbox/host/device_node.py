"""Lists the host's device nodes that every sandbox shows, and those that a command would own.

A sandbox has a /dev of its own, but the nodes in it are the host's. Root owns them inside a sandbox too: it
could change their modes and take /dev/null from every program of the host. So root's commands get other nodes
(native/devices.h), or bubblewrap finds these read-only (native/read_only.h). Neither keeps anybody from
writing to the device.
"""

from __future__ import annotations

import os
from typing import Final

from paddock.sandbox.profile.path import DEV

NODES: Final = tuple(f"{DEV}/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty"))
"""Devices that bubblewrap takes from the host for `--dev`."""


def owned_nodes() -> tuple[str, ...]:
    """Return the nodes that a command of this user would own: all of them for root, none for others.

    In a container they may belong to the root of another user namespace.
    """
    if os.geteuid() != 0:
        return ()
    return tuple(path for path in NODES if _is_roots(path))


def _is_roots(path: str) -> bool:
    try:
        return os.stat(path).st_uid == 0
    except OSError:
        # bubblewrap will say that it is missing.
        return False
