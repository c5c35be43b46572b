"""A confined command that has a terminal gets nothing of what is typed there for a shell."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.processes import children_of
from tests.sandbox.helper_process import DEADLINE_S, wait_until
from tests.sandbox.identity import PYTHON
from tests.sandbox.job_shell import STOPPED, TYPED
from tests.sandbox.launcher import BACKGROUND, FOREGROUND, Launcher, Outcome

STOP_KEY, END_KEY = b"\x1a", b"\x04"
STOLEN = "stolen"
SECRETS = [f"password {number}" for number in range(5)]

ECHO_OFF = "stty -echo; "
READING = f'echo begun; while read -r line; do echo "$line" >> {STOLEN}; done; echo ended'

CONTINUING = """
import ctypes, os, signal, struct
# Of a signal that is ignored, a timer sends only one.
signal.signal(signal.SIGCONT, lambda *_: None)
libc = ctypes.CDLL(None, use_errno=True)
# SIGEV_SIGNAL
event = ctypes.create_string_buffer(struct.pack("Pii", 0, signal.SIGCONT, 0), 64)
# SIGSTOP takes a pending SIGCONT away, and with it the timer: of many, some are left.
for number in range(20):
    timer = ctypes.c_void_p()
    assert libc.timer_create(1, event, ctypes.byref(timer)) == 0, ctypes.get_errno()
    each = 100_000_000 + number * 1_000_000
    assert libc.timer_settime(timer, 0, struct.pack("4l", 0, each, 0, each), None) == 0
print("begun", flush=True)
while True:
    %s
"""
"""Continues itself with a timer each time when it is stopped."""

MEMBARRIER = {"x86_64": 324, "aarch64": 283}[os.uname().machine]
CLONE = {"x86_64": 56, "aarch64": 220}[os.uname().machine]
IN_THE_KERNEL = f"libc.syscall({MEMBARRIER}, 1, 0, 0)"
"""Waits for all processors, which no signal interrupts (MEMBARRIER_CMD_GLOBAL)."""

CONTINUED_BY_KEYS = f"""
import ctypes, fcntl, os, signal
signal.signal(signal.SIGIO, signal.SIG_IGN)
signal.signal(signal.SIGCONT, lambda *_: None)
for _ in range(2):
    if os.fork():
        while True:
            signal.pause()
