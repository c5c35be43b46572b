"""Files outside the profile that are the standard streams of a command.

They are ordinary (`command < file`, `command >> log`) and must stay streams: what was opened for reading is
not written, what was opened for appending is not read, and neither leads anywhere.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from tests.attack.attempt import Attempt, Scene, each_attempt, is_changed, is_leaked, is_overwritten
from tests.attack.conftest import Arena
from tests.attack.ground import Cell


def _opened(name: str, flags: int) -> Callable[[Cell], int]:
    return lambda cell: os.open(cell.outside / name, flags)


def _is_mode_changed(scene: Scene) -> bool:
    return any(scene.before[name][1] != scene.after[name][1] for name in scene.before)


STREAMS = [
    Attempt(
        "standard input is written though it was opened for reading",
        "echo x > /proc/$COMMAND/fd/0",
        is_changed,
        lend=_opened("victim/file", os.O_RDONLY),
        lends_as=0,
        is_alone=True,
    ),
    Attempt(
        "standard output is read though it was opened for appending",
        "timeout 1 cat /proc/$COMMAND/fd/1",
        is_leaked,
        lend=_opened("secret", os.O_WRONLY | os.O_APPEND),
        lends_as=1,
        is_alone=True,
    ),
    Attempt(
        "standard output is overwritten though it was opened for appending",
        ": > /proc/$COMMAND/fd/1",
        is_overwritten("victim/file"),
        lend=_opened("victim/file", os.O_WRONLY | os.O_APPEND),
        lends_as=1,
        is_alone=True,
    ),
    Attempt(
        "the mode of the file behind standard error is changed",
        "chmod 777 /proc/$COMMAND/fd/2",
        _is_mode_changed,
        lend=_opened("victim/file", os.O_WRONLY | os.O_APPEND),
        lends_as=2,
        is_alone=True,
    ),
    Attempt(
        "the times of the file behind standard input are changed",
        "touch -c -d 2001-01-01 /proc/$COMMAND/fd/0",
        is_changed,
        lend=_opened("victim/file", os.O_RDONLY),
        lends_as=0,
        is_alone=True,
    ),
    Attempt(
        "an attribute is put on the file behind standard input",
        "$PYTHON -c \"import os; os.setxattr('/proc/$COMMAND/fd/0', 'user.planted', b'x')\"",
        is_changed,
        lend=_opened("victim/file", os.O_RDONLY),
        lends_as=0,
        is_alone=True,
    ),
    Attempt(
        "a directory as standard input leads to what is in it",
        "cat /proc/$COMMAND/fd/0/secret",
        is_leaked,
        lend=_opened(".", os.O_RDONLY),
        lends_as=0,
        is_alone=True,
        may_be_refused=True,
    ),
    Attempt(
        "a directory as standard output leads to what is above it",
        "cat /proc/$COMMAND/fd/1/../../secret",
        is_leaked,
        lend=_opened("victim/below", os.O_RDONLY),
        lends_as=1,
        is_alone=True,
        may_be_refused=True,
    ),
]


@each_attempt(STREAMS)
def test_standard_stream_is_no_more_than_a_stream(attempt: Attempt, user: int, arena: Arena) -> None:
    arena.judge(attempt, STREAMS, user)
