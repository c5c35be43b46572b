"""paddock-init: what it enforces, what it passes on, and what it tells. With bubblewrap it is pid 1."""

from __future__ import annotations

import errno
import os
import resource
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from paddock.model.profile import Limits, NetworkMode
from paddock.sandbox.enforce import init
from paddock.sandbox.enforce.report import ReportKind, read_reports
from paddock.sandbox.host.kernel import Kernel
from paddock.sandbox.host.landlock_abi import COMPLETE_ABI, NEEDED_ABI
from paddock.sandbox.plan import landlock
from tests.sandbox.identity import PYTHON, drop_to, each_user
from tests.sandbox.init_start import COUNTING, TIMEOUT_S, Start

each_way = pytest.mark.parametrize("has_bwrap", [True, False], ids=["bwrap", "alone"])
MIB = 1024 * 1024

IGNORING = """\
import os, signal, sys
for number in (signal.SIGUSR1, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Executes its arguments with these signals ignored, as a launcher does for bubblewrap."""


# --- what becomes of the command --------------------------------------------


@each_user
@each_way
def test_the_status_is_that_of_the_command(user: int, has_bwrap: bool) -> None:
    outcome = Start(user, has_bwrap).run("sh", "-c", "echo out; echo err >&2; exit 42")
    assert (outcome.status, outcome.stdout, outcome.stderr) == (42, "out\n", "err\n")
    _, report = outcome.reports
    assert (report.kind, os.waitstatus_to_exitcode(report.value)) == (ReportKind.EXITED, 42)
    assert report.max_rss_kib > 0


@each_user
@each_way
def test_death_by_a_signal_is_128_and_its_number(user: int, has_bwrap: bool) -> None:
    outcome = Start(user, has_bwrap).run("sh", "-c", "kill -KILL $$")
    assert outcome.status == 128 + signal.SIGKILL
    assert os.WTERMSIG(outcome.reports[-1].value) == signal.SIGKILL


@each_way
def test_whoever_is_not_waited_for_is_killed_with_all_that_it_started(has_bwrap: bool) -> None:
    with Start(os.geteuid(), has_bwrap).prepared(["sh", "-c", "sleep 1000 & echo ready; wait"]) as prepared:
        argv, options, report = prepared
        with subprocess.Popen(argv, stdout=subprocess.PIPE, **options) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            os.close(report)
            # The other process has its end of the pipe, too: this is the end of both.
            assert process.stdout.read() == b""


@each_user
def test_when_the_exit_is_reported_nothing_of_the_command_lives_and_its_streams_are_at_their_end(
    user: int,
) -> None:
    # Without bubblewrap, which may have the streams too.
    start = Start(user, has_bwrap=False)
    command = ["sh", "-c", "sleep 1000 & echo last; exit 3"]
    with (
        start.prepared(command) as (argv, options, report),
        subprocess.Popen(argv, stdout=subprocess.PIPE, **options) as process,
    ):
        assert process.stdout is not None
        reports = read_reports(os.read(report, 4096))
        while reports[-1].kind is not ReportKind.EXITED:
            reports += read_reports(os.read(report, 4096))
        os.set_blocking(process.stdout.fileno(), False)
        assert os.read(process.stdout.fileno(), 100) == b"last\n"
        assert os.read(process.stdout.fileno(), 100) == b"", "somebody still has the other end"
        assert process.wait(TIMEOUT_S) == 3


@each_way
def test_command_of_a_launcher_that_is_gone_already_is_not_started(has_bwrap: bool) -> None:
    with Start(os.geteuid(), has_bwrap).prepared(["echo", "started"]) as (argv, options, report):
        os.close(report)
        done = subprocess.run(argv, capture_output=True, timeout=TIMEOUT_S, check=False, **options)
    assert (done.stdout, done.stderr) == (b"", b"")


@each_user
@each_way
def test_a_program_that_is_not_there_is_127_and_one_line(user: int, has_bwrap: bool) -> None:
    outcome = Start(user, has_bwrap).run("no-such-program")
    assert (outcome.status, outcome.stdout) == (init.NOT_FOUND_STATUS, "")
    assert outcome.stderr == "paddock: can't run no-such-program: No such file or directory\n"
    first = outcome.reports[1]
    assert (first.kind, first.value) == (ReportKind.NOT_EXECUTED, errno.ENOENT)


