"""Chooses the descriptors that a confined command has as its standard streams.

The command gets a terminal and /dev/null unchanged, and also a file that its profile lets it write under its
own name, if the user may open it so. In place of everything else it gets a pipe (`stream_copy`), also of the
master of a pseudo-terminal: whoever has that can type to the programs on the terminal. A directory is
refused: the whole host could be reached from it.
"""

from __future__ import annotations

import fcntl
import os
import stat
from typing import TYPE_CHECKING, Final

from paddock.cli.confined_terminal import ConfinedTerminal, is_master
from paddock.cli.descriptor import STDERR, STDIN, STDOUT
from paddock.cli.input_source import source_of
from paddock.cli.stream_copy import InputCopy, OutputCopy
from paddock.errors import PaddockError
from paddock.fs.set_id import clear_set_id
from paddock.model.host import Enforcement
from paddock.model.profile import Access
from paddock.sandbox.profile.access import AccessTable
from paddock.sandbox.profile.path import DEV, KERNEL_OBJECTS, PROC, is_within

if TYPE_CHECKING:
    from paddock.sandbox.enforce.confined import Confined
    from paddock.sandbox.plan.plan import Plan

NAMES: Final = {STDIN: "standard input", STDOUT: "standard output", STDERR: "standard error"}
NULL_DEVICE: Final = os.makedev(1, 3)
"""See null(4)."""

_HOST_ONLY: Final = (DEV, PROC, KERNEL_OBJECTS)
"""Where a sandbox has something else than the host, whatever its profile grants."""


class ConfinedStreams:
    """The standard streams of one command.

    Start it with `numbers`, then call `started`, and `finish` when nothing of it lives any more; if it
    can't be started, neither. Raises PaddockError for a stream that no command may have.
    """

    def __init__(self, confined: Confined) -> None:
        self._input: InputCopy | None = None
        self._outputs: dict[tuple[int, int, int], OutputCopy] = {}
        self._terminals: list[ConfinedTerminal] = []
        self.numbers = [STDIN, STDOUT, STDERR]
        """Of the descriptors that the command is to have as 0, 1 and 2."""
        if confined.enforcement is not Enforcement.NONE:
            self.numbers = [self._number(fd, confined.plan) for fd in self.numbers]

    def started(self) -> None:
        """Begin to copy."""
        for copy in (self._input, *self._outputs.values()):
            if copy is not None:
                copy.start()

    def finish(self, patience_s: float | None = None) -> OSError | None:
        """Wait until all output is where it belongs; return what kept it from there, if anything.

        With `patience_s`, do not wait for a reader that takes nothing for that long.
        """
        for copy in (self._input, *self._outputs.values()):
            if copy is not None:
                copy.command_ended()
        for terminal in self._terminals:
            terminal.restore()
        if self._input is not None:
            self._input.finish()
        problems = [copy.finish(patience_s) for copy in self._outputs.values()]
        return next((problem for problem in problems if problem is not None), None)

    def _number(self, fd: int, plan: Plan | None) -> int:
        status = os.fstat(fd)
        if stat.S_ISDIR(status.st_mode):
            raise PaddockError(f"{NAMES[fd]} is a directory, which no confined command can have")
        if os.isatty(fd) and not is_master(fd):
            self._terminals.append(ConfinedTerminal(fd, status))
            return fd
        is_null = stat.S_ISCHR(status.st_mode) and status.st_rdev == NULL_DEVICE
        if is_null or (plan is not None and _is_granted(fd, status, plan)):
            return fd
        if fd == STDIN:
            self._input = InputCopy(source_of(fd, status))
            return self._input.stream
        # Two descriptors of one file have one pipe, so that what is written to them keeps its order.
        file = (status.st_dev, status.st_ino, fcntl.fcntl(fd, fcntl.F_GETFL))
        if file not in self._outputs:
            # Where the command writes itself, the kernel does this: it is not root's equal there.
            clear_set_id(fd, status)
            self._outputs[file] = OutputCopy(fd)
        return self._outputs[file].stream


def _is_granted(fd: int, status: os.stat_result, plan: Plan) -> bool:
    """Return whether the command may do with the file whatever it likes, under the name that it has."""
    try:
        path = os.readlink(f"/proc/self/fd/{fd}")
        found = os.stat(path, follow_symlinks=False)
    except OSError:
        return False
    return (
        stat.S_ISREG(status.st_mode)
        and os.path.samestat(status, found)
        and not any(is_within(path, directory) for directory in _HOST_ONLY)
        and AccessTable(plan.rules).access_of(path) is Access.WRITE
        # The process that opened it may have had more rights than the user who runs the command.
        and os.access(f"/proc/self/fd/{fd}", _rights_of(fd), effective_ids=True)
    )


def _rights_of(fd: int) -> int:
    """Return the rights needed to open a file as a descriptor has it."""
    mode = fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE
    return {os.O_RDONLY: os.R_OK, os.O_WRONLY: os.W_OK}.get(mode, os.R_OK | os.W_OK)
