"""A tracer from its beginning to its end, and what becomes of a command that loses it."""

from __future__ import annotations

import errno
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from paddock import own_program
from paddock.model.denial import Trace
from paddock.model.profile import Access, Limits, NetworkMode
from paddock.sandbox.denial import tracer as tracer_module
from paddock.sandbox.denial.call_arguments import ArgumentReader, Subject
from paddock.sandbox.denial.exec_answer import ExecPolicy, Run
from paddock.sandbox.denial.mount_overlay import MountOverlay
from paddock.sandbox.denial.notification import Listener, Question
from paddock.sandbox.denial.observation import Observation, Watched
from paddock.sandbox.denial.policy import Policy
from paddock.sandbox.denial.stubs import STUB
from paddock.sandbox.denial.tracer import Tracer, trace_plan
from paddock.sandbox.enforce import init
from paddock.sandbox.host.syscall_table import MACHINES
from paddock.sandbox.plan.plan import Plan
from paddock.sandbox.profile.access import Rule
from tests.processes import open_descriptors
from tests.sandbox.helper_process import wait_until
from tests.sandbox.identity import PYTHON, drop_to, each_user
from tests.sandbox.init_start import ENVIRONMENT

PLAN = Plan((), (), (Rule("/", Access.READ, ":root"),), NetworkMode.ENABLED, Limits(), "/", has_proc=True)
TIMEOUT_S = 20.0


def made_tracer() -> Tracer:
    return Tracer(Observation(PLAN, MACHINES[os.uname().machine]), Policy(PLAN), MountOverlay(()))


IN_NAMESPACE = () if os.geteuid() == 0 else ("unshare", "--user", "--map-current-user", "--")
"""As sandboxes of an ordinary user are: otherwise he may not look at a process that hides its memory."""


