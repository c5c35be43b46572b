"""paddock-init: what it reads and what it says. On some machines it does both without a C library."""

from __future__ import annotations

import errno
import os
import platform
import pty
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from paddock.printable import printable
from paddock.sandbox.enforce import init
from paddock.sandbox.host.syscall_table import MACHINES
from paddock.sandbox.plan import bpf
from tests.sandbox.identity import PYTHON, each_user
from tests.sandbox.init_start import ENVIRONMENT, TIMEOUT_S, Start


def run(
    *words: str, environment: Mapping[str, str] = ENVIRONMENT, descriptor: int | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [init.PATH, *init.words(environment=environment), *words],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        env={"LEAKED": "from the launcher", "PATH": "/leaked"},
        pass_fds=[] if descriptor is None else [descriptor],
    )


# --- numbers ----------------------------------------------------------------


@pytest.mark.parametrize(
    "word",
    [
        "wall=",
        "wall= 1",
        "wall=+1",
        "wall=-1",
        "wall=1 ",
        "wall=1s",
        "wall=0x10",
        "wall=a",
        "fsize=18446744073709551616",
        "fsize=100000000000000000000000000000000",
        "landlock=1:0",
        "landlock=1:0:0:",
        "landlock=g:0:0",
        "landlock=0x1:0:0",
        "landlock=10000000000000000:0:0",
        "mounted=1:x:/",
        "mounted=1:2",
    ],
)
def test_a_word_whose_number_is_none_is_named(word: str) -> None:
    done = run(word, "--", "echo", "ran")
    assert (done.returncode, done.stdout) == (init.NOT_CONFINED_STATUS, "")
    assert done.stderr == (
        f"paddock: the command was not started, because it can't be confined: word {word}: Invalid argument\n"
    )


@pytest.mark.parametrize("number", ["1000000", "0001000000", "18446744073709551615"])
def test_any_number_of_64_bits_is_a_limit(number: str) -> None:
    assert run(f"fsize={number}", "--", "echo", "ran").stdout == "ran\n"


@pytest.mark.parametrize("seconds", [1, 2])
def test_the_time_that_was_over_is_said(seconds: int) -> None:
    done = run(f"wall={seconds}", "--", "sleep", "1000")
    assert done.stderr == f"paddock: the command was killed, because it took longer than {seconds} s\n"


# --- errors -----------------------------------------------------------------


def _loop(place: Path) -> Path:
    (place / "loop").symlink_to("loop")
    return place / "loop"


def _text(place: Path) -> Path:
    (place / "text").write_text("no program\n")
    (place / "text").chmod(0o755)
    return place / "text"


@each_user
@pytest.mark.parametrize(
    ("program", "error", "status"),
    [
        (lambda place: place / "missing", errno.ENOENT, init.NOT_FOUND_STATUS),
        (lambda place: _text(place) / "below", errno.ENOTDIR, init.NOT_EXECUTABLE_STATUS),
        (lambda place: place, errno.EACCES, init.NOT_EXECUTABLE_STATUS),
        (lambda place: place / ("n" * 256), errno.ENAMETOOLONG, init.NOT_EXECUTABLE_STATUS),
        (_loop, errno.ELOOP, init.NOT_EXECUTABLE_STATUS),
        (_text, errno.ENOEXEC, init.NOT_EXECUTABLE_STATUS),
    ],
)
def test_why_a_program_does_not_run_is_said_in_the_words_of_the_system(
    user: int, program: Callable[[Path], Path], error: int, status: int, place: Path
) -> None:
    path = program(place)
    outcome = Start(user).run(str(path))
    assert (outcome.status, outcome.stderr) == (status, f"paddock: can't run {path}: {os.strerror(error)}\n")
    assert outcome.reports[1].value == error


@pytest.mark.parametrize("error", [errno.EPERM, errno.ESTALE, errno.EDOTDOT, errno.EDQUOT, 133, 134, 4000])
def test_every_error_of_the_system_is_said_by_its_words_or_its_number(error: int) -> None:
    machine = MACHINES[platform.machine()]
    refusal = bpf.Refusal(machine.numbers["execve"], error)
    program = bpf.assemble(machine.audit_architecture, [refusal])
    with os.fdopen(os.memfd_create("filter"), "wb", buffering=0) as file:
        file.write(program)
        done = run(f"seccomp={file.fileno()}", "--", "/bin/true", descriptor=file.fileno())
    assert done.returncode == init.NOT_EXECUTABLE_STATUS
    said = done.stderr.removeprefix("paddock: can't run /bin/true: ")
    assert said in (f"{os.strerror(error)}\n", f"error {error}\n")