@each_user
@each_way
def test_a_file_that_is_no_program_is_126_and_one_line(user: int, has_bwrap: bool) -> None:
    outcome = Start(user, has_bwrap).run("/etc/passwd")
    assert outcome.status == init.NOT_EXECUTABLE_STATUS
    assert outcome.stderr == "paddock: can't run /etc/passwd: Permission denied\n"
    assert outcome.reports[1].value == errno.EACCES


def test_a_program_can_be_told_another_name() -> None:
    outcome = Start(os.geteuid(), argv0="other").run("sh", "-c", "cat /proc/$$/cmdline | tr '\\0' ' '")
    assert outcome.stdout.startswith("other -c ")


@pytest.mark.parametrize(
    "words",
    [
        ["unknown=1", "--", "true"],
        ["mask=relative", "--", "true"],
        ["mask=/nowhere/at/all", "--", "true"],
        ["private=/usr", "--", "true"],
        ["wall=x", "--", "true"],
        ["wall=-1", "--", "true"],
        ["wall=1"],
        ["--"],
        [],
    ],
)
def test_words_that_make_no_sense_start_nothing(words: list[str]) -> None:
    done = subprocess.run([init.PATH, *words], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert (done.returncode, done.stdout) == (init.NOT_CONFINED_STATUS, "")
    assert done.stderr.count("\n") == 1
    assert "not started" in done.stderr


# --- what the command is given ----------------------------------------------


@each_user
@each_way
def test_the_command_has_three_descriptors_whatever_the_launcher_left_open(
    user: int, has_bwrap: bool
) -> None:
    secret = os.open("/etc/hostname", os.O_RDONLY)
    try:
        with Start(user, has_bwrap).prepared(["ls", "/proc/self/fd"]) as (argv, options, _):
            options["pass_fds"].append(secret)
            done = subprocess.run(argv, capture_output=True, timeout=TIMEOUT_S, check=True, **options)
    finally:
        os.close(secret)
    # The fourth is that with which ls reads the directory.
    assert done.stdout.split() == [b"0", b"1", b"2", b"3"]


@each_user
@each_way
def test_the_command_has_no_capability_and_can_get_none(user: int, has_bwrap: bool) -> None:
    outcome = Start(user, has_bwrap).run(
        "grep", "-E", "^(CapPrm|CapEff|CapAmb|NoNewPrivs):", "/proc/self/status"
    )
    assert outcome.stdout.split() == [
        *("CapPrm:", "0" * 16),
        *("CapEff:", "0" * 16),
        *("CapAmb:", "0" * 16),
        *("NoNewPrivs:", "1"),
    ]


@each_user
@each_way
def test_the_command_has_default_dispositions_and_an_empty_mask(user: int, has_bwrap: bool) -> None:
    with Start(user, has_bwrap).prepared(["grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"]) as prepared:
        argv, options, _ = prepared
        done = subprocess.run(
            [PYTHON, "-c", IGNORING, *argv],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=True,
            **options,
        )
    assert done.stdout.split() == ["SigBlk:", "0" * 16, "SigIgn:", "0" * 16]


@each_user
def test_the_command_can_neither_read_nor_write_through_the_descriptors_of_the_init(user: int) -> None:
    script = (
        "for fd in $(seq 0 30); do (: >> /proc/1/fd/$fd) 2>/dev/null && echo opened $fd;"
        " (: >> /proc/$$/fd/$fd) 2>/dev/null && echo own $fd; done; cat /proc/1/environ"
    )
    outcome = Start(user).run("sh", "-c", script)
    assert "opened" not in outcome.stdout
    assert "own 0" in outcome.stdout
    assert "/proc/1/environ: Permission denied" in outcome.stderr


# --- its end, and that of all it started ------------------------------------


@each_user
@each_way
def test_orphans_are_reaped_and_end_with_the_command(user: int, has_bwrap: bool) -> None:
    # The orphan holds the pipe: output ends only when it is gone.
    script = "(sleep 1000 & echo started) & wait; setsid -f sleep 1000; exit 7"
    assert Start(user, has_bwrap).run("sh", "-c", script).status == 7


@each_user
@each_way
def test_a_signal_to_the_init_reaches_the_command_once(user: int, has_bwrap: bool) -> None:
    start = Start(user, has_bwrap)
    with start.popen(PYTHON, "-c", COUNTING, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        [first] = _children(process.pid) if has_bwrap else [process.pid]
        os.kill(first, signal.SIGUSR1)
        os.kill(first, signal.SIGTERM)
        assert process.wait(TIMEOUT_S) == 1


@each_user
def test_in_the_group_of_the_launcher_its_signals_reach_the_command_directly(user: int) -> None:
    with Start(user, has_own_session=False).prepared([PYTHON, "-c", COUNTING]) as (argv, options, _):
        options["start_new_session"] = True
        process = subprocess.Popen([PYTHON, "-c", IGNORING, *argv], stdout=subprocess.PIPE, **options)
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            os.killpg(process.pid, signal.SIGUSR1)
            os.killpg(process.pid, signal.SIGTERM)
            assert process.wait(TIMEOUT_S) == 1
        finally:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


# --- limits -----------------------------------------------------------------


@each_user
@each_way
def test_when_the_time_is_over_everything_is_killed_and_told(user: int, has_bwrap: bool) -> None:
    limits = Limits(wall_seconds=1)
    outcome = Start(user, has_bwrap, limits=limits).run("sh", "-c", "trap '' TERM; sleep 1000 & sleep 1000")
    assert outcome.status == init.WALL_LIMIT_STATUS
    assert "took longer than 1 s" in outcome.stderr
    assert [report.kind for report in outcome.reports] == [ReportKind.CONFINED, ReportKind.WALL_LIMIT]


@each_user
@each_way
def test_a_command_that_ends_in_time_does_not_notice_the_limit(user: int, has_bwrap: bool) -> None:
    outcome = Start(user, has_bwrap, limits=Limits(wall_seconds=1000)).run("true")
    assert (outcome.status, outcome.stderr) == (0, "")


@each_user
@each_way
def test_memory_is_limited(user: int, has_bwrap: bool) -> None:
    code = "import mmap; mmap.mmap(-1, 300 << 20); print('allocated')"
    unlimited = Start(user, has_bwrap).run(PYTHON, "-c", code)
    assert unlimited.stdout == "allocated\n"
    limited = Start(user, has_bwrap, limits=Limits(memory_bytes=200 * MIB)).run(PYTHON, "-c", code)
    assert "Cannot allocate memory" in limited.stderr


@each_user
@each_way
def test_a_program_that_memory_does_not_suffice_for_is_126(user: int, has_bwrap: bool) -> None:
    outcome = Start(user, has_bwrap, limits=Limits(memory_bytes=4096)).run("true")
    assert outcome.status in (init.NOT_EXECUTABLE_STATUS, 128 + signal.SIGKILL, 128 + signal.SIGSEGV)


@each_way
def test_processor_time_is_limited_by_a_signal_that_says_so(has_bwrap: bool) -> None:
    outcome = Start(os.geteuid(), has_bwrap, limits=Limits(cpu_seconds=1)).run(
        "sh", "-c", "while :; do :; done"
    )
    assert outcome.status == 128 + signal.SIGXCPU


@each_user
@each_way
def test_the_size_of_a_file_is_limited(user: int, has_bwrap: bool) -> None:
    script = "cd /dev/shm && f=$(mktemp) && head -c 100000 /dev/zero > $f; s=$?; rm $f; exit $s"
    assert Start(user, has_bwrap).run("sh", "-c", script).status == 0
    limited = Start(user, has_bwrap, limits=Limits(file_bytes=4096)).run("sh", "-c", script)
    assert limited.status == 128 + signal.SIGXFSZ


@each_user
@each_way
def test_open_files_are_limited_and_a_limit_in_force_is_not_raised(user: int, has_bwrap: bool) -> None:
    start = Start(user, has_bwrap, limits=Limits(open_files=20))
    assert start.run("sh", "-c", "ulimit -n").stdout == "20\n"
    with Start(user, has_bwrap, limits=Limits(open_files=100)).prepared(
        ["sh", "-c", "ulimit -n"]
    ) as prepared:
        argv, options, _ = prepared
        done = subprocess.run(
            ["sh", "-c", 'ulimit -n 50; exec "$@"', "sh", *argv],
            capture_output=True,
            timeout=TIMEOUT_S,
            check=True,
            **options,
        )
    assert done.stdout == b"50\n"


CORE_LIMIT = "import resource; print(*resource.getrlimit(resource.RLIMIT_CORE))"


@each_user
@pytest.mark.parametrize("pattern", ["|/usr/lib/systemd/systemd-coredump %P", "core.%e", "/var/crash/core"])
def test_crash_of_a_command_calls_no_program_of_the_host(
    user: int, pattern: str, new_directory: Path
) -> None:
    # The setting belongs to the whole machine, so a file stands for it inside.
    file = new_directory / "core_pattern"
    file.write_text(f"{pattern}\n")
    start = Start(user, options=("--ro-bind", str(file), "/proc/sys/kernel/core_pattern"))
    inside = start.run(PYTHON, "-c", CORE_LIMIT).stdout
    outside = subprocess.run([PYTHON, "-c", CORE_LIMIT], capture_output=True, text=True, check=True).stdout
    # With this limit the kernel dumps to no program (fs/coredump.c).
    is_called = pattern.startswith("|") and not outside.endswith(" 0\n")
    assert inside == ("1 1\n" if is_called else outside)
    assert outside != "1 1\n"


LOWERING = """
import ctypes, resource, struct, subprocess, sys
CORE = resource.RLIMIT_CORE
libc = ctypes.CDLL(None, use_errno=True)
nothing = struct.pack("QQ", 0, 0)
subprocess.run(["sh", "-c", "ulimit -c 0"], check=True)
resource.setrlimit(CORE, (0, 0))
assert libc.syscall(%s, 0, CORE, nothing, None) == 0
assert libc.syscall(%s, CORE, nothing) == 0
child = subprocess.Popen(["sleep", "100"])
assert libc.syscall(%s, child.pid, CORE, nothing, None) == 0
try:
    resource.prlimit(0, CORE, (0, 0))
    print("both")
except PermissionError:
    print("refused")
print(*resource.getrlimit(CORE), *resource.prlimit(child.pid, CORE))
child.kill()
resource.setrlimit(resource.RLIMIT_NOFILE, (50, 60))
print(*resource.getrlimit(resource.RLIMIT_NOFILE), *resource.prlimit(0, resource.RLIMIT_NOFILE, (40, 60)))
"""
"""Sets the limit of core files in each way that there is."""


@each_user
@pytest.mark.parametrize("pattern", ["|/usr/lib/systemd/systemd-coredump %P", "core.%e"])
@pytest.mark.parametrize("mode", [None, NetworkMode.RESTRICTED])
def test_command_can_not_lower_the_limit_that_keeps_a_crash_from_the_host(
    user: int, pattern: str, mode: NetworkMode | None, new_directory: Path
) -> None:
    if resource.getrlimit(resource.RLIMIT_CORE)[1] == 0:
        pytest.skip("nobody here can have core files")
    file = new_directory / "core_pattern"
    file.write_text(f"{pattern}\n")
    start = Start(user, mode=mode, options=("--ro-bind", str(file), "/proc/sys/kernel/core_pattern"))
    prlimit, setrlimit = {"x86_64": (302, 160), "aarch64": (261, 164)}[os.uname().machine]
    outcome = start.run(PYTHON, "-c", LOWERING % (prlimit, setrlimit, prlimit))
    is_called = pattern.startswith("|")
    assert outcome.stdout.splitlines() == [
        *(("refused", "1 1 1 1") if is_called else ("both", "0 0 0 0")),
        "50 60 50 60",
    ], outcome.stderr


def test_the_number_of_processes_is_limited_for_an_ordinary_user() -> None:
    user = os.geteuid() or 61234
    code = (
        "import os, time\n"
        "made = 0\n"
        "try:\n"
        "    for _ in range(40):\n"
        "        if os.fork() == 0: time.sleep(1000)\n"
        "        made += 1\n"
        "except BlockingIOError: pass\n"
        "print(made, flush=True)\n"
    )
    assert Start(user).run(PYTHON, "-c", code).stdout == "40\n"
    # The command itself is one of the ten.
    assert Start(user, limits=Limits(processes=10)).run(PYTHON, "-c", code).stdout == "9\n"


@pytest.mark.parametrize(
    ("script", "is_full"),
    [
        ("sleep 1000 & sleep 1000 & exit 3", True),
        ("sleep 1000 & sleep 1000 & kill -9 $$", True),
        ("sleep 1000 & sleep 1000 & exit 0", False),
        ("sleep 1000 & exit 3", False),
    ],
)
def test_a_command_that_fails_with_as_many_processes_as_it_may_have_is_reported(
    script: str, is_full: bool
) -> None:
    user = os.geteuid() or 61234
    outcome = Start(user, limits=Limits(processes=3)).run("sh", "-c", script)
    kinds = [report.kind for report in outcome.reports]
    assert kinds == [
        ReportKind.CONFINED,
        *([ReportKind.PROCESS_LIMIT] if is_full else []),
        ReportKind.EXITED,
    ]


# --- Landlock ---------------------------------------------------------------


@pytest.fixture(name="abi")
def landlock_abi() -> int:
    abi = Kernel().landlock_abi()
    if abi < NEEDED_ABI:
        pytest.skip(f"this kernel has Landlock ABI {abi}, {NEEDED_ABI} is needed")
    return abi


def _writable(directory: Path) -> Path:
    directory.mkdir()
    directory.chmod(0o777)
    return directory


@each_user
@each_way
def test_landlock_refuses_to_write_where_nothing_was_granted(
    user: int, has_bwrap: bool, abi: int, place: Path
) -> None:
    inside, outside = _writable(place / "inside"), _writable(place / "outside")
    (outside / "old").touch()
    (outside / "old").chmod(0o666)
    script = (
        f"cd {place}; echo x > inside/new && mkdir inside/d && mv inside/new inside/d/ && cat inside/d/new;"
        "for try in 'echo x > outside/new' 'echo x >> outside/old' 'mkdir outside/d' 'rm outside/old'"
        " 'mv inside/d/new outside/' ': > outside/old' 'ln -s x outside/l'; do"
        ' sh -c "$try" 2>/dev/null && echo "done: $try"; done; echo > /dev/null && echo end'
    )
    ruleset = landlock.second_layer([str(inside)], NetworkMode.ENABLED, abi)
    confined = Start(user, has_bwrap, ruleset=ruleset).run("sh", "-c", script)
    assert confined.stdout == "x\nend\n", confined.stderr
    free = Start(user, has_bwrap).run("sh", "-c", f"rm -r {inside}/d;" + script)
    assert free.stdout.count("done:") == 7, free.stderr


@each_user
@each_way
def test_landlock_grants_a_single_file(user: int, has_bwrap: bool, abi: int, place: Path) -> None:
    for name in ("granted", "other"):
        (place / name).touch()
        (place / name).chmod(0o666)
    ruleset = landlock.second_layer(
        [str(place / "granted"), str(place / "missing")], NetworkMode.ENABLED, abi
    )
    outcome = Start(user, has_bwrap, ruleset=ruleset).run(
        "sh", "-c", f"echo x > {place}/granted; echo x > {place}/other"
    )
    assert outcome.status != 0
    assert ((place / "granted").read_text(), (place / "other").read_text()) == ("x\n", "")


@each_user
def test_landlock_keeps_a_command_from_abstract_sockets_of_the_host(user: int, abi: int) -> None:
    if abi < COMPLETE_ABI:
        pytest.skip(f"this kernel has Landlock ABI {abi}, {COMPLETE_ABI} is needed")
    code = "import socket; s = socket.socket(socket.AF_UNIX); s.connect({!r}); print('connected')"
    with socket.socket(socket.AF_UNIX) as server:
        name = f"\0paddock-test-{os.getpid()}-{user}"
        server.bind(name)
        server.listen()
        ruleset = landlock.second_layer([], NetworkMode.ENABLED, abi)
        # Without bubblewrap the network namespace is the host's, as it is when the network is enabled.
        confined = Start(user, has_bwrap=False, ruleset=ruleset).run(PYTHON, "-c", code.format(name))
        free = Start(user, has_bwrap=False).run(PYTHON, "-c", code.format(name))
    assert "PermissionError" in confined.stderr
    assert free.stdout == "connected\n"


def test_a_kernel_that_refuses_the_rules_starts_nothing() -> None:
    done = subprocess.run(
        [init.PATH, "landlock=8000000000000000:0:0", "--", "echo", "ran"],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        **drop_to(os.geteuid()),
    )
    assert (done.returncode, done.stdout) == (init.NOT_CONFINED_STATUS, "")
    assert "can't be confined: Landlock: " in done.stderr
