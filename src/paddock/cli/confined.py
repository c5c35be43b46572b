"""A confined command as a child of this process: started, signalled, waited for."""

from __future__ import annotations

import os
from contextlib import contextmanager, nullcontext, suppress
from types import FrameType

from paddock.cli import exit_status
from paddock.cli.child import Child
from paddock.cli.confined_streams import ConfinedStreams
from paddock.cli.descriptor import STDERR, is_read
from paddock.cli.job_control import stopped_together, unstopped
from paddock.cli.message import tell
from paddock.errors import PaddockError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Iterable, Iterator
    from typing import Final

    from paddock.cli.confined_network import ConfinedNetwork
    from paddock.sandbox.enforce.confined import Confined
    from paddock.sandbox.enforce.report import Report
else:
    # What `signal` adds to it takes longer to load than all else here.
    import _signal as signal

PASSED_ON: Final = (
    *(signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP),
    *(signal.SIGUSR1, signal.SIGUSR2),
)
"""To the command."""

ENDING: Final = frozenset((signal.SIGTERM, signal.SIGQUIT))
"""Of those, the ones that mean an end whatever the command does about them."""

ENDING_JOB: Final = ENDING | {signal.SIGHUP, signal.SIGINT}
"""The ones that mean the end of a job that is stopped, which can do nothing about them."""

PATIENCE_S: Final = 2.0
"""How long a reader may take for the next 64 KiB of a command that was made to end, or for a message. A
program that sends a signal and waits gives up after some ten seconds; a reader that reads at all takes
milliseconds."""


class Ended:
    """How a command ended."""

    __slots__ = ("may_tell", "status")

    def __init__(self, status: int, may_tell: bool = True) -> None:
        self.status = status
        """The exit status of this process."""
        self.may_tell = may_tell
        """Whether to write messages about it: not if it was made to end and nobody reads them. On a terminal
        that is stopped, they would keep this process from ending too."""


def run_confined(
    confined: Confined,
    network: ConfinedNetwork | None = None,
    meanwhile: Callable[[], None] | None = None,
    *,
    must_return: bool = False,
) -> Ended:
    """Run the command to its end, leave nothing of it running, and return how it ended.

    `network` is its proxied network, if it has one. `meanwhile` is done while the command runs. A command
    that nothing confines replaces this process, unless this `must_return`.

    All its output is written by then, unless it was made to end by a signal or its limit and nobody reads.
    Raises PaddockError if it can't have our standard streams, and OSError if there is no room for what serves
    it; by then it is killed.
    """
    if not confined.is_confined and not must_return:
        return _become(confined)
    # A command without a sandbox would inherit that a signal is blocked.
    with unstopped() if confined.is_confined else nullcontext():
        return _run(confined, network, meanwhile)


def _become(confined: Confined) -> Ended:
    """Execute a command that nothing confines in place of this process. Returns only if that fails.

    As a child in a group of its own it would be in the background of the terminal, and stop when it reads.
    """
    program, *_ = argv = confined.argv(())
    os.closerange(STDERR + 1, os.sysconf("SC_OPEN_MAX"))
    # Python ignores these, which the command would inherit.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.chdir(confined.cwd)
    except OSError as error:
        return _not_started(error, confined.cwd)
    try:
        os.execvpe(program, argv, confined.environment)
    except OSError as error:
        return _not_started(error, program)


def _run(confined: Confined, network: ConfinedNetwork | None, meanwhile: Callable[[], None] | None) -> Ended:
    try:
        streams = ConfinedStreams(confined)
    except (PaddockError, OSError):
        confined.started()
        confined.ended(was_killed=False)
        raise
    signals = CommandSignals(confined)
    # Before there is a command: one that nothing confines would not end with us.
    with signals.caught():
        child = _started(confined, streams)
        if isinstance(child, Ended):
            return child
        signals.child = child
        confined.started()
        try:
            if network is not None:
                network.start(confined)
            streams.started()
            _load_what_clears_up()
            if meanwhile is not None:
                meanwhile()
            signals.begin()
        except BaseException:
            _give_up(child, confined, network)
            raise
        with stopped_together(confined, streams.terminals, signals):
            status = child.wait()
    if signals.killed_for is not None:
        status = -signals.killed_for
    if network is not None:
        network.finish()
    reports = confined.ended(was_killed=status < 0)
    was_made_to_end = _was_made_to_end(status, signals.numbers, reports)
    problem = streams.finish(PATIENCE_S if was_made_to_end else None)
    may_tell = not was_made_to_end or is_read(STDERR, PATIENCE_S)
    if status > 0 and confined.has_view and not reports:
        # The command was never reached; what bubblewrap has written to stderr says why.
        if may_tell:
            tell("bubblewrap could not make the sandbox, and the command was not started")
        return Ended(exit_status.OWN_FAILURE, may_tell)
    if problem is not None:
        if is_read(STDERR, 0):
            tell(f"can't write the command's output: {problem.strerror}")
        status = status or exit_status.OWN_FAILURE
    return Ended(status if status >= 0 else exit_status.of_signal(-status), may_tell)