def test_a_line_of_any_length_is_said_whole() -> None:
    word = "unknown=" + "x" * 100_000
    done = run(word, "--", "true")
    assert done.stderr.endswith(f": word {word}: Invalid argument\n")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "name",
    [
        b"\x1b]0;title\x07",
        b"line\nof\rits\town\x7f",
        b"\x9b31m\xff",
        "\x85\x9b31m".encode(),
        "\u202egnp.exe\u2066\u200b\u2028\ufeff".encode(),
        "\U000e0041\U0010ffff\U0001f600".encode(),
        "r\xe9sum\xe9 \u65e5\u672c 'quoted' \\n".encode(),
        b"\xed\xa0\x80\xc0\xaf\xe2\x80",
        b"\x1b" * 3000,
    ],
)
def test_a_name_in_a_message_is_no_control_of_a_terminal_and_no_second_line(name: bytes) -> None:
    done = run("--", os.fsdecode(b"/none/" + name))
    path = printable(os.fsdecode(b"/none/" + name))
    # Some of the names are too long to be looked for.
    assert done.stderr in (
        f"paddock: can't run {path}: {os.strerror(number)}\n" for number in (errno.ENOENT, errno.ENAMETOOLONG)
    )


STOP_OUTPUT = "import termios, time; termios.tcflow(0, termios.TCOOFF); print(flush=True); time.sleep(1000)"


def test_a_terminal_that_the_command_has_stopped_does_not_keep_its_end_waiting() -> None:
    ours, theirs = pty.openpty()
    command = [PYTHON, "-c", STOP_OUTPUT]
    argv = [init.PATH, *init.words(environment=ENVIRONMENT), "wall=1", "--", *command]
    with os.fdopen(ours, "rb"), os.fdopen(theirs, "rb") as terminal:
        done = subprocess.run(
            argv, stdin=terminal, stdout=terminal, stderr=terminal, timeout=TIMEOUT_S, check=False
        )
    assert done.returncode == init.WALL_LIMIT_STATUS


def test_a_command_is_killed_in_time_though_nobody_reads_that_it_is() -> None:
    reader, writer = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writer, bytes(4096))
    os.set_blocking(writer, True)
    life, held = os.pipe2(os.O_CLOEXEC)
    argv = [init.PATH, *init.words(environment=ENVIRONMENT), "wall=1", "--", "sleep", "1000"]
    with subprocess.Popen(argv, stdout=held, stderr=writer) as started:
        os.close(held)
        # The command holds the other end, and so does the init.
        assert os.read(life, 1) == b""
        assert started.wait(TIMEOUT_S) == init.WALL_LIMIT_STATUS
    for file in (reader, writer, life):
        os.close(file)


# --- the environment --------------------------------------------------------


def test_the_command_has_the_environment_that_was_told_and_nothing_of_the_launcher() -> None:
    environment = {"PATH": "/bin", "EMPTY": "", "LINES": "a\nb", "PATHS": "/nowhere"}
    done = run("--", "env", "-0", environment=environment)
    assert dict(item.split("=", 1) for item in done.stdout.rstrip("\0").split("\0")) == environment


@pytest.mark.parametrize(
    ("environment", "status"),
    [
        ({}, 0),
        ({"PATHS": "/nowhere"}, 0),
        ({"PATH": "/nowhere:/bin"}, 0),
        ({"PATH": "/nowhere"}, init.NOT_FOUND_STATUS),
        ({"PATH": ""}, init.NOT_FOUND_STATUS),
    ],
)
def test_a_program_is_looked_up_in_path_or_where_programs_are(
    environment: dict[str, str], status: int
) -> None:
    assert run("--", "true", environment=environment).returncode == status


# --- the terminal -----------------------------------------------------------


def test_the_command_has_the_terminal_that_the_launcher_had() -> None:
    code = "import os; print(os.tcgetpgrp(0) == os.getpgrp() == os.getpid())"
    ours, theirs = pty.openpty()
    argv = [
        "setsid",
        "--ctty",
        str(init.PATH),
        *init.words(environment=ENVIRONMENT),
        "--",
        PYTHON,
        "-c",
        code,
    ]
    with os.fdopen(ours, "rb") as output, os.fdopen(theirs, "rb") as terminal:
        done = subprocess.run(argv, stdin=terminal, stdout=terminal, timeout=TIMEOUT_S, check=False)
        assert (done.returncode, output.readline()) == (0, b"True\r\n")
