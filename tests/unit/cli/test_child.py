"""A child has its streams, the files it is given and nothing else, and its end is never missed."""

from __future__ import annotations

import errno
import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from paddock.cli.child import Child

ENVIRONMENT = {"PATH": "/usr/bin:/bin"}
NOBODY = 65534


@pytest.fixture(name="pipe")
def make_pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    yield reader, writer
    for file in (reader, writer):
        os.close(file)


def run(script: str, stdout: int, files: tuple[int, ...] = (), cwd: str = "/") -> int:
    return Child(["sh", "-c", script], [0, stdout, 2], files, ENVIRONMENT, cwd).wait()


def test_child_has_what_it_is_given(pipe: tuple[int, int], tmp_path: Path) -> None:
    reader, writer = pipe
    left_open = os.dup(reader)
    os.set_inheritable(left_open, True)
    given = os.open(tmp_path, os.O_RDONLY | os.O_CLOEXEC)
    here = os.getcwd()
    try:
        assert run("pwd; echo $HOME/$PATH; exit 7", writer, (), str(tmp_path)) == 7
        assert os.read(reader, 1000).decode() == f"{tmp_path}\n/{ENVIRONMENT['PATH']}\n"
        others = " ".join(f"! test -e /proc/self/fd/{fd} &&" for fd in (left_open, reader, writer))
        assert run(f"{others} test -e /proc/self/fd/{given}", writer, (given,)) == 0
    finally:
        os.close(given)
        os.close(left_open)
    assert os.getcwd() == here
    # The next program that this process starts in another way needs them.
    assert all(map(os.get_inheritable, range(3)))


def test_child_leads_a_group_and_has_the_usual_signals(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    script = "ps -o pgid= -p $$; kill -PIPE $$"
    child = Child(["sh", "-c", script], [0, writer, 2], (), ENVIRONMENT, "/")
    assert child.wait() == -signal.SIGPIPE
    assert int(os.read(reader, 100)) == child.pid
    # It is known by now.
    assert child.wait() == -signal.SIGPIPE


def test_signal_reaches_a_child_that_lives_and_nobody_else() -> None:
    child = Child(["sh", "-c", "exec sleep 1000"], [0, 1, 2], (), ENVIRONMENT, "/")
    child.send_signal(signal.SIGTERM)
    assert child.wait() == -signal.SIGTERM
    child.send_signal(signal.SIGTERM)
    other = Child(["true"], [0, 1, 2], (), ENVIRONMENT, "/")
    os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
    # It has ended, and nobody has waited for it.
    other.send_signal(signal.SIGTERM)
    assert other.wait() == 0


def test_signal_that_comes_just_when_the_child_is_reaped_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    child = Child(["sh", "-c", "exit 3"], [0, 1, 2], (), ENVIRONMENT, "/")
    reap = os.waitpid
    arrivals: list[int] = []

    def receive(number: int, _: object) -> None:
        arrivals.append(number)
        child.send_signal(signal.SIGTERM)

    def reap_and_be_signalled(pid: int, options: int) -> tuple[int, int]:
        reaped = reap(pid, options)
        if not arrivals:
            signal.raise_signal(signal.SIGUSR1)
        return reaped

    before = signal.signal(signal.SIGUSR1, receive)
    try:
        monkeypatch.setattr(os, "waitpid", reap_and_be_signalled)
        assert child.wait() == 3
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert arrivals == [signal.SIGUSR1]


def test_caller_that_ignores_its_children_does_not_hide_the_status() -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        # A shell that waits for another.
        assert run("sh -c 'exit 4'; exit $?", 1) == 4
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_program_is_not_blamed_for_a_limit_of_processes() -> None:
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            if os.geteuid() == 0:
                os.setresuid(NOBODY, NOBODY, NOBODY)
            resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
            Child(["true"], [0, 1, 2], (), ENVIRONMENT, "/")
        except OSError as error:
            status = 0 if (error.errno, error.filename) == (errno.EAGAIN, None) else 2
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0


@pytest.mark.parametrize(
    ("name", "mode", "problem"),
    [
        ("missing", None, errno.ENOENT),
        ("closed", 0o600, errno.EACCES),
        ("text", 0o700, errno.ENOEXEC),
        ("./missing", None, errno.ENOENT),
    ],
)
def test_program_that_can_not_be_started_is_named(
    tmp_path: Path, name: str, mode: int | None, problem: int
) -> None:
    if mode is not None:
        (tmp_path / name).write_text("text\n")
        (tmp_path / name).chmod(mode)
    # The last directory has none, and says nothing about the first.
    variables = {"PATH": f"{tmp_path}:/nowhere"}
    before = sorted(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match=name) as failure:
        Child([name], [0, 1, 2], (), variables, str(tmp_path))
    assert (failure.value.errno, failure.value.filename) == (problem, name)
    assert sorted(os.listdir("/proc/self/fd")) == before
