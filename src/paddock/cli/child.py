"""A program that this process starts and waits for, without the time that `subprocess` takes to load."""

from __future__ import annotations

import errno
import os
import select
from contextlib import ExitStack, suppress

from paddock.cli.descriptor import STDERR

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Iterable, Mapping, Sequence
else:
    # What `signal` adds to it takes longer to load than all else here.
    import _signal as signal

_DEFAULT_SIGNALS = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD)
"""Signals that Python ignores for itself, and one that our caller may have ignored: whoever then waits for a
child does not learn how it ended (wait(2))."""

_SHORTAGES = frozenset((errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE))
"""Of processes, memory or descriptors (fork(2)): no fault of the program."""

_SIGNALS_AT_ONCE = 4096


class Child:
    """A child that leads a process group of its own.

    It has the standard `streams`, and `files` under their own numbers; no other descriptor, whatever our
    caller left open. Raises OSError, with the program as its file name if that is the reason. To be made in
    the main thread.
    """

    def __init__(
        self,
        argv: Sequence[str],
        streams: Sequence[int],
        files: Iterable[int],
        environment: Mapping[str, str],
        cwd: str,
    ) -> None:
        self._status: int | None = None
        self._has_ended = False
        if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        moved = [(file, number) for number, file in enumerate(streams) if file != number]
        actions = [(os.POSIX_SPAWN_DUP2, file, number) for file, number in moved]
        _leave_to_child({*files, *streams} - {file for file, _ in moved})
        try:
            here = os.open(".", os.O_PATH | os.O_CLOEXEC)
        except OSError as error:
            raise OSError(error.errno, error.strerror) from error
        try:
            # Nobody can set it for the child alone (posix_spawn(3)).
            os.chdir(cwd)
            self.pid = _spawned(argv, environment, actions)
        finally:
            # If somebody has closed the directory meanwhile, the child must not be lost for that.
            with suppress(OSError):
                os.fchdir(here)
            os.close(here)

    def wait(self) -> int:
        """Wait for its end. Return its exit status, or the negative number of the signal that ended it."""
        if self._status is None:
            # Without descriptors for that, a signal may have to wait for the next.
            with suppress(OSError):
                self._await_end()
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
            # From here on a signal handler can't tell whose number it is.
            self._has_ended = True
            self._status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._status

    def _await_end(self) -> None:
        """Wait until it can be waited for, while signal handlers run.

        A call that waits is not interrupted by a signal that comes just before it, such as one that answers
        what the command has just written. So each signal writes to a pipe.
        """
        with ExitStack() as undone:
            ended = os.pidfd_open(self.pid)
            undone.callback(os.close, ended)
            reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            for file in (reader, writer):
                undone.callback(os.close, file)
            before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
            undone.callback(signal.set_wakeup_fd, before)
            news = select.poll()
            for file in (ended, reader):
                news.register(file, select.POLLIN)
            # The first look does not wait: Python learns from it what another thread was sent earlier.
            found = news.poll(0)
            while all(file != ended for file, _ in found):
                if found:
                    os.read(reader, _SIGNALS_AT_ONCE)
                found = news.poll()

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended. A signal handler may do this while `wait` waits."""
        if not self._has_ended:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it and its process group, unless it has ended.

        A bubblewrap that is killed alone while it makes its sandbox leaves a child that waits for it.
        """
        if not self._has_ended:
            os.killpg(self.pid, signal.SIGKILL)


def _leave_to_child(files: Iterable[int]) -> None:
    """Let a child inherit these descriptors, and none that our caller left open besides."""
    numbers: Iterable[int]
    try:
        numbers = [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        numbers = range(os.sysconf("SC_OPEN_MAX"))
    wanted = frozenset(files)
    for number in numbers:
        # Some are free: the directory of the list itself is closed by now.
        with suppress(OSError):
            # The standard ones are this process's own as well, and the child gets others in their place.
            if number in wanted or number > STDERR:
                os.set_inheritable(number, number in wanted)


def _spawned(
    argv: Sequence[str], environment: Mapping[str, str], actions: Sequence[tuple[int, int, int]]
) -> int:
    """Start a program, which is looked for on the PATH of its own variables (execvp(3)). Return its pid."""
    name = argv[0]
    directories = [""] if "/" in name else os.get_exec_path(dict(environment))
    problem: OSError | None = None
    for directory in directories:
        try:
            return os.posix_spawn(
                os.path.join(directory, name),
                list(argv),
                environment,
                file_actions=actions,
                setpgroup=0,
                setsigdef=_DEFAULT_SIGNALS,
            )
        except OSError as error:
            if error.errno in _SHORTAGES:
                raise OSError(error.errno, error.strerror) from error
            if problem is None or isinstance(problem, FileNotFoundError | NotADirectoryError):
                problem = error
    if problem is None:
        problem = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    problem.filename = name
    raise problem