# PR_SET_PDEATHSIG
assert ctypes.CDLL(None).prctl(1, signal.SIGCONT) == 0
terminal = os.open("/proc/self/fd/0", os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
fcntl.fcntl(terminal, fcntl.F_SETOWN, os.%s())
try:
    # F_SETSIG
    fcntl.fcntl(terminal, 10, signal.%s)
except PermissionError:
    pass
fcntl.fcntl(terminal, fcntl.F_SETFL, os.O_NONBLOCK | os.O_ASYNC)
print("begun", flush=True)
while True:
    signal.pause()
    with open("{STOLEN}", "a") as file:
        file.write("continued\\n")
"""
"""Has the terminal continue it with each line that is typed, by an open file of its own."""

VFORK = f"""
import ctypes, os, signal, struct, time
def vfork():
    # CLONE_VFORK, without a common memory: the parent waits in the kernel for the end of its child.
    return ctypes.CDLL(None).syscall({CLONE}, 0x4000 | signal.SIGCHLD, 0, 0, 0, 0)
"""

READING_FOR_PARENT = (
    VFORK
    + f"""
if vfork() == 0:
    print("begun", flush=True)
    for line in open(0):
        with open("{STOLEN}", "a") as file:
            file.write(line)
    os._exit(0)
print("ended", flush=True)
"""
)

TAKING_TURNS = (
    VFORK
    + f"""
signal.signal(signal.SIGCONT, lambda *_: None)
event = ctypes.create_string_buffer(struct.pack("Pii", 0, signal.SIGCONT, 0), 64)
timer = ctypes.c_void_p()
for turn in range(20):
    if os.fork():
        continue
    if vfork() == 0:
        assert ctypes.CDLL(None).timer_create(1, event, ctypes.byref(timer)) == 0
        after = 3_000_000_000 + turn * 100_000_000
        when = struct.pack("4l", 0, 0, after // 1_000_000_000, after % 1_000_000_000)
        assert ctypes.CDLL(None).timer_settime(timer, 0, when, None) == 0
        signal.pause()
        with open("{STOLEN}", "ab") as file:
            file.write(os.read(0, 1000))
        os._exit(0)
    while True:
        signal.pause()
time.sleep(0.5)
print("begun", flush=True)
while True:
    signal.pause()
"""
)
"""Each reads once and ends, which lets its parent go on in the kernel."""

MANY_TASKS = f"""
import threading
threading.stack_size(65536)
held = threading.Event()
for _ in range(3000):
    threading.Thread(target=held.wait, daemon=True).start()
print("begun", flush=True)
with open("{STOLEN}", "w") as file:
    file.write(input())
"""

WENT_ON = b"paddock: the command was killed, because it went on while it was stopped"
WOULD_GO_ON = b"paddock: the command was killed, because a timer of it would let it go on while it is stopped"

SHOWS_TIMERS = Path("/proc/self/timers").exists()
needs_shown_timers = pytest.mark.skipif(not SHOWS_TIMERS, reason="the kernel does not show timers")


@dataclass
class Terminal:
    """A terminal with a shell on it, seen by whoever types there."""

    leader: int
    workspace: Path
    shown: bytes = b""

    def type(self, text: bytes) -> None:
        os.write(self.leader, text)

    def until(self, text: bytes) -> None:
        """Wait until something is shown, and forget it with all before it."""
        while text not in self.shown.replace(b"\r\n", b"\n"):
            assert select.select([self.leader], [], [], DEADLINE_S)[0], self.shown
            self.shown += os.read(self.leader, 10_000)
        self.shown = self.shown.replace(b"\r\n", b"\n").partition(text)[2]

    def type_secrets(self) -> None:
        """Type lines for the shell, and wait until each was read by somebody."""
        for secret in SECRETS:
            before = self.lines()
            self.type(f"{secret}\n".encode())
            wait_until(partial(self._has_more_than, before))

    def _has_more_than(self, before: list[str]) -> bool:
        return self.lines() != before

    def lines(self) -> list[str]:
        """What was read by the shell and by the command."""
        return self.lines_in(TYPED) + self.lines_in(STOLEN)

    def has_stolen(self, count: int) -> bool:
        """Whether the command has read so many lines."""
        return len(self.lines_in(STOLEN)) == count

    def lines_in(self, name: str) -> list[str]:
        path = self.workspace / name
        return path.read_text().splitlines() if path.exists() else []


@contextmanager
def _job(
    launcher: Launcher, workspace: Path, *command: str, job: str = FOREGROUND, options: tuple[str, ...] = ()
) -> Iterator[tuple[Terminal, Future[Outcome]]]:
    """A confined command as a job of a shell, and what comes of the shell."""
    with ThreadPoolExecutor(1) as thread, _terminal(workspace, launcher.user) as (terminal, name):
        stream = (name, os.O_RDWR | os.O_NOCTTY)
        yield (
            terminal,
            thread.submit(
                launcher.run,
                ["sandbox", *options, "--", *command],
                cwd=workspace,
                streams=dict.fromkeys(range(3), stream),
                job=job,
            ),
        )


@contextmanager
def _terminal(workspace: Path, user: int) -> Iterator[tuple[Terminal, str]]:
    leader, follower = os.openpty()
    name = os.ttyname(follower)
    os.chown(name, user, -1)
    try:
        yield Terminal(leader, workspace), name
    finally:
        os.close(leader)
        os.close(follower)


@pytest.mark.parametrize("options", [(), ("--trace",)], ids=["plain", "traced"])
def test_command_of_a_stopped_job_reads_nothing_until_the_job_has_the_terminal_again(
    launcher: Launcher, workspace: Path, options: tuple[str, ...]
) -> None:
    with _job(launcher, workspace, "/bin/bash", "-c", READING, options=options) as (terminal, outcome):
        terminal.until(b"begun\n")
        terminal.type(b"before\n")
        wait_until(lambda: terminal.lines_in(STOLEN) == ["before"])
        terminal.type(STOP_KEY)
        terminal.until(STOPPED)
        terminal.type_secrets()
        terminal.type(b"bg\n")
        terminal.until(STOPPED)
        terminal.type_secrets()
        terminal.type(b"fg\n")
        terminal.type(b"after\n")
        wait_until(lambda: len(terminal.lines_in(STOLEN)) > 1)
        terminal.type(END_KEY)
        terminal.until(b"ended\n")
        assert outcome.result().status == 0
    assert terminal.lines_in(STOLEN) == ["before", "after"]
    assert terminal.lines_in(TYPED) == [*SECRETS, *SECRETS]


def test_command_that_nothing_confines_is_the_job_itself(launcher: Launcher, workspace: Path) -> None:
    options = ("--profile", ":danger-full-access")
    with _job(launcher, workspace, "/bin/bash", "-c", READING, options=options) as (terminal, outcome):
        terminal.until(b"begun\n")
        terminal.type(STOP_KEY)
        terminal.until(STOPPED)
        terminal.type_secrets()
        terminal.type(b"bg\n")
        # The kernel stops it as soon as it reads.
        terminal.until(STOPPED)
        terminal.type(b"fg\n")
        terminal.type(b"after\n" + END_KEY)
        terminal.until(b"ended\n")
        assert outcome.result().status == 0
    assert (terminal.lines_in(TYPED), terminal.lines_in(STOLEN)) == (SECRETS, ["after"])


def test_command_without_a_sandbox_reads_what_is_typed_for_the_shell(workspace: Path) -> None:
    with _terminal(workspace, os.geteuid()) as (terminal, name):
        code = f"""
import os
from tests.sandbox.job_shell import become_job
for number in range(3):
    os.dup2(os.open({name!r}, os.O_RDWR | os.O_NOCTTY), number)
os.chdir({str(workspace)!r})
become_job(in_background=True)
os.execvp("setsid", ["setsid", "-w", "/bin/bash", "-c", {READING!r}])
"""
        with subprocess.Popen([sys.executable, "-c", code]) as shell:
            try:
                terminal.until(b"begun\n")
                while not terminal.lines_in(STOLEN):
                    terminal.type_secrets()
            finally:
                shell.kill()


def test_settings_of_a_stopped_command_are_its_own_again_afterwards(
    launcher: Launcher, workspace: Path
) -> None:
    with _job(launcher, workspace, "/bin/bash", "-c", ECHO_OFF + READING) as (terminal, outcome):
        terminal.until(b"begun\n")
        before = _has_echo(terminal)
        terminal.type(STOP_KEY)
        terminal.until(STOPPED)
        meanwhile = _has_echo(terminal)
        terminal.type(b"fg\n")
        terminal.type(b"after\n")
        wait_until(lambda: terminal.lines_in(STOLEN) == ["after"])
        assert (before, meanwhile, _has_echo(terminal)) == (False, True, False)
        terminal.type(END_KEY)
        assert outcome.result().status == 0


def _has_echo(terminal: Terminal) -> bool:
    return bool(termios.tcgetattr(terminal.leader)[3] & termios.ECHO)


@pytest.mark.parametrize(
    "work", ["pass", "signal.pause()", "os.kill(os.getpid(), signal.SIGSTOP)", IN_THE_KERNEL]
)
def test_command_that_continues_itself_while_it_is_stopped_is_killed(
    launcher: Launcher, workspace: Path, work: str
) -> None:
    with _job(launcher, workspace, PYTHON, "-c", CONTINUING % work) as (terminal, outcome):
        terminal.until(b"begun\n")
        terminal.type(STOP_KEY)
        terminal.until(WOULD_GO_ON if SHOWS_TIMERS else WENT_ON)
        terminal.type(b"fg\n")
        assert outcome.result().status == 125


@needs_shown_timers
def test_processes_that_take_turns_to_continue_read_nothing(launcher: Launcher, workspace: Path) -> None:
    with _job(launcher, workspace, PYTHON, "-c", TAKING_TURNS) as (terminal, outcome):
        terminal.until(b"begun\n")
        terminal.type(STOP_KEY)
        terminal.until(WOULD_GO_ON)
        terminal.until(STOPPED)
        terminal.type_secrets()
        assert terminal.lines_in(STOLEN) == []
        terminal.type(b"fg\n")
        assert outcome.result().status == 125
    assert terminal.lines_in(TYPED) == SECRETS


def test_command_whose_parent_waits_in_the_kernel_is_stopped_like_any_other(
    launcher: Launcher, workspace: Path
) -> None:
    with _job(launcher, workspace, PYTHON, "-c", READING_FOR_PARENT) as (terminal, outcome):
        terminal.until(b"begun\n")
        for line in ("first", "second"):
            terminal.type(STOP_KEY)
            terminal.until(STOPPED)
            terminal.type_secrets()
            terminal.type(b"fg\n")
            terminal.type(f"{line}\n".encode())
            wait_until(partial(terminal.has_stolen, 1 + (line == "second")))
        terminal.type(END_KEY)
        terminal.until(b"ended\n")
        assert outcome.result().status == 0
    assert terminal.lines_in(TYPED) == [*SECRETS, *SECRETS]
    assert terminal.lines_in(STOLEN) == ["first", "second"]


def test_command_that_somebody_else_continues_while_it_is_stopped_is_killed(
    launcher: Launcher, workspace: Path
) -> None:
    with _job(launcher, workspace, "/bin/bash", "-c", READING) as (terminal, outcome):
        terminal.until(b"begun\n")
        terminal.type(STOP_KEY)
        terminal.until(STOPPED)
        (command,) = children_of(_init(launcher))
        os.kill(command, signal.SIGCONT)
        terminal.until(WENT_ON)
        terminal.type(b"fg\n")
        assert outcome.result().status == 125


@needs_shown_timers
def test_stopped_command_outlives_the_end_of_one_of_its_processes(
    launcher: Launcher, workspace: Path
) -> None:
    with _job(launcher, workspace, "/bin/bash", "-c", "sleep 1000 & " + READING) as (terminal, outcome):
        terminal.until(b"begun\n")
        terminal.type(STOP_KEY)
        terminal.until(STOPPED)
        (command,) = children_of(_init(launcher))
        (sleeping,) = children_of(command)
        os.kill(sleeping, signal.SIGKILL)
        terminal.type_secrets()
        terminal.type(b"fg\n")
        terminal.type(b"after\n")
        wait_until(lambda: terminal.lines_in(STOLEN) == ["after"])
        terminal.type(END_KEY)
        terminal.until(b"ended\n")
        assert outcome.result().status == 0


def test_key_that_stops_may_be_pressed_twice(launcher: Launcher, workspace: Path) -> None:
    with _job(launcher, workspace, "/bin/bash", "-c", READING) as (terminal, outcome):
        terminal.until(b"begun\n")
        for count in range(3):
            for _ in range(2):
                os.kill(_job_of(launcher), signal.SIGTSTP)
            terminal.until(STOPPED)
            terminal.type(b"fg\n")
            terminal.type(f"line {count}\n".encode())
            wait_until(partial(terminal.has_stolen, count + 1))
        terminal.type(END_KEY)
        terminal.until(b"ended\n")
        assert outcome.result().status == 0


def test_stopped_command_with_many_tasks_leaves_the_processor_to_others(
    launcher: Launcher, workspace: Path
) -> None:
    with _job(launcher, workspace, PYTHON, "-c", MANY_TASKS) as (terminal, outcome):
        terminal.until(b"begun\n")
        terminal.type(STOP_KEY)
        terminal.until(STOPPED)
        init = _init(launcher)
        begin_s, begin_cpu_s = time.monotonic(), _cpu_s(init)
        wait_until(lambda: time.monotonic() > begin_s + 2)
        # A look at so many takes some 20 ms, and would be due ten times a second if there were few.
        assert _cpu_s(init) - begin_cpu_s < 0.1 * (time.monotonic() - begin_s)
        terminal.type(b"fg\n")
        terminal.type(b"after\n")
        assert outcome.result().status == 0
    assert terminal.lines_in(STOLEN) == ["after"]


def _job_of(launcher: Launcher) -> int:
    """The command line that is the job of the shell."""
    (job,) = children_of(launcher.running())
    return job


def _init(launcher: Launcher) -> int:
    """The first process of the sandbox."""
    made = [grandchild for child in children_of(_job_of(launcher)) for grandchild in children_of(child)]
    (init,) = [pid for pid in made if Path(f"/proc/{pid}/comm").read_text() == "paddock-init\n"]
    return init


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("way", [("getpid", "SIGCONT"), ("getppid", "SIGKILL")], ids=["itself", "its parent"])
def test_what_is_typed_for_the_shell_continues_no_command(
    launcher: Launcher, workspace: Path, way: tuple[str, str]
) -> None:
    with _job(launcher, workspace, PYTHON, "-c", CONTINUED_BY_KEYS % way) as (terminal, outcome):
        terminal.until(b"begun\n")
        terminal.type(STOP_KEY)
        terminal.until(STOPPED)
        terminal.type_secrets()
        assert terminal.lines_in(STOLEN) == []
        terminal.type(b"fg\n")
        wait_until(lambda: terminal.lines_in(STOLEN) == ["continued"])
        os.kill(launcher.running(), signal.SIGKILL)
        assert outcome.result().status == 128 + signal.SIGKILL
    assert terminal.lines_in(TYPED) == SECRETS


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_stopped_job_in_the_background_ends_when_it_is_told_to(
    launcher: Launcher, workspace: Path, number: signal.Signals
) -> None:
    with _job(launcher, workspace, "/bin/bash", "-c", "trap : TERM HUP; " + READING) as (terminal, outcome):
        terminal.until(b"begun\n")
        terminal.type(STOP_KEY)
        terminal.until(STOPPED)
        (job,) = children_of(launcher.running())
        os.kill(job, number)
        # A shell's `kill` does this too.
        terminal.type(b"bg\n")
        assert outcome.result().status == 128 + number


def test_signal_that_a_command_has_survived_does_not_end_it_when_it_is_stopped_again(
    launcher: Launcher, workspace: Path
) -> None:
    with _job(launcher, workspace, "/bin/bash", "-c", "trap : TERM; " + READING) as (terminal, outcome):
        terminal.until(b"begun\n")
        for number in range(2):
            terminal.type(STOP_KEY)
            terminal.until(STOPPED)
            if number == 0:
                (job,) = children_of(launcher.running())
                os.kill(job, signal.SIGTERM)
            else:
                terminal.type(b"bg\n")
                terminal.until(STOPPED)
            terminal.type(b"fg\n")
            terminal.type(f"line {number}\n".encode())
            wait_until(partial(terminal.has_stolen, number + 1))
        terminal.type(END_KEY)
        terminal.until(b"ended\n")
        assert outcome.result().status == 0


def test_job_that_begins_in_the_background_has_no_terminal_to_read(
    launcher: Launcher, workspace: Path
) -> None:
    from_output = f"if read -r line 0<&1 || read -r line 0<&2; then echo $line >> {STOLEN}; fi"
    script = f"{READING}; (test ! -t 1 && test ! -t 2) || {from_output}; read < fifo"
    os.mkfifo(workspace / "fifo")
    os.chmod(workspace / "fifo", 0o666)
    with _job(launcher, workspace, "/bin/bash", "-c", script, job=BACKGROUND) as (terminal, outcome):
        terminal.until(b"ended\n")
        terminal.type_secrets()
        (workspace / "fifo").write_text("\n")
        terminal.type(b"wait\n")
        assert outcome.result().status == 0
    assert terminal.lines_in(TYPED) == SECRETS
    assert not (workspace / STOLEN).exists()
