"""A confined command as a child of this process: started, signalled, waited for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Final

from paddock.cli.confined_streams import ConfinedStreams
from paddock.errors import PaddockError

if TYPE_CHECKING:
    from paddock.sandbox.confined import Confined

PASSED_ON: Final = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
STATUS_NOT_STARTED: Final = 125
STATUS_OUTPUT_LOST: Final = 125
STATUS_NOT_FOUND: Final = 127
STATUS_NOT_EXECUTABLE: Final = 126


def run_confined(confined: Confined) -> int:
    """Run it to its end; the status to exit with is returned. Afterwards nothing of it is left.

    All its output is written by then. Raises PaddockError if it can't have our standard streams.
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
    with _passed_on(child, confined):
        status = child.wait()
    reports = confined.ended(was_killed=status < 0)
    problem = streams.finish()
    if status > 0 and confined.plan is not None and not reports:
        # The command was never reached; what bubblewrap has written to stderr says why.
        print(
            "paddock: bubblewrap could not make the sandbox, and the command was not started", file=sys.stderr
        )
        return STATUS_NOT_STARTED
    if problem is not None:
        print(f"paddock: the command's output can't be written: {problem.strerror}", file=sys.stderr)
        status = status or STATUS_OUTPUT_LOST
    return status if status >= 0 else 128 - status


@contextmanager
def _passed_on(child: subprocess.Popen[bytes], confined: Confined) -> Iterator[None]:
    def pass_on(number: int, _: FrameType | None) -> None:
        pid = confined.first_pid()
        if pid is not None:
            os.kill(pid, number)
        elif child.poll() is None:
            child.send_signal(number)

    # Who started us with a signal ignored, as nohup(1) does, wants it ignored.
    caught = [number for number in PASSED_ON if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, pass_on) for number in caught}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
