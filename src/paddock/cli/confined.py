"""A confined command as a child of this process: started, signalled, waited for."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Final, NamedTuple

from paddock.cli import exit_status
from paddock.cli.confined_streams import ConfinedStreams
from paddock.cli.descriptor import STDERR
from paddock.cli.message import tell
from paddock.cli.signal_set import ENDING_CONFINED, PASSED_ON_CONFINED, not_ignored
from paddock.errors import PaddockError

if TYPE_CHECKING:
    from paddock.cli.confined_network import ConfinedNetwork
    from paddock.sandbox.enforce.confined import Confined
    from paddock.sandbox.enforce.init import Report

PATIENCE_S: Final = 2.0
"""How long a reader may take for the next 64 KiB of a command that was made to end, or for a message. A
program that sends a signal and waits gives up after some ten seconds; a reader that reads at all takes
milliseconds."""


class Ended(NamedTuple):
    """How a command ended."""

    status: int
    """The exit status of this process."""
    may_tell: bool = True
    """Whether to write messages about it: not if it was made to end and nobody reads them. On a terminal that
    is stopped, they would keep this process from ending too."""


def run_confined(confined: Confined, network: ConfinedNetwork | None = None) -> Ended:
    """Run the command to its end, leave nothing of it running, and return how it ended.

    `network` is its proxied network, if it has one.

    All its output is written by then, unless it was made to end by a signal or its limit and nobody reads.
    Raises PaddockError if it can't have our standard streams.
    """
    try:
        streams = ConfinedStreams(confined)
    except (PaddockError, OSError):
        confined.started()
        confined.ended(was_killed=False)
        raise
    stdin, stdout, stderr = streams.numbers
    try:
        child = subprocess.Popen(
            confined.argv(confined.files),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            pass_fds=confined.files,
            env=confined.environment,
            cwd=confined.cwd,
            # Signals of the terminal come here alone, and are passed on to the command itself.
            process_group=0,
        )
    except OSError as error:
        confined.started()
        confined.ended(was_killed=False)
        if error.filename is None:
            tell(f"the command can't be started: {error.strerror}")
            return Ended(exit_status.OWN_FAILURE)
        tell(f"can't run {error.filename}: {error.strerror}")
        is_missing = isinstance(error, FileNotFoundError)
        return Ended(exit_status.NOT_FOUND if is_missing else exit_status.NOT_EXECUTABLE)
    # Before the first output is seen: whoever has read it may send signals.
    with _passed_on(child, confined) as passed_on:
        confined.started()
        if network is not None:
            network.start(confined)
        streams.started()
        status = child.wait()
    if network is not None:
        network.finish()
    reports = confined.ended(was_killed=status < 0)
    was_made_to_end = _was_made_to_end(status, passed_on, reports)
    problem = streams.finish(PATIENCE_S if was_made_to_end else None)
    may_tell = not was_made_to_end or _is_read(STDERR, PATIENCE_S)
    if status > 0 and confined.plan is not None and not reports:
        # The command was never reached; what bubblewrap has written to stderr says why.
        if may_tell:
            tell("bubblewrap could not make the sandbox, and the command was not started")
        return Ended(exit_status.OWN_FAILURE, may_tell)
    if problem is not None:
        if _is_read(STDERR, 0):
            tell(f"can't write the command's output: {problem.strerror}")
        status = status or exit_status.OWN_FAILURE
    return Ended(status if status >= 0 else exit_status.of_signal(-status), may_tell)


def _was_made_to_end(status: int, passed_on: set[int], reports: Iterable[Report]) -> bool:
    """Return whether our caller wants an end more than the rest of the output."""
    if any(report.kind.ends_command for report in reports):
        return True
    # Others may be caught by a command that goes on.
    return not passed_on.isdisjoint(ENDING_CONFINED) or (bool(passed_on) and status != 0)


def _is_read(fd: int, patience_s: float) -> bool:
    """Return whether a line can be written there now, or within this time."""
    room = select.poll()
    room.register(fd, select.POLLOUT)
    return bool(room.poll(patience_s * 1000))


@contextmanager
def _passed_on(child: subprocess.Popen[bytes], confined: Confined) -> Iterator[set[int]]:
    """Pass signals on; which ones is in the set that is yielded."""
    numbers: set[int] = set()

    def pass_on(number: int, _: FrameType | None) -> None:
        numbers.add(number)
        pid = confined.first_pid()
        if pid is not None:
            os.kill(pid, number)
        elif child.poll() is None:
            child.send_signal(number)

    before = {number: signal.signal(number, pass_on) for number in not_ignored(PASSED_ON_CONFINED)}
    try:
        yield numbers
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
