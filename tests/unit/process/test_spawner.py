"""How a process starts and ends through the spawner. Every test starts real ones."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import resource
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from paddock.process.spawn_request import SpawnStage
from paddock.process.spawner import ExitReport, Spawner
from tests.unit.process.spawning import (
    BASE_ENV,
    PYTHON,
    failure_of,
    open_fds,
    output_of,
    read_to_end,
    request_for,
    run,
    unexpected_loss,
)

INHERITED_LIMIT = 128
"""With the standard three it makes FDS_MAX of native/wire.h."""


@pytest.fixture
async def spawner() -> AsyncIterator[Spawner]:
    running = await Spawner.start(unexpected_loss)
    yield running
    await running.aclose()


@pytest.fixture
def null() -> Iterator[int]:
    fd = os.open(os.devnull, os.O_RDWR)
    yield fd
    os.close(fd)


def executable(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    path.chmod(0o755)
    return path


# -- how a process ends


@pytest.mark.parametrize("code", [0, 1, 42, 255])
async def test_exit_code_of_the_program_is_reported(spawner: Spawner, null: int, code: int) -> None:
    report = await run(spawner, request_for("/bin/sh", "-c", f"exit {code}", fds=(null,) * 3))
    assert report.exit_code == code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV])
async def test_death_by_signal_is_128_plus_its_number(spawner: Spawner, null: int, number: int) -> None:
    rlimits = {resource.RLIMIT_CORE: (0, 0)}
    request = request_for("/bin/sh", "-c", f"kill -{int(number)} $$", fds=(null,) * 3, rlimits=rlimits)
    report = await run(spawner, request)
    assert report.exit_code == 128 + number
    assert os.WTERMSIG(report.wait_status) == number


async def test_exit_report_tells_what_the_process_used(spawner: Spawner, null: int) -> None:
    burn = "x = bytearray(32 << 20); import time\nwhile time.process_time() < 0.05: pass"
    report = await run(spawner, request_for(PYTHON, "-ISc", burn, fds=(null,) * 3))
    assert report.exit_code == 0
    assert report.user_s + report.system_s >= 0.05
    assert report.max_rss_bytes >= 32 << 20


async def test_pidfd_signals_the_process_it_came_with(spawner: Spawner, null: int) -> None:
    exited: asyncio.Future[ExitReport] = asyncio.get_running_loop().create_future()
    spawned = await spawner.spawn(request_for("/bin/sleep", "1000", fds=(null,) * 3), exited.set_result)
    assert not os.get_inheritable(spawned.pidfd)
    signal.pidfd_send_signal(spawned.pidfd, signal.SIGTERM)
    assert (await exited).exit_code == 128 + signal.SIGTERM
    os.close(spawned.pidfd)


async def test_caller_resumes_with_the_result_before_the_exit_is_reported(
    spawner: Spawner, null: int
) -> None:
    events: list[str] = []
    for _ in range(50):
        exited = asyncio.Event()

        def on_exit(report: ExitReport, exited: asyncio.Event = exited) -> None:
            events.append("exit")
            exited.set()

        spawned = await spawner.spawn(request_for("/bin/true", fds=(null,) * 3), on_exit)
        events.append("result")
        os.close(spawned.pidfd)
        await exited.wait()
    assert events == ["result", "exit"] * 50


async def test_orphan_adopted_by_the_helper_is_not_reported(spawner: Spawner, null: int) -> None:
    reports: list[ExitReport] = []
    done = asyncio.Event()

    def on_exit(report: ExitReport) -> None:
        reports.append(report)
        done.set()

    request = request_for("/bin/sh", "-c", "(exit 7) & exit 3", fds=(null,) * 3)
    spawned = await spawner.spawn(request, on_exit)
    await done.wait()
    os.close(spawned.pidfd)
    await run(spawner, request_for("/bin/true", fds=(null,) * 3))
    assert [report.exit_code for report in reports] == [3]


async def test_process_that_asks_to_be_traced_still_runs_and_ends(spawner: Spawner, null: int) -> None:
    # PTRACE_TRACEME makes the helper the tracer, and wait(2) then reports stops as well.
    script = (
        "import ctypes, os; ctypes.CDLL(None).ptrace(0, 0, 0, 0); os.execv('/bin/sh', ['sh', '-c', 'exit 5'])"
    )
    report = await run(spawner, request_for(PYTHON, "-ISc", script, fds=(null,) * 3))
    assert report.exit_code == 5


# -- why a process did not start


async def test_missing_program_is_reported_by_exec(spawner: Spawner, null: int) -> None:
    for program in ("/nonexistent/program", "surely-not-a-program", ""):
        request = request_for(program, fds=(null,) * 3)
        assert await failure_of(spawner, request) == (SpawnStage.EXEC, errno.ENOENT)


async def test_program_without_permission_is_reported_by_exec(
    spawner: Spawner, null: int, tmp_path: Path
) -> None:
    (tmp_path / "plain").write_text("#!/bin/sh\n")
    for program in (tmp_path / "plain", tmp_path):
        request = request_for(str(program), fds=(null,) * 3)
        assert await failure_of(spawner, request) == (SpawnStage.EXEC, errno.EACCES)


async def test_file_as_directory_of_the_program_is_reported_by_exec(spawner: Spawner, null: int) -> None:
    request = request_for("/etc/passwd/program", fds=(null,) * 3)
    assert await failure_of(spawner, request) == (SpawnStage.EXEC, errno.ENOTDIR)


async def test_file_of_no_known_format_is_not_given_to_a_shell(
    spawner: Spawner, null: int, tmp_path: Path
) -> None:
    program = executable(tmp_path / "program", "echo text without an interpreter line\n")
    for name, env in ((str(program), BASE_ENV), ("program", {"PATH": str(tmp_path)})):
        request = request_for(name, fds=(null,) * 3, env=env)
        assert await failure_of(spawner, request) == (SpawnStage.EXEC, errno.ENOEXEC)


async def test_bad_working_directory_is_told_apart_from_a_bad_program(spawner: Spawner, null: int) -> None:
    for cwd, number in (("/nonexistent", errno.ENOENT), ("/etc/passwd", errno.ENOTDIR), ("", errno.ENOENT)):
        request = request_for("/bin/true", fds=(null,) * 3, cwd=cwd)
        assert await failure_of(spawner, request) == (SpawnStage.CWD, number)


async def test_directory_behind_a_link_is_entered_unless_it_must_be_without(
    spawner: Spawner, null: int, tmp_path: Path
) -> None:
    (tmp_path / "real" / "below").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    for name in ("link", "link/below"):
        request = request_for("/bin/true", fds=(null,) * 3, cwd=str(tmp_path / name))
        assert (await run(spawner, request)).exit_code == 0
        without = replace(request, cwd_without_links=True)
        stage, number = await failure_of(spawner, without)
        assert stage is SpawnStage.CWD
        assert number in (errno.ENOTDIR, errno.ELOOP)
        plain = replace(without, cwd=str(tmp_path / "real" / "below"))
        assert (await run(spawner, plain)).exit_code == 0


async def test_argument_too_long_for_the_kernel_is_reported_by_exec(spawner: Spawner, null: int) -> None:
    # MAX_ARG_STRLEN is 32 pages (execve(2)).
    request = request_for("/bin/true", "x" * (33 * resource.getpagesize()), fds=(null,) * 3)
    assert await failure_of(spawner, request) == (SpawnStage.EXEC, errno.E2BIG)


async def test_request_beyond_every_kernel_limit_is_refused_unsent(spawner: Spawner, null: int) -> None:
    request = request_for("/bin/true", "x" * (8 << 20), fds=(null,) * 3)
    assert await failure_of(spawner, request) == (SpawnStage.REQUEST, errno.E2BIG)


@pytest.mark.parametrize(
    ("program", "argv", "cwd", "env"),
    [
        ("/bin/tr\0ue", ("true",), "/", {}),
        ("/bin/true", ("tr\0ue",), "/", {}),
        ("/bin/true", ("true",), "/\0", {}),
        ("/bin/true", ("true",), "/", {"A\0": "1"}),
        ("/bin/true", ("true",), "/", {"A": "1\0"}),
        ("/bin/true", ("true",), "/", {"A=B": "1"}),
        ("/bin/true", ("true",), "/", {"": "1"}),
        ("/bin/true", (), "/", {}),
    ],
)
async def test_request_that_cannot_be_expressed_is_invalid(
    spawner: Spawner, null: int, program: str, argv: Sequence[str], cwd: str, env: Mapping[str, str]
) -> None:
    request = request_for(program, fds=(null,) * 3, argv=argv, cwd=cwd, env=env)
    assert await failure_of(spawner, request) == (SpawnStage.REQUEST, errno.EINVAL)


async def test_text_that_is_no_file_name_is_refused(spawner: Spawner, null: int) -> None:
    request = request_for("/bin/true", "\ud800", fds=(null,) * 3)
    assert await failure_of(spawner, request) == (SpawnStage.REQUEST, errno.EILSEQ)


@pytest.mark.parametrize("count", [1, 5, INHERITED_LIMIT])
async def test_inherited_descriptors_have_the_numbers_of_their_order(
    spawner: Spawner, null: int, count: int
) -> None:
    files = [os.memfd_create(f"file-{number}") for number in range(count)]
    script = "for fd in $(ls /proc/$$/fd | sort -n); do readlink /proc/$$/fd/$fd; done | grep memfd"
    try:
        # Not the order in which the helper receives them: each must be moved past another.
        order = tuple(reversed(files))
        output = await output_of(spawner, "/bin/sh", "-c", script, inherited=order)
    finally:
        for file in files:
            os.close(file)
    names = [line.split(":")[1].split(" ")[0] for line in output.decode().splitlines()]
    assert names == [f"file-{number}" for number in reversed(range(count))]


async def test_a_shielded_program_is_ended_by_no_signal_and_keeps_none_in_a_queue(spawner: Spawner) -> None:
    ask = ("/bin/grep", "-E", "Sig(Blk|Ign)", "/proc/self/status")
    told = [await output_of(spawner, *ask, is_shielded=shielded) for shielded in (False, True)]
    assert [int(line.split()[1], 16) for line in told[0].splitlines()] == [0, 0]
    blocked, ignored = (_signals(line.split()[1]) for line in told[1].splitlines())
    # SIGKILL and SIGSTOP can't be blocked. The others wait once; realtime ones as often as they are sent.
    assert blocked == set(range(1, 32)) - {signal.SIGKILL, signal.SIGSTOP}
    assert ignored == set(range(32, 65))


def _signals(mask: str | bytes) -> set[int]:
    return {number for number in range(1, 65) if int(mask, 16) >> (number - 1) & 1}


async def test_wrong_number_of_descriptors_is_invalid_and_leaks_none(spawner: Spawner, null: int) -> None:
    before = open_fds(spawner.helper_pid)
    for count, is_terminal in ((0, False), (1, False), (2, False), (3, True), (0, True)):
        request = request_for("/bin/true", fds=(null,) * count, is_terminal=is_terminal)
        assert await failure_of(spawner, request) == (SpawnStage.REQUEST, errno.EINVAL)
    request = request_for("/bin/true", fds=(null,) * (INHERITED_LIMIT + 4))
    assert await failure_of(spawner, request) == (SpawnStage.REQUEST, errno.EMFILE)
    assert open_fds(spawner.helper_pid) == before


async def test_closed_descriptor_fails_its_own_request_only(spawner: Spawner, null: int) -> None:
    closed = os.dup(null)
    os.close(closed)
    request = request_for("/bin/true", fds=(null, null, closed))
    assert await failure_of(spawner, request) == (SpawnStage.REQUEST, errno.EBADF)
    assert (await run(spawner, request_for("/bin/true", fds=(null,) * 3))).exit_code == 0


async def test_descriptor_that_is_no_terminal_is_reported_by_setup(spawner: Spawner, null: int) -> None:
    request = request_for("/bin/true", fds=(null,), is_terminal=True)
    assert await failure_of(spawner, request) == (SpawnStage.SETUP, errno.ENOTTY)


# -- which program runs


async def test_program_is_looked_up_in_the_path_of_its_own_environment(
    spawner: Spawner, tmp_path: Path
) -> None:
    executable(tmp_path / "bin" / "paddock-probe", "#!/bin/sh\necho own path\n")
    env = {"PATH": f"/etc/passwd:/nonexistent:{tmp_path}/bin"}
    assert await output_of(spawner, "paddock-probe", env=env) == b"own path\n"


async def test_program_is_found_without_any_path(spawner: Spawner) -> None:
    assert await output_of(spawner, "echo", "found", env={}) == b"found\n"


async def test_empty_path_element_is_the_working_directory(spawner: Spawner, tmp_path: Path) -> None:
    executable(tmp_path / "paddock-probe", "#!/bin/sh\necho here\n")
    for path in ("", ":/bin", "/bin:", "/bin::/usr/bin"):
        output = await output_of(spawner, "paddock-probe", env={"PATH": path}, cwd=str(tmp_path))
        assert output == b"here\n"


async def test_lack_of_permission_is_remembered_but_does_not_end_the_lookup(
    spawner: Spawner, null: int, tmp_path: Path
) -> None:
    executable(tmp_path / "second" / "paddock-probe", "#!/bin/sh\necho second\n")
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "paddock-probe").write_text("#!/bin/sh\necho first\n")
    env = {"PATH": f"{tmp_path}/first:{tmp_path}/second"}
    assert await output_of(spawner, "paddock-probe", env=env) == b"second\n"
    request = request_for("paddock-probe", fds=(null,) * 3, env={"PATH": f"{tmp_path}/first:/nonexistent"})
    assert await failure_of(spawner, request) == (SpawnStage.EXEC, errno.EACCES)


async def test_relative_program_is_relative_to_the_working_directory(
    spawner: Spawner, tmp_path: Path
) -> None:
    executable(tmp_path / "tool" / "probe", "#!/bin/sh\ncat place\n")
    (tmp_path / "place").write_text("the working directory")
    for program in ("./tool/probe", "tool/probe"):
        assert await output_of(spawner, program, cwd=str(tmp_path)) == b"the working directory"


# -- what the program finds


async def test_environment_is_exactly_the_one_given(spawner: Spawner) -> None:
    env = {"A": "1", "WITH_SPACE": "x y\nz", "EMPTY": "", "BYTES": "\udcff\udcfe", "EQUAL": "a=b"}
    output = await output_of(spawner, "/bin/cat", "/proc/self/environ", env=env)
    expected = (b"A=1", b"WITH_SPACE=x y\nz", b"EMPTY=", b"BYTES=\xff\xfe", b"EQUAL=a=b")
    assert output.split(b"\0")[:-1] == list(expected)


async def test_first_argument_may_differ_from_the_program(spawner: Spawner) -> None:
    output = await output_of(spawner, "/bin/cat", argv=("another-name", "/proc/self/cmdline"))
    assert output == b"another-name\0/proc/self/cmdline\0"


async def test_only_standard_descriptors_are_open_in_the_program(null: int) -> None:
    leaked_read, leaked_write = os.pipe()
    os.set_inheritable(leaked_write, True)
    spawner = await Spawner.start(unexpected_loss)
    script = (
        "import os, json\n"
        "listed = os.listdir('/proc/self/fd')\n"  # includes the one that read the directory
        "print(json.dumps(sorted(int(fd) for fd in listed if os.path.lexists('/proc/self/fd/' + fd))))"
    )
    assert json.loads(await output_of(spawner, PYTHON, "-ISc", script)) == [0, 1, 2]
    # The helper has let go of it too, or the reader would never see the end.
    os.close(leaked_write)
    assert await read_to_end(leaked_read) == b""
    os.close(leaked_read)
    await spawner.aclose()


async def test_signals_are_default_and_unblocked_whatever_the_server_does() -> None:
    ignored = [signal.SIGPIPE, signal.SIGUSR1, signal.SIGHUP, signal.SIGRTMIN + 3]
    previous = [(number, signal.signal(number, signal.SIG_IGN)) for number in ignored]
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2, signal.SIGTERM, signal.SIGCHLD])
    try:
        spawner = await Spawner.start(unexpected_loss)
        status = (await output_of(spawner, "/bin/cat", "/proc/self/status")).decode()
        await spawner.aclose()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in previous:
            signal.signal(number, handler)
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if line.startswith("Sig"))
    assert {name: int(fields[name], 16) for name in ("SigBlk", "SigIgn", "SigCgt")} == {
        "SigBlk": 0,
        "SigIgn": 0,
        "SigCgt": 0,
    }


async def test_process_on_pipes_leads_a_session_without_a_terminal(spawner: Spawner) -> None:
    script = (
        "import os, json\n"
        "try: os.open('/dev/tty', os.O_RDWR); tty = True\n"
        "except OSError: tty = False\n"
        "print(json.dumps([os.getsid(0) == os.getpid(), os.getpgrp() == os.getpid(), tty]))"
    )
    assert json.loads(await output_of(spawner, PYTHON, "-ISc", script)) == [True, True, False]


async def test_terminal_becomes_the_controlling_one_and_all_three_streams(spawner: Spawner) -> None:
    master, slave = os.openpty()
    script = (
        "import os, json\n"
        "os.close(os.open('/dev/tty', os.O_RDWR))\n"
        "print(json.dumps([os.getsid(0) == os.getpid(), os.tcgetpgrp(0) == os.getpid(), "
        "[os.ttyname(fd) for fd in (0, 1, 2)]]))"
    )
    name = os.ttyname(slave)
    exited: asyncio.Future[ExitReport] = asyncio.get_running_loop().create_future()
    request = request_for(PYTHON, "-ISc", script, fds=(slave,), is_terminal=True)
    spawned = await spawner.spawn(request, exited.set_result)
    os.close(slave)
    output = await read_to_end(master)
    assert json.loads(output) == [True, True, [name] * 3]
    assert (await exited).exit_code == 0
    os.close(spawned.pidfd)
    os.close(master)


async def test_limits_are_set_in_the_program_only(spawner: Spawner) -> None:
    current = resource.getrlimit(resource.RLIMIT_NOFILE)
    rlimits = {resource.RLIMIT_NOFILE: (16, 128), resource.RLIMIT_CPU: (77, resource.RLIM_INFINITY)}
    output = await output_of(
        spawner, "/bin/sh", "-c", "ulimit -Sn; ulimit -Hn; ulimit -St; ulimit -Ht", rlimits=rlimits
    )
    assert output.split() == [b"16", b"128", b"77", b"unlimited"]
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == current


async def test_impossible_limit_is_reported_by_setup(spawner: Spawner, null: int) -> None:
    request = request_for("/bin/true", fds=(null,) * 3, rlimits={resource.RLIMIT_NOFILE: (10, 5)})
    assert await failure_of(spawner, request) == (SpawnStage.SETUP, errno.EINVAL)


async def test_arguments_of_a_megabyte_and_a_half_arrive_whole(spawner: Spawner) -> None:
    arguments = [str(index).rjust(1024, "x") for index in range(1500)]
    # A soft limit from the test's surroundings must not decide: arguments may fill a quarter of the stack.
    stack = {resource.RLIMIT_STACK: (8 << 20, resource.getrlimit(resource.RLIMIT_STACK)[1])}
    script = "import sys, hashlib; print(hashlib.sha256('\\0'.join(sys.argv[1:]).encode()).hexdigest())"
    plain = await asyncio.to_thread(
        subprocess.run, [PYTHON, "-ISc", script, *arguments], capture_output=True, check=True
    )
    assert await output_of(spawner, PYTHON, "-ISc", script, *arguments, rlimits=stack) == plain.stdout
