"""A confined command as a child of this process: started, signalled, waited for."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Final

from paddock.cli.confined_streams import ConfinedStreams
from paddock.cli.descriptor import STDERR
from paddock.errors import PaddockError

if TYPE_CHECKING:
    from paddock.sandbox.confined import Confined
    from paddock.sandbox.init import Report

PASSED_ON: Final = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
ENDING: Final = frozenset((signal.SIGTERM, signal.SIGQUIT))
"""Those that mean an end whatever the command does about them."""

PATIENCE_S: Final = 2.0
"""How long a reader may take for the next 64 KiB of a command that was made to end. Whoever sends a signal
and waits gives up after some ten seconds; a reader that reads at all takes milliseconds."""

STATUS_NOT_STARTED: Final = 125
STATUS_OUTPUT_LOST: Final = 125
STATUS_NOT_FOUND: Final = 127
STATUS_NOT_EXECUTABLE: Final = 126


def run_confined(confined: Confined) -> int:
    """Run it to its end; the status to exit with is returned. Afterwards nothing of it is left.

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
            print(f"paddock: the command can't be started: {error.strerror}", file=sys.stderr)
            return STATUS_NOT_STARTED
        print(f"paddock: can't run {error.filename}: {error.strerror}", file=sys.stderr)
        return STATUS_NOT_FOUND if isinstance(error, FileNotFoundError) else STATUS_NOT_EXECUTABLE
    confined.started()
    streams.started()
    with _passed_on(child, confined) as passed_on:
        status = child.wait()
    reports = confined.ended(was_killed=status < 0)
    problem = streams.finish(PATIENCE_S if _was_made_to_end(status, passed_on, reports) else None)
    if status > 0 and confined.plan is not None and not reports:
        # The command was never reached; what bubblewrap has written to stderr says why.
        print(
            "paddock: bubblewrap could not make the sandbox, and the command was not started", file=sys.stderr
        )
        return STATUS_NOT_STARTED
    if problem is not None:
        _complain(f"paddock: the command's output can't be written: {problem.strerror}\n")
        status = status or STATUS_OUTPUT_LOST
    return status if status >= 0 else 128 - status


def _was_made_to_end(status: int, passed_on: set[int], reports: Iterable[Report]) -> bool:
    """Return whether whoever waits for us wants an end more than the rest of the output."""
    if any(report.kind.ends_command for report in reports):
        return True
    # Others may be caught by a command that goes on.
    return not passed_on.isdisjoint(ENDING) or (bool(passed_on) and status != 0)


def _complain(text: str) -> None:
    """Write it to standard error, unless nobody reads there."""
    room = select.poll()
    room.register(STDERR, select.POLLOUT)
    if room.poll(0):
        print(text, end="", file=sys.stderr)


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

    # Who started us with a signal ignored, as nohup(1) does, wants it ignored.
    caught = [number for number in PASSED_ON if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, pass_on) for number in caught}
    try:
        yield numbers
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
