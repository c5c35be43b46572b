"""A search in a process of its own, which can be ended.

Python's engine needs for ever for some patterns and lines, and lets no other thread run meanwhile: in
the server, nobody else would be served. The search comes on standard input, and what it
found goes to standard output. The process ends itself soon after the time of the search is up,
whatever it is doing then, also if nobody waits for it any more.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from msgspec import msgpack

from paddock import own_program
from paddock.errors import OperationFailed
from paddock.fs.answer import Found
from paddock.fs.operation import Search
from paddock.fs.scan import scan
from paddock.own_program import ROOT, own_environment

GRACE_S = 1.0
"""A search that can look at the clock ends by itself in this time, with what it has found."""

_MODULE = "paddock.fs.search_process"
_searches = msgpack.Decoder(Search)
_answers = msgpack.Decoder(Found)


def search_apart(operation: Search) -> Found:
    """Search in another process. Raises OperationFailed if it does not work."""
    try:
        python = own_program.python()
        done = subprocess.run(
            own_program.python_command(_MODULE),
            executable=f"/proc/self/fd/{python}",
            pass_fds=(python,),
            input=msgpack.encode(operation),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=ROOT,
            env=own_environment(),
            check=False,
            # A Ctrl-C at the terminal is for the server.
            start_new_session=True,
        )
    except OSError as error:
        raise OperationFailed(f"can't start {sys.executable} to search: {error.strerror}") from error
    if done.returncode == -signal.SIGALRM:
        problem = f"the pattern {operation.pattern!r} takes too long; use a simpler one"
        return Found(matches=[], errors=[problem], is_truncated=True)
    if done.returncode:
        raise OperationFailed(f"the search failed in its process, which ended with {done.returncode}")
    return _answers.decode(done.stdout)


def main() -> None:
    """Carry out the search on standard input."""
    operation = _searches.decode(sys.stdin.buffer.read())
    # To nobody's handler: the kernel ends a process that runs no Python.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, operation.timeout_s + GRACE_S)
    answer = memoryview(msgpack.encode(scan(operation)))
    while answer:
        answer = answer[os.write(sys.stdout.fileno(), answer) :]