@contextmanager
def started(trace_fd: int, user: int, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command that is traced, and not confined: tracing does not need it to be."""
    # By descriptor, because an ordinary user may not reach it by its path.
    program = os.open(init.PATH, os.O_RDONLY)
    words = [*init.descriptor_words(trace_fd=trace_fd), *init.words(environment=ENVIRONMENT)]
    with subprocess.Popen(
        [*IN_NAMESPACE, f"/proc/self/fd/{program}", *words, "--", *command],
        pass_fds=[trace_fd, program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd="/",
        **drop_to(user),
    ) as process:
        os.close(program)
        os.close(trace_fd)
        try:
            yield process
        finally:
            process.kill()


PATIENT = """\
import os, sys
print("ready", flush=True)
sys.stdin.readline()
def told(attempt):
    try: return attempt().name
    except OSError as error: return error.errno
path = sys.argv[1] + "/x"
print(told(lambda: open(path, "w")), told(lambda: os.mkdir(path)), told(lambda: open("/etc/hostname")))
"""


@each_user
def test_when_the_tracer_ends_calls_fail_and_none_waits(user: int, place: Path) -> None:
    tracer = made_tracer()
    with started(tracer.file, user, PYTHON, "-c", PATIENT, str(place)) as process:
        tracer.begin()
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        assert tracer.finish() == Trace()
        said, _ = process.communicate(b"\n", timeout=TIMEOUT_S)
    assert said.split() == [b"%d" % errno.ENOSYS, b"%d" % errno.ENOSYS, b"/etc/hostname"]
    assert list(place.iterdir()) == []


@each_user
@pytest.mark.parametrize("is_taken", [False, True], ids=["waiting", "taken"])
def test_a_call_that_waits_for_an_answer_when_nobody_is_left_to_give_it_fails(
    user: int, place: Path, is_taken: bool
) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.send(Observation(PLAN, MACHINES[os.uname().machine]).program())
    with ours, started(theirs.detach(), user, "sh", "-c", f": > {place}/x") as process:
        _, (file,), _, _ = socket.recv_fds(ours, 1, 1)
        listener = Listener(file)
        poll = select.poll()
        poll.register(file, select.POLLIN)
        assert poll.poll(TIMEOUT_S * 1000) == [(file, select.POLLIN)]
        if is_taken:
            assert listener.question() is not None
        listener.close()
        _, complaint = process.communicate(timeout=TIMEOUT_S)
    assert b"Function not implemented" in complaint
    assert process.returncode != 0
    assert list(place.iterdir()) == []


def test_a_command_whose_tracer_is_gone_before_it_starts_is_not_started() -> None:
    tracer = made_tracer()
    tracer.finish()
    with started(tracer.file, os.geteuid(), "echo", "started") as process:
        said, complaint = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, said) == (init.NOT_CONFINED_STATUS, b"")
    assert complaint.endswith(b"because it can't be confined: trace: Broken pipe\n")


def test_a_tracer_leaves_no_descriptor_behind() -> None:
    before = open_descriptors()
    for argv in (["true"], ["no-such-program"]):
        tracer = made_tracer()
        with started(tracer.file, os.geteuid(), *argv) as process:
            tracer.begin()
            process.communicate(timeout=TIMEOUT_S)
        tracer.finish()
    made_tracer().discard()
    assert open_descriptors() == before


ENDLESS = "echo ready; while :; do : > x; mkdir /usr/y 2> /dev/null; done"


def test_nothing_survives_a_launcher_that_is_killed_while_it_traces(place: Path) -> None:
    argv = [sys.executable, "-P", "-m", "paddock", "sandbox", "--trace", "--", "sh", "-c", ENDLESS]
    with subprocess.Popen(argv, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as launcher:
        assert launcher.stdout is not None
        assert launcher.stdout.readline() == b"ready\n"
        launcher.send_signal(signal.SIGKILL)
        # The end of the pipe is the end of everybody who had it.
        assert launcher.stdout.read() == b""
    # The janitor, which outlives its launcher, takes its time.
    wait_until(lambda: {path.name for path in place.iterdir()} <= {"x"})


def test_a_command_whose_tracer_gets_no_thread_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    tracer = made_tracer()
    with monkeypatch.context() as short:
        short.setattr(threading.Thread, "start", fail)
        tracer.begin()
    with started(tracer.file, os.geteuid(), "echo", "started") as process:
        said, complaint = process.communicate(timeout=TIMEOUT_S)
    tracer.finish()
    assert (process.returncode, said) == (init.NOT_CONFINED_STATUS, b"")
    assert b"because it can't be confined" in complaint


def test_a_call_that_can_not_be_looked_at_is_refused_and_the_next_is_not(
    monkeypatch: pytest.MonkeyPatch, place: Path
) -> None:
    read = ArgumentReader.of_watched

    def fail_once(self: ArgumentReader, question: Question, call: Watched) -> list[Subject]:
        monkeypatch.undo()
        raise ValueError("a bug")

    monkeypatch.setattr(ArgumentReader, "of_watched", fail_once)
    tracer = made_tracer()
    with started(tracer.file, os.geteuid(), "sh", "-c", f"mkdir {place}/a; mkdir {place}/b") as process:
        tracer.begin()
        _, complaint = process.communicate(timeout=TIMEOUT_S)
    tracer.finish()
    assert ArgumentReader.of_watched is read
    assert b"Operation not permitted" in complaint
    assert (place / "b").is_dir()


def test_a_tracer_that_has_seen_much_goes_on_seeing(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    """What was denied twice is told once."""
    monkeypatch.setattr(tracer_module, "KNOWN_LIMIT", 1)
    tracer = made_tracer()
    script = f"for i in 1 2; do mkdir {place}/a; mkdir {place}/b; done"
    with started(tracer.file, os.geteuid(), "sh", "-c", script) as process:
        tracer.begin()
        process.communicate(timeout=TIMEOUT_S)
    targets = [denial.target for denial in tracer.finish().denials]
    assert targets == [f"{place}/a", f"{place}/b"]


def test_a_tracer_that_can_not_be_made_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    own_program.opened(STUB)
    before = open_descriptors()
    policy = ExecPolicy(lambda _call, _settle: Run())
    monkeypatch.setattr(socket, "socketpair", fail)
    with pytest.raises(OSError, match="Too many open files"):
        trace_plan(PLAN, os.uname().machine, execution_policy=policy)
    assert open_descriptors() == before
