"""The smallest shell with job control: it has one job on one terminal, and obeys `fg`, `bg` and `wait`.

Every other line that it reads is in the file TYPED of its directory afterwards. It says when the job is
stopped.
"""

from __future__ import annotations

import fcntl
import os
import signal
import termios
from pathlib import Path

TYPED = "typed"
STOPPED = b"the job is stopped\n"


def become_job(*, in_background: bool = False) -> None:
    """Return in a child, which is the job. This process becomes its shell, on the terminal at standard input.

    The shell reads before it waits for a job that begins in the background.
    """
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    ready, begin = os.pipe()
    job = os.fork()
    if job == 0:
        os.close(begin)
        os.read(ready, 1)
        os.close(ready)
        return
    # A shell is not stopped when it takes the terminal back.
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    os.setpgid(job, job)
    if not in_background:
        os.tcsetpgrp(0, job)
    os.close(begin)
    if in_background:
        _obey(job)
    while os.WIFSTOPPED(status := os.waitpid(job, os.WUNTRACED)[1]):
        os.tcsetpgrp(0, os.getpgrp())
        os.write(1, STOPPED)
        _obey(job)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


def _obey(job: int) -> None:
    while line := os.read(0, 1000).decode():
        match line:
            case "fg\n":
                os.tcsetpgrp(0, job)
                os.killpg(job, signal.SIGCONT)
                return
            case "bg\n":
                os.killpg(job, signal.SIGCONT)
                return
            case "wait\n":
                return
        with Path(TYPED).open("a") as file:
            file.write(line)
