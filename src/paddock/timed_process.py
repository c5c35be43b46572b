"""Runs work of Paddock's own in another process, which ends itself when its time is up.

For work that lets no other thread run meanwhile, such as a search for an expression that somebody else chose.
The request comes on standard input, and the answer goes to standard output. This module does not know what
they mean.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from paddock import own_program
from paddock.errors import OperationFailed
from paddock.own_program import ROOT, own_environment


def answer_of(module: str, request: bytes) -> bytes | None:
    """Return what the function `main` of one of our modules answers; None if its time was up.

    Blocks. `main` has to call `end_after` and `reply`. Raises OperationFailed if it does not work.
    """
    try:
        python = own_program.python()
        done = subprocess.run(
            own_program.python_command(module),
            executable=f"/proc/self/fd/{python}",
            pass_fds=(python,),
            input=request,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=ROOT,
            env=own_environment(),
            check=False,
            # A Ctrl-C at the terminal is for the server.
            start_new_session=True,
        )
    except OSError as error:
        raise OperationFailed(f"can't start {sys.executable}: {error.strerror}") from error
    if done.returncode == -signal.SIGALRM:
        return None
    if done.returncode:
        raise OperationFailed(f"the process of {module} ended with {done.returncode}")
    return done.stdout


def end_after(limit_s: float) -> None:
    """Let the kernel end this process after a time, also if nobody waits for it any more."""
    # To nobody's handler: the kernel ends a process that runs no Python.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, limit_s)


def reply(answer: bytes) -> None:
    """Write the whole answer."""
    rest = memoryview(answer)
    while rest:
        rest = rest[os.write(sys.stdout.fileno(), rest) :]
