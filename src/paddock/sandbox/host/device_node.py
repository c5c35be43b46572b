"""Lists the host's device nodes that every sandbox shows, and those that a command would own.

A sandbox has a /dev of its own, but the nodes in it are the host's. Root owns them inside a sandbox too: it
could change their modes and take /dev/null from every program of the host. So root's commands get other nodes
(native/devices.h), or bubblewrap finds these read-only (native/read_only.h). Neither keeps anybody from
writing to the device.
"""

from __future__ import annotations

import errno
import os
import stat

from paddock.sandbox.host.linkless import status_at
from paddock.sandbox.host.recheck import Recheck
from paddock.sandbox.profile.path import DEV

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

    from paddock.sandbox.host.linkless import Status

NODES: Final = tuple(f"{DEV}/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty"))
"""Devices that bubblewrap takes from the host for `--dev`."""


def owned_nodes() -> tuple[str, ...]:
    """Return the nodes that a command of this user would own: all of them for root, none for others.

    In a container they may belong to the root of another user namespace.
    """
    return _NODES.owned_by_root() if os.geteuid() == 0 else ()


class _Nodes:
    """The nodes as they were at the last look."""

    def __init__(self) -> None:
        self._known: tuple[Recheck, tuple[str, ...]] | None = None

    def owned_by_root(self) -> tuple[str, ...]:
        """Return those of root's, as of now. May be called from any thread."""
        known = self._known
        if known is not None and not known[0].differing():
            return known[1]
        statuses = {path: status_at(path) for path in NODES}
        owned = tuple(path for path, status in statuses.items() if _is_roots(path, status))
        self._known = _expected(statuses), owned
        return owned


def _expected(statuses: Mapping[str, Status | int]) -> Recheck:
    recheck = Recheck()
    for path, status in statuses.items():
        if isinstance(status, int):
            recheck.expect_failure(path, status)
        elif not stat.S_ISLNK(status[0]):
            recheck.expect_status(path, status[0], status[1])
        else:
            # What a link leads to may change at any time, so this never holds.
            recheck.expect_failure(path, errno.ENOENT)
    return recheck


def _is_roots(path: str, status: Status | int) -> bool:
    if isinstance(status, tuple) and not stat.S_ISLNK(status[0]):
        return status[1] == 0
    try:
        return os.stat(path).st_uid == 0
    except OSError:
        # bubblewrap will say that it is missing.
        return False


_NODES: Final = _Nodes()
