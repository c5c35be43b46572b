"""Device nodes of the host that a sandbox shows, or that a command has as its standard streams.

Root owns them. Those of the stage are its own (`private_devices`), as are those that are lent.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable

from tests.attack.attempt import Attempt, each_attempt, is_changed, is_held, is_said
from tests.attack.conftest import Arena
from tests.attack.ground import Cell

NULL = (1, 3)
ACL = "0200000001000600ffffffff020007000100000004000600ffffffff10000700ffffffff20000600ffffffff"
"""An access control list as the kernel takes it: the user 1 may do everything (acl(5))."""


def _listed(path: str) -> str:
    """A script that sets the list of a file."""
    code = f"import os; os.setxattr('{path}', 'system.posix_acl_access', bytes.fromhex('{ACL}'))"
    return f'$PYTHON -c "{code}"'


def _null(flags: int) -> Callable[[Cell], int]:
    """A /dev/null outside of all roots, which is somebody's standard stream."""

    def lend(cell: Cell) -> int:
        if os.geteuid() != 0:
            return os.open(os.devnull, flags)
        path = cell.outside / "null"
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(*NULL))
        return os.open(path, flags)

    return lend


def _restored(name: str) -> str:
    """A node as it was before it was attacked outside of any sandbox. The nodes of others need it not."""
    return f"chmod 666 /dev/{name} || exit 0; touch -d @1 /dev/{name}"


ATTEMPTS = [
    Attempt(
        "the mode of a device",
        "chmod 646 /dev/full",
        is_said("/dev/full 646"),
        host_script=_restored("full"),
        needs_root=True,
    ),
    Attempt(
        "the times of a device",
        "touch -d @77 /dev/zero",
        is_said("/dev/zero 666 77\n"),
        host_script=_restored("zero"),
        needs_root=True,
    ),
    Attempt(
        "the mode of a device through a descriptor",
        "$PROBE fchmod 5 5< /dev/urandom",
        is_said("/dev/urandom 777"),
        host_script=_restored("urandom"),
        needs_root=True,
    ),
    Attempt(
        "a list of those who may use a device",
        _listed("/dev/random"),
        is_said("/dev/random 676"),
        host_script=_restored("random"),
        needs_root=True,
    ),
    Attempt(
        "the group of a device",
        "chgrp 61299 /dev/tty || chgrp 0 /dev/tty && $PROBE nothing",
        is_held,
        needs_root=True,
    ),
    Attempt(
        "the mode of a file of the kernel, which has one for all",
        # To what it is: there is no copy that could be spoilt.
        "chmod $(stat -c %a /proc/version) /proc/version && $PROBE nothing",
        is_held,
        needs_root=True,
    ),
    Attempt(
        "the mode of the device behind standard input",
        "chmod 777 /proc/$COMMAND/fd/0",
        is_changed,
        lend=_null(os.O_RDONLY),
        lends_as=0,
        needs_root=True,
        is_alone=True,
    ),
    Attempt(
        "the times of the device behind standard output",
        "touch -c -d 2001-01-01 /proc/$COMMAND/fd/1",
        is_changed,
        lend=_null(os.O_WRONLY),
        lends_as=1,
        needs_root=True,
        is_alone=True,
    ),
    Attempt(
        "a list of those who may use the device behind standard error",
        _listed("/proc/$COMMAND/fd/2"),
        is_changed,
        lend=_null(os.O_RDWR),
        lends_as=2,
        needs_root=True,
        is_alone=True,
    ),
]


@each_attempt(ATTEMPTS)
def test_nothing_about_a_device_is_changed(attempt: Attempt, user: int, arena: Arena) -> None:
    arena.judge(attempt, ATTEMPTS, user)
