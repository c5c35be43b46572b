"""A confined command as a child of this process: started, signalled, waited for."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Final

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
"""How long a reader may take for the next 64 KiB of a command that was made to end. A program that sends a
signal and waits gives up after some ten seconds; a reader that reads at all takes milliseconds."""


def run_confined(confined: Confined, network: ConfinedNetwork | None = None) -> int:
    """Run the command to its end, leave nothing of it running, and return the exit status.

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
            return exit_status.OWN_FAILURE
        tell(f"can't run {error.filename}: {error.strerror}")
        is_missing = isinstance(error, FileNotFoundError)
        return exit_status.NOT_FOUND if is_missing else exit_status.NOT_EXECUTABLE
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
    problem = streams.finish(PATIENCE_S if _was_made_to_end(status, passed_on, reports) else None)
    if status > 0 and confined.plan is not None and not reports:
        # The command was never reached; what bubblewrap has written to stderr says why.
        tell("bubblewrap could not make the sandbox, and the command was not started")
        return exit_status.OWN_FAILURE
    if problem is not None:
        _complain(f"can't write the command's output: {problem.strerror}")
        status = status or exit_status.OWN_FAILURE
    return status if status >= 0 else exit_status.of_signal(-status)


def _was_made_to_end(status: int, passed_on: set[int], reports: Iterable[Report]) -> bool:
    """Return whether our caller wants an end more than the rest of the output."""
    if any(report.kind.ends_command for report in reports):
        return True
    # Others may be caught by a command that goes on.
    return not passed_on.isdisjoint(ENDING_CONFINED) or (bool(passed_on) and status != 0)


def _complain(text: str) -> None:
    """Write it to standard error, unless nobody reads there."""
    room = select.poll()
    room.register(STDERR, select.POLLOUT)
    if room.poll(0):
        tell(text)


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