def _started(confined: Confined, streams: ConfinedStreams) -> Child | Ended:
    """Start the command. If it can't be started, say why, and return how that ends."""
    try:
        # Signals of the terminal come here alone, and are passed on to the command itself.
        return Child(
            confined.argv(confined.files),
            streams.numbers,
            confined.files,
            confined.environment,
            confined.cwd,
        )
    except OSError as error:
        confined.started()
        confined.ended(was_killed=False)
        return _not_started(error, error.filename)


def _give_up(child: Child, confined: Confined, network: ConfinedNetwork | None) -> None:
    """Kill a command that nobody would serve, and clear away what it has."""
    child.kill()
    child.wait()
    if network is not None:
        network.finish()
    confined.ended(was_killed=True)


def _not_started(error: OSError, program: str | None) -> Ended:
    if program is None:
        tell(f"the command can't be started: {error.strerror}")
        return Ended(exit_status.OWN_FAILURE)
    tell(f"can't run {program}: {error.strerror}")
    is_missing = isinstance(error, FileNotFoundError)
    return Ended(exit_status.NOT_FOUND if is_missing else exit_status.NOT_EXECUTABLE)


def _load_what_clears_up() -> None:
    """Import what `Confined.ended` needs, in the time that the sandbox takes to be made."""
    from paddock.sandbox.enforce import report  # noqa: F401


def _was_made_to_end(status: int, passed_on: set[int], reports: Iterable[Report]) -> bool:
    """Return whether our caller wants an end more than the rest of the output."""
    if any(report.kind.ends_command for report in reports):
        return True
    # Others may be caught by a command that goes on.
    return not passed_on.isdisjoint(ENDING) or (bool(passed_on) and status != 0)


class CommandSignals:
    """Passes signals on to a command.

    Until it `begin`s they wait: one may come while this process imports a module, of which a handler would
    get no more than the first half, or while another handler still asks which process is to get the signal.
    """

    def __init__(self, confined: Confined) -> None:
        self.numbers: set[int] = set()
        """Which ones have come."""
        self.child: Child | None = None
        """What was started for the command."""
        self.killed_for: int | None = None
        """The signal in whose place the command was killed."""
        self._confined = confined
        self._told_to_end: int | None = None
        self._waiting: list[int] = []
        self._has_begun = False
        self._pid: int | None = None

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Catch those that are to be passed on, for the time of the block."""
        # A caller that starts us with a signal ignored, as nohup(1) does, wants it ignored.
        caught = [number for number in PASSED_ON if signal.getsignal(number) != signal.SIG_IGN]
        before = {number: signal.signal(number, self._receive) for number in caught}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def begin(self) -> None:
        """Pass on what has come so far, and from now on everything at once. Wait until there is a sandbox."""
        self._pid = self._confined.signalled_pid()
        self._has_begun = True
        for number in self._waiting:
            self._pass_on(number)

    def _receive(self, number: int, _: FrameType | None) -> None:
        self.numbers.add(number)
        if number in ENDING_JOB:
            self._told_to_end = number
        if self._has_begun:
            self._pass_on(number)
        elif number not in self._waiting:
            self._waiting.append(number)
        elif self.child is not None:
            # Somebody insists, and there may never be a sandbox.
            self.child.send_signal(number)

    def forget(self) -> None:
        """Forget what the command has heard. It is going to be stopped."""
        self._told_to_end = None

    def end_if_told(self) -> bool:
        """Kill the command if it was told to end since `forget`. Return whether it was."""
        self.killed_for = self._told_to_end
        if self.killed_for is None or self.child is None:
            return False
        self.child.send_signal(signal.SIGKILL)
        return True

    def _pass_on(self, number: int) -> None:
        if self._pid is None and self.child is not None:
            self.child.send_signal(number)
        elif self._pid is not None:
            # It may have ended, and bubblewrap not yet.
            with suppress(ProcessLookupError):
                os.kill(self._pid, number)
