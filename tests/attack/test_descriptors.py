"""Files that whoever starts a sandbox has open, its standard streams among them."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence

from tests.attack.attempt import (
    Attempt,
    each_attempt,
    has_own,
    is_changed,
    is_heard,
    is_held,
    is_leaked,
    is_signalled,
)
from tests.attack.conftest import Arena
from tests.attack.ground import Cell, processes

_ends: dict[Cell, socket.socket] = {}
"""The ends of socket pairs that are lent; the others listen."""


def _opened(name: str, flags: int) -> Callable[[Cell], int]:
    return lambda cell: os.open(cell.outside / name, flags)


def _pair(cell: Cell) -> Sequence[socket.socket]:
    _ends[cell], ear = socket.socketpair()
    return [ear]


def _end(cell: Cell) -> int:
    return _ends.pop(cell).detach()


def _victim(cell: Cell) -> int:
    (victim,) = processes(f"v{cell.process_name}")
    return os.pidfd_open(victim.pid)


INHERITED = [
    Attempt(
        "a file is read that the launcher has open",
        '$PYTHON -c "import os; print(os.read($LENT, 99))"',
        is_leaked,
        lend=_opened("secret", os.O_RDONLY),
    ),
    Attempt(
        "a file is written that the launcher has open",
        "$PYTHON -c \"import os; os.write($LENT, b'x')\"",
        is_changed,
        lend=_opened("victim/file", os.O_WRONLY),
    ),
    Attempt(
        "a file is opened below a directory that the launcher has open",
        "$PYTHON -c \"import os; print(os.read(os.open('secret', os.O_RDONLY, dir_fd=$LENT), 99))\"",
        is_leaked,
        lend=_opened(".", os.O_RDONLY),
    ),
    Attempt(
        "a file is removed below a directory that the launcher has open",
        "$PYTHON -c \"import os; os.unlink('deep', dir_fd=$LENT)\"",
        is_changed,
        lend=_opened("victim/below", os.O_RDONLY),
    ),
    Attempt(
        "a directory that the launcher has open becomes the current one, and leads further up",
        "$PYTHON -c \"import os; os.fchdir($LENT); print(open('../../secret').read())\"",
        is_leaked,
        lend=_opened("victim/below", os.O_PATH),
    ),
    Attempt(
        "a path that the launcher has open for nothing is opened again for reading",
        "cat /proc/self/fd/$LENT",
        is_leaked,
        lend=_opened("secret", os.O_PATH),
    ),
    Attempt(
        "a file that the launcher has open for reading is opened again for writing",
        "echo x > /proc/self/fd/$LENT",
        is_changed,
        lend=_opened("victim/file", os.O_RDONLY),
    ),
    Attempt(
        "the mode of a file is changed that the launcher has open",
        "$PROBE fchmod $LENT",
        is_changed,
        lend=_opened("victim/file", os.O_RDONLY),
    ),
    Attempt(
        "a socket of the launcher takes what is sent",
        "$PYTHON -c \"import os; os.write($LENT, b'x')\"",
        is_heard,
        listen=_pair,
        lend=_end,
    ),
    Attempt(
        "a process is killed by the descriptor that the launcher has of it",
        "$PROBE fd_kill $LENT 15",
        is_signalled,
        lend=_victim,
        has_victim=True,
    ),
    Attempt(
        "a namespace is entered that the launcher has open",
        f"$PROBE setns /proc/self/fd/$LENT {0x4000000}",
        has_own("uts"),
        lend=lambda _cell: os.open("/proc/self/ns/uts", os.O_RDONLY),
        needs_root=True,
    ),
    Attempt(
        "files of the processes above are opened again",
        "for p in $VICTIM 1; do for n in 0 1 2 3 4 5 6 7 8 9 10 11 12; do"
        " $PROBE open /proc/$p/fd/$n w && exit; done; done",
        is_held,
        has_victim=True,
    ),
    Attempt(
        "files of the processes above are duplicated",
        "for p in $VICTIM 1; do for n in 0 1 2 3 4 5 6 7 8 9 10 11 12; do"
        " $PROBE getfd $p $n && exit; done; done",
        is_held,
        has_victim=True,
    ),
]


@each_attempt(INHERITED)
def test_descriptor_of_the_launcher_is_of_no_use_inside(attempt: Attempt, user: int, arena: Arena) -> None:
    arena.judge(attempt, INHERITED, user)
