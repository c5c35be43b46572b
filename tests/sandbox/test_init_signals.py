"""paddock-init and a command that sends signals without end: the clock, the launcher and the user come first.

Where the kernel has Landlock with scopes, a command can't signal the init at all. On older kernels it can,
and must gain nothing by it.
"""

from __future__ import annotations

import errno
import os
import platform
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from paddock.model.profile import Limits
from paddock.sandbox.enforce import init
from paddock.sandbox.enforce.report import ReportKind
from paddock.sandbox.host.kernel import Kernel
from paddock.sandbox.host.syscall_table import MACHINES
from paddock.sandbox.plan import bpf
from tests.processes import children_of
from tests.sandbox.identity import PYTHON, each_user
from tests.sandbox.init_start import COUNTING, TIMEOUT_S, Start

CREATE_RULESET = 444
SCOPES_ABI = 6
ABANDONED_STATUS = 123
FLOODERS = 4
WAITING_LIMIT = 1024
FEW = 100
TRIES = 100

WITHOUT_LANDLOCK = bpf.assemble(
    MACHINES[platform.machine()].audit_architecture, [bpf.Refusal(CREATE_RULESET, errno.ENOSYS)]
)

each_way = pytest.mark.parametrize("has_bwrap", [True, False], ids=["bwrap", "alone"])
each_kernel = pytest.mark.parametrize("filter_", [None, WITHOUT_LANDLOCK], ids=["scoped", "older"])
needs_scopes = pytest.mark.skipif(
    Kernel().landlock_abi() < SCOPES_ABI, reason="Landlock has no scopes of signals before Linux 6.12"
)

FLOOD = f"""\
import ctypes, os, signal, sys
first = os.getppid()
libc = ctypes.CDLL(None)
value = ctypes.c_void_p(1)
def send(number):
    libc.sigqueue(first, number, value)
    libc.kill(first, number)
def flood():
    for round in range(1 << 60):
        for number in (signal.SIGCHLD, signal.SIGURG, signal.SIGWINCH, signal.SIGRTMIN, signal.SIGRTMAX):
            send(number)
        if round == 1000:
            os.write(told, b"x")
count, told = os.pipe()
for _ in range({FLOODERS}):
    if os.fork() == 0:
        flood()
for _ in range({FLOODERS}):
    os.read(count, 1)
"""
"""Many processes signal the first one as fast as they can; behind this they have begun."""

WAIT = 'print("ready", flush=True); sys.stdin.read()'


