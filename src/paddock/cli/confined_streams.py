"""Chooses the descriptors that a confined command has as its standard streams.

The command gets a terminal and /dev/null unchanged, and also a file that its profile lets it write under its
own name, if the user may open it so. In place of everything else it gets a pipe (`stream_copy`), also of the
master of a pseudo-terminal: whoever has that can type to the programs on the terminal. A job in the
background gets no terminal, because a shell reads there: only what it writes is copied. A directory is
refused: the whole host could be reached from it.
"""

from __future__ import annotations

import fcntl
import os
import stat

from paddock.cli.descriptor import STDERR, STDIN, STDOUT
from paddock.cli.job_control import is_in_background
from paddock.errors import PaddockError
from paddock.fs.set_id import clear_set_id
from paddock.sandbox.profile.path import DEV, KERNEL_OBJECTS, PROC, is_within

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from paddock.cli.confined_terminal import ConfinedTerminal
    from paddock.cli.stream_copy import InputCopy, OutputCopy
    from paddock.sandbox.enforce.confined import Confined

NAMES: Final = {STDIN: "standard input", STDOUT: "standard output", STDERR: "standard error"}
NULL_DEVICE: Final = os.makedev(1, 3)
"""See null(4)."""

_HOST_ONLY: Final = (DEV, PROC, KERNEL_OBJECTS)
"""Where a sandbox has something else than the host, whatever its profile grants."""


class ConfinedStreams:
    """The standard streams of one command.

    Start it with `numbers`, then call `started`, and `finish` when nothing of it lives any more; if it
    can't be started, neither, and no `finish` after a `started` that failed. Raises PaddockError for a stream
    that no command may have.
    """

    def __init__(self, confined: Confined) -> None:
        self._input: InputCopy | None = None
        self._outputs: dict[tuple[int, int, int], OutputCopy] = {}
        self._nothing: int | None = None
        self.terminals: list[ConfinedTerminal] = []
        """Those that the command has."""
        self.numbers = [STDIN, STDOUT, STDERR]
        """Of the descriptors that the command is to have as 0, 1 and 2."""
        if confined.is_confined:
            self.numbers = [self._number(fd, confined) for fd in self.numbers]

    def started(self) -> None:
        """Begin to copy. Raises OSError, and then no input has been taken."""
        if self._nothing is not None:
            os.close(self._nothing)
        for copy in (*self._outputs.values(), self._input):
            if copy is not None:
                copy.start()

    def finish(self, patience_s: float | None = None) -> OSError | None:
        """Wait until all output is where it belongs; return what kept it from there, if anything.

        With `patience_s`, do not wait for a reader that takes nothing for that long.
        """
        for copy in (self._input, *self._outputs.values()):
            if copy is not None:
                copy.command_ended()
        for terminal in self.terminals:
            terminal.restore()
        if self._input is not None:
            self._input.finish()
        problems = [copy.finish(patience_s) for copy in self._outputs.values()]
        return next((problem for problem in problems if problem is not None), None)

    def _number(self, fd: int, confined: Confined) -> int:
        status = os.fstat(fd)
        if stat.S_ISDIR(status.st_mode):
            raise PaddockError(f"{NAMES[fd]} is a directory, which no confined command can have")
        is_terminal = False
        if os.isatty(fd):
            # Not every command has one, or needs what follows, and it takes time to load.
            from paddock.cli.confined_terminal import ConfinedTerminal, is_master

            is_terminal = not is_master(fd)
            if is_terminal and not is_in_background(fd):
                self.terminals.append(ConfinedTerminal(fd, status))
                return fd
        is_null = stat.S_ISCHR(status.st_mode) and status.st_rdev == NULL_DEVICE
        if is_null or (stat.S_ISREG(status.st_mode) and _is_granted(fd, status, confined)):
            return fd
        if fd == STDIN and is_terminal:
            # What is typed is for the shell, even if a copy could wait for the command to want it.
            self._nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            return self._nothing
        from paddock.cli.stream_copy import InputCopy, OutputCopy

        if fd == STDIN:
            from paddock.cli.input_source import source_of

            self._input = InputCopy(source_of(fd, status))
            return self._input.stream
        # Two descriptors of one file have one pipe, so that what is written to them keeps its order.
        file = (status.st_dev, status.st_ino, fcntl.fcntl(fd, fcntl.F_GETFL))
        if file not in self._outputs:
            # Where the command writes itself, the kernel does this: it is not root's equal there.
            clear_set_id(fd, status)
            self._outputs[file] = OutputCopy(fd)
        return self._outputs[file].stream


def _is_granted(fd: int, status: os.stat_result, confined: Confined) -> bool:
    """Return whether the command may do with the file whatever it likes, under the name that it has."""
    try:
        path = os.readlink(f"/proc/self/fd/{fd}")
        found = os.stat(path, follow_symlinks=False)
    except OSError:
        return False
    return (
        os.path.samestat(status, found)
        and not any(is_within(path, directory) for directory in _HOST_ONLY)
        and confined.may_write(path)
        # The process that opened it may have had more rights than the user who runs the command.
        and os.access(f"/proc/self/fd/{fd}", _rights_of(fd), effective_ids=True)
    )


def _rights_of(fd: int) -> int:
    """Return the rights needed to open a file as a descriptor has it."""
    mode = fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE
    return {os.O_RDONLY: os.R_OK, os.O_WRONLY: os.W_OK}.get(mode, os.R_OK | os.W_OK)