@contextmanager
def started(start: Start, code: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program that has said that it is ready; it ends with its input, and all that it started with it."""
    with start.popen(PYTHON, "-c", code, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        try:
            yield process
        finally:
            # An init that is killed where there is no pid namespace leaves the flood behind.
            process.stdin.close()
            process.wait(TIMEOUT_S)


def status_of(pid: int, name: str) -> str:
    """A line of /proc/PID/status."""
    found = re.search(rf"^{name}:\s*(.*)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def first_of(process: subprocess.Popen[bytes], has_bwrap: bool) -> int:
    """The init."""
    return children_of(process.pid)[0] if has_bwrap else process.pid


@each_user
@each_way
@each_kernel
def test_the_time_of_a_command_ends_whatever_it_sends(
    user: int, has_bwrap: bool, filter_: bytes | None
) -> None:
    start = Start(user, has_bwrap, filter=filter_, limits=Limits(wall_seconds=1))
    outcome = start.run(PYTHON, "-c", f"{FLOOD}\nsignal.pause()")
    assert outcome.status == init.WALL_LIMIT_STATUS
    assert [report.kind for report in outcome.reports] == [ReportKind.CONFINED, ReportKind.WALL_LIMIT]


@each_user
@each_way
@each_kernel
def test_a_command_ends_with_its_launcher_whatever_it_sends(
    user: int, has_bwrap: bool, filter_: bytes | None
) -> None:
    command = [PYTHON, "-c", f"{FLOOD}\n{WAIT}"]
    with (
        Start(user, has_bwrap, filter=filter_).prepared(command) as (argv, options, report),
        subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options) as process,
    ):
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            for file in (options["pass_fds"][0], report):
                os.close(file)
            assert process.wait(TIMEOUT_S) == ABANDONED_STATUS
        finally:
            process.kill()


@each_user
@each_way
@each_kernel
def test_a_signal_from_outside_reaches_the_command_once_whatever_it_sends(
    user: int, has_bwrap: bool, filter_: bytes | None
) -> None:
    with started(Start(user, has_bwrap, filter=filter_), f"{FLOOD}\n{COUNTING}") as process:
        first = first_of(process, has_bwrap)
        os.kill(first, signal.SIGUSR1)
        os.kill(first, signal.SIGTERM)
        assert process.wait(TIMEOUT_S) == 1


@each_user
@each_way
@each_kernel
def test_no_signals_wait_at_the_cost_of_the_user(user: int, has_bwrap: bool, filter_: bytes | None) -> None:
    with started(Start(user, has_bwrap, filter=filter_), f"{FLOOD}\n{WAIT}") as process:
        first = first_of(process, has_bwrap)
        assert int(status_of(first, "ShdPnd"), 16) >> 31 == 0
        waiting, _ = map(int, status_of(first, "SigQ").split("/"))
        # Those of root are of all its programs.
        assert waiting < FEW or user == 0


@each_user
def test_a_signal_that_the_command_sends_to_the_init_goes_nowhere(user: int) -> None:
    send = (
        "for number in (signal.SIGUSR1, signal.SIGIO, signal.SIGTERM):\n"
        "    for _ in range(1000):\n"
        "        libc.kill(1, number)\n"
        "        libc.sigqueue(1, number, value)\n"
    )
    setting = "import ctypes, os, signal\nlibc = ctypes.CDLL(None)\nvalue = ctypes.c_void_p(1)\n"
    with started(Start(user, filter=WITHOUT_LANDLOCK), f"{setting}{send}{COUNTING}") as process:
        first = first_of(process, has_bwrap=True)
        for _ in range(TRIES):
            # The kernel merges it with one from inside that the init has not thrown away yet.
            with suppress(ProcessLookupError):
                os.kill(first, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(TIMEOUT_S / TRIES)
                break
        assert process.returncode == 0


@each_user
@each_way
def test_as_many_processes_as_end_do_not_keep_the_init_from_the_clock(user: int, has_bwrap: bool) -> None:
    orphans = (
        "import os\n"
        "for _ in range(3): os.fork()\n"
        "while True:\n"
        "    if os.fork() == 0:\n"
        "        os.fork()\n"
        "        os._exit(0)\n"
        "    os.wait()\n"
    )
    outcome = Start(user, has_bwrap, limits=Limits(wall_seconds=1)).run(PYTHON, "-c", orphans)
    assert outcome.status == init.WALL_LIMIT_STATUS


@each_user
@each_way
def test_what_a_command_keeps_waiting_is_limited(user: int, has_bwrap: bool) -> None:
    code = (
        "import ctypes, os, signal\n"
        "libc = ctypes.CDLL(None)\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGRTMIN})\n"
        f"sent = [libc.sigqueue(os.getpid(), signal.SIGRTMIN, None) for _ in range({3 * WAITING_LIMIT})]\n"
        "print(sent.count(0))\n"
    )
    outcome = Start(user, has_bwrap).run(PYTHON, "-c", code)
    assert WAITING_LIMIT // 2 < int(outcome.stdout) <= WAITING_LIMIT


@needs_scopes
@each_user
@each_way
def test_a_command_signals_what_it_started_and_nothing_above_it(user: int, has_bwrap: bool) -> None:
    code = (
        "import os, signal\n"
        "first, child = os.getppid(), os.fork()\n"
        "if child == 0: signal.pause()\n"
        "os.kill(child, signal.SIGKILL)\n"
        "print(os.waitstatus_to_exitcode(os.wait()[1]))\n"
        "for number in (0, signal.SIGTERM, signal.SIGSTOP, signal.SIGKILL):\n"
        "    try: os.kill(first, number)\n"
        "    except PermissionError: print('refused')\n"
        "signal.pause()\n"
    )
    start = Start(user, has_bwrap, limits=Limits(wall_seconds=1))
    outcome = start.run(PYTHON, "-u", "-c", code)
    assert (outcome.status, outcome.stdout) == (init.WALL_LIMIT_STATUS, "-9\n" + "refused\n" * 4)


STOPPING = """\
import os, signal
command, (out, told) = os.getpid(), os.pipe()
if os.fork() == 0:
    os.setsid()
    os.write(told, b"x")
    while open(f"/proc/{command}/stat").read().rpartition(")")[2].split()[0] != "T":
        os.sched_yield()
    os.kill(command, signal.SIGKILL)
    os._exit(0)
os.read(out, 1)
os.kill(0, signal.SIGSTOP)
"""


@each_user
@each_kernel
def test_the_end_of_a_command_that_stops_its_group_is_told(user: int, filter_: bytes | None) -> None:
    start = Start(user, has_own_session=False, filter=filter_)
    with start.prepared([PYTHON, "-c", STOPPING]) as (argv, options, _):
        options["start_new_session"] = True
        process = subprocess.Popen(argv, **options)
        try:
            assert process.wait(TIMEOUT_S) == 128 + signal.SIGKILL
        finally:
            process.kill()
            process.wait()
