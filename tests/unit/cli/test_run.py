"""`paddock run` as its users see it: a real child process, on pipes and on a real terminal."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import pytest

from tests.operators import PADDOCK, PATIENCE_S, Terminal
from tests.operators import terminal as screen_of
from tests.wire import served


def paddock_run(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [*PADDOCK, "run", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=PATIENCE_S, check=False)


# --- pipes ---------------------------------------------------------------


def test_output_comes_out_on_its_stream_and_the_status_is_the_commands() -> None:
    done = paddock_run("--", "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (done.returncode, done.stdout, done.stderr) == (3, b"out\n", b"err\n")


def test_binary_input_passes_unchanged_to_its_end() -> None:
    data = bytes(range(256)) * 40_000
    done = paddock_run("--", "cat", stdin=data)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == data


def test_a_file_as_standard_input_is_passed_on_too(tmp_path: Path) -> None:
    file = tmp_path / "input"
    file.write_bytes(b"from a file" * 10_000)
    with file.open("rb") as stdin:
        done = subprocess.run(
            [*PADDOCK, "run", "--", "cat"], stdin=stdin, capture_output=True, timeout=PATIENCE_S, check=True
        )
    assert done.stdout == file.read_bytes()


def test_an_input_that_never_comes_is_not_waited_for_whatever_kind_it_is_of() -> None:
    """Nobody could end a thread that reads it."""
    silent = os.eventfd(0)
    done = subprocess.run(
        [*PADDOCK, "run", "--", "sh", "-c", "exit 3"],
        stdin=silent,
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    os.close(silent)
    assert (done.returncode, done.stderr) == (3, b"")


@pytest.mark.parametrize("name", ["/dev/urandom", "/dev/zero"])
def test_a_device_is_read_whether_or_not_it_can_be_waited_for(name: str) -> None:
    with open(name, "rb", buffering=0) as device:
        done = subprocess.run(
            [*PADDOCK, "run", "--", "sh", "-c", "head -c 10 | wc -c"],
            stdin=device,
            capture_output=True,
            timeout=PATIENCE_S,
            check=True,
        )
    assert done.stdout.strip() == b"10"


def test_a_directory_that_is_gone_is_not_replaced_by_another(tmp_path: Path) -> None:
    place = tmp_path / "gone"
    place.mkdir()
    done = subprocess.run(
        ["sh", "-c", f'rmdir {place}; exec "$@"', "sh", *PADDOCK, "run", "--", "pwd"],
        cwd=place,
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (125, b"")
    assert done.stderr == b"paddock run: the current directory is gone; choose another with --cwd\n"


def test_a_closed_standard_input_is_an_empty_one() -> None:
    script = 'exec "$@" <&-'
    done = subprocess.run(
        ["sh", "-c", script, "sh", *PADDOCK, "run", "--", "cat"],
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_bytes_are_the_same_in_every_locale(tmp_path: Path) -> None:
    place = tmp_path / "Größe"
    place.mkdir()
    script = 'printf "%s/" "$1" "$GIVEN" "$INHERITED"; pwd'
    ascii_locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        [*PADDOCK, "run", "--env", "GIVEN=é", "--", "sh", "-c", script, "sh", "ä"],
        env={**os.environb, b"INHERITED": "ø".encode() + b"\xff"}
        | {name.encode(): value.encode() for name, value in ascii_locale.items()},
        cwd=place,
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == "ä/é/ø".encode() + b"\xff/" + os.fsencode(place) + b"\n"


def test_the_arguments_of_the_command_are_not_mistaken_for_ours() -> None:
    assert paddock_run("echo", "--url", "--", "-x").stdout == b"--url -- -x\n"
    assert paddock_run("--", "echo", "--", "--help").stdout == b"-- --help\n"


def test_directory_and_variables_are_set(tmp_path: Path) -> None:
    done = paddock_run(
        "--cwd", str(tmp_path), "--env", "A=1", "--env", "B=x=y", "--", "sh", "-c", "pwd; echo $A$B"
    )
    assert done.stdout.decode() == f"{tmp_path}\n1x=y\n"


def test_a_command_killed_by_a_signal_has_the_status_that_shells_give() -> None:
    assert paddock_run("--", "sh", "-c", "kill -KILL $$").returncode == 137


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("--", "no-such-program"), 127, "can't start 'no-such-program'"),
        (("--", "/etc/passwd"), 126, "can't start '/etc/passwd': Permission denied"),
        (("--cwd", "/no/such/place", "--", "ls"), 125, "can't start 'ls' in '/no/such/place'"),
        (("--url", "unix:///no/such.sock", "--", "ls"), 125, "can't connect to unix:///no/such.sock"),
        (("--url", "ftp://x", "--", "ls"), 125, "can't connect to ftp://x: unsupported address"),
    ],
)
def test_a_failure_is_one_sentence_and_a_status_that_tells_whose_it_is(
    arguments: tuple[str, ...], status: int, message: str
) -> None:
    done = paddock_run(*arguments)
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith(f"paddock run: {message}")
    assert (done.returncode, done.stdout) == (status, b"")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((), "give a command to run after --"),
        (("--env", "=A", "--", "ls"), "'=A' is not of the form NAME=VALUE or NAME"),
    ],
)
def test_a_bad_command_line_is_explained(arguments: tuple[str, ...], problem: str) -> None:
    done = paddock_run(*arguments)
    assert done.returncode == 2
    assert problem in done.stderr.decode()


def test_help_has_examples() -> None:
    done = paddock_run("--help")
    assert done.returncode == 0
    assert b"paddock run -- make test" in done.stdout


@contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(
        [*PADDOCK, "run", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    )
    with child:
        try:
            yield child
        finally:
            child.kill()


def test_input_and_output_pass_as_they_come() -> None:
    with running("--", "cat") as child:
        assert child.stdin is not None
        assert child.stdout is not None
        for line in (b"one\n", b"two\n"):
            child.stdin.write(line)
            assert child.stdout.readline() == line
        child.stdin.close()
        assert child.wait(PATIENCE_S) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_reaches_the_command(number: signal.Signals) -> None:
    name = number.name.removeprefix("SIG")
    script = f"trap 'echo got {name}; exit 42' {name}; echo ready; while :; do sleep 0.05; done"
    with running("--", "sh", "-c", script) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        child.send_signal(number)
        assert child.stdout.readline() == f"got {name}\n".encode()
        assert child.wait(PATIENCE_S) == 42


def await_end(pid: int) -> None:
    """Wait until nothing reaches a process any more that is no child of ours."""
    with suppress(ProcessLookupError):
        ended = os.pidfd_open(pid)
        poll = select.poll()
        poll.register(ended, select.POLLIN)
        assert poll.poll(PATIENCE_S * 1000)
        os.close(ended)


def test_who_waits_no_longer_for_what_a_command_left_behind_ends_that_too() -> None:
    with running("--", "sh", "-c", "setsid sleep 1000 & echo $$ $!; exit 3") as child:
        assert child.stdout is not None
        command, left_behind = map(int, child.stdout.readline().split())
        await_end(command)
        status = None
        while status is None:
            # Of the first, the news of the command's end may still be on its way.
            child.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                status = child.wait(PATIENCE_S / 5)
        assert status == 3
        assert child.stderr is not None
        assert child.stderr.read() == b""
    with pytest.raises(ProcessLookupError):
        os.kill(left_behind, 0)


def test_a_command_whose_reader_has_gone_is_ended_like_a_local_one() -> None:
    with running("--", "yes") as child:
        assert child.stdout is not None
        assert child.stdout.read(2) == b"y\n"
        child.stdout.close()
        assert child.wait(PATIENCE_S) == 128 + signal.SIGPIPE
        assert child.stderr is not None
        assert child.stderr.read() == b""


# --- shortage ------------------------------------------------------------


@pytest.mark.parametrize("descriptors", [7, 12, 18])
def test_too_few_descriptors_are_a_failure_of_our_own(descriptors: int) -> None:
    limited = f'ulimit -n {descriptors}; exec "$@"'
    done = subprocess.run(
        ["sh", "-c", limited, "sh", *PADDOCK, "run", "--", "true"],
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 125
    assert done.stderr.startswith(b"paddock run: ")
    assert done.stderr.endswith(b"Too many open files\n")


def test_a_failure_that_can_not_be_told_has_its_status() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*PADDOCK, "run", "--", "sh", "-c", "echo problem >&2; exit 42"],
            stderr=full,
            timeout=PATIENCE_S,
            check=False,
        )
    # What the command wrote is lost.
    assert done.returncode == 125


WITHOUT_THREADS = """
import threading
start = threading.Thread.start
def refuse(thread):
    if thread.name.startswith(("asyncio_", "stdout")):
        raise RuntimeError("can't start new thread")
    start(thread)
threading.Thread.start = refuse
from paddock.cli.main import run_and_end
run_and_end()
"""


@pytest.mark.parametrize(
    ("command", "problem"),
    [("sleep 60", "can't read the input"), ("echo; sleep 60", "can't write the output")],
)
def test_streams_for_which_there_is_no_thread_are_a_failure_of_our_own(
    tmp_path: Path, command: str, problem: str
) -> None:
    (tmp_path / "input").touch()
    with (tmp_path / "input").open() as file:
        done = subprocess.run(
            [sys.executable, "-P", "-c", WITHOUT_THREADS, "run", "--", "sh", "-c", command],
            stdin=file if "input" in problem else subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    assert done.returncode == 125
    assert done.stderr.startswith(f"paddock run: {problem}: no thread can be started; raise the limit of")
    assert done.stderr.count("\n") == 1


# --- a terminal ----------------------------------------------------------


def terminal(*arguments: str) -> AbstractContextManager[Terminal]:
    return screen_of([*PADDOCK, "run", *arguments], rows=33, cols=101)


def test_in_a_terminal_the_command_has_one_of_the_same_size_and_kind() -> None:
    with terminal(
        "--", "sh", "-c", 'test -t 0 && test -t 1 && test -t 2 && stty size && echo "$TERM."'
    ) as screen:
        assert screen.read_until(b"vt220.\r\n").endswith(b"33 101\r\nvt220.\r\n")
        assert screen.child.wait(PATIENCE_S) == 0


def test_a_change_of_the_window_size_reaches_the_command() -> None:
    script = "trap 'stty size; exit 5' WINCH; echo ready; while :; do sleep 0.05; done"
    with terminal("--", "sh", "-c", script) as screen:
        screen.read_until(b"ready\r\n")
        screen.resize(44, 122)
        screen.read_until(b"44 122\r\n")
        assert screen.child.wait(PATIENCE_S) == 5


def test_ctrl_c_is_for_the_command_and_not_for_us() -> None:
    script = "trap 'echo interrupted; exit 6' INT; echo ready; while :; do sleep 0.05; done"
    with terminal("--", "sh", "-c", script) as screen:
        screen.read_until(b"ready\r\n")
        screen.type(b"\x03")
        screen.read_until(b"interrupted\r\n")
        assert screen.child.wait(PATIENCE_S) == 6


def test_keys_pass_raw_and_the_terminal_is_put_back_afterwards() -> None:
    with terminal("--", "sh", "-c", "stty raw -echo; echo ready; head -c 4 | od -An -tx1") as screen:
        screen.read_until(b"ready")
        assert screen.attributes != screen.attributes_before
        screen.type(b"\x03\x04\x1a\r")
        screen.read_until(b"03 04 1a 0d")
        assert screen.child.wait(PATIENCE_S) == 0
        assert screen.attributes == screen.attributes_before


def test_the_terminal_is_put_back_when_a_signal_ends_the_command() -> None:
    with terminal("--", "sh", "-c", "echo ready; exec sleep 60") as screen:
        screen.read_until(b"ready\r\n")
        screen.child.terminate()
        assert screen.child.wait(PATIENCE_S) == 143
        assert screen.attributes == screen.attributes_before


def test_the_end_of_file_key_ends_the_input() -> None:
    with terminal("--", "cat") as screen:
        screen.type(b"hello\r")
        screen.read_until(b"hello\r\n")
        screen.read_until(b"hello\r\n")
        screen.type(b"\x04")
        assert screen.child.wait(PATIENCE_S) == 0


def test_pipes_can_be_had_in_a_terminal() -> None:
    with terminal("--no-tty", "--", "sh", "-c", "test -t 1 || echo pipes") as screen:
        screen.read_until(b"pipes")
        assert screen.child.wait(PATIENCE_S) == 0


def test_a_terminal_can_be_had_without_one() -> None:
    done = paddock_run("--tty", "--", "sh", "-c", "cat; test -t 1 && stty size", stdin=b"typed\n")
    assert done.returncode == 0
    assert done.stdout.endswith(b"typed\r\n24 80\r\n")


# --- a server that is there already --------------------------------------


@pytest.fixture
async def url() -> AsyncIterator[str]:
    async with served() as server:
        yield server.url


async def test_a_command_runs_on_the_server_that_the_url_names(url: str) -> None:
    done = await asyncio.to_thread(paddock_run, "--url", url, "--", "cat", stdin=b"over the wire")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"over the wire", b"")


@pytest.mark.parametrize("patience_s", ["0", "0.1"])
def test_a_lost_connection_is_a_failure_of_our_own(patience_s: str) -> None:
    with subprocess.Popen([*PADDOCK, "serve"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        assert server.stdout is not None
        url = server.stdout.readline().decode().strip()
        script = "echo ready; exec sleep 60"
        with running("--url", url, "--reconnect", patience_s, "--", "sh", "-c", script) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == b"ready\n"
            server.kill()
            assert child.wait(PATIENCE_S) == 125
            assert child.stderr is not None
            *told, line = child.stderr.read().splitlines()
            assert line.startswith(b"paddock run: process ")
            assert b" is lost: ws 127.0.0.1:" in line
            lost = b"paddock run: connection lost, trying again for 0.1 s; Ctrl-C gives up"
            assert told == ([] if patience_s == "0" else [lost])


def test_end_of_a_server_that_told_the_exit_is_no_lost_connection(tmp_path: Path) -> None:
    config = tmp_path / "paddock.toml"
    config.write_text("shutdown_grace_period_ms = 100\n")
    serve = [*PADDOCK, "serve", "--config", str(config)]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        assert server.stdout is not None
        url = server.stdout.readline().decode().strip()
        stubborn = "trap '' TERM; echo ready; while :; do sleep 1; done"
        with running("--url", url, "--", "sh", "-c", stubborn) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == b"ready\n"
            server.terminate()
            assert child.wait(PATIENCE_S) == 128 + signal.SIGKILL
            assert child.stderr is not None
            assert child.stderr.read() == b""


def test_user_gives_up_on_a_lost_server_by_a_signal() -> None:
    with subprocess.Popen([*PADDOCK, "serve"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        assert server.stdout is not None
        url = server.stdout.readline().decode().strip()
        with running("--url", url, "--", "sh", "-c", "echo ready; exec sleep 60") as child:
            assert child.stdout is not None
            assert child.stderr is not None
            assert child.stdout.readline() == b"ready\n"
            server.kill()
            assert b"connection lost, trying again for 25 s; Ctrl-C gives up" in child.stderr.readline()
            child.send_signal(signal.SIGINT)
            assert child.wait(PATIENCE_S) == 130
            assert b"gave up" in child.stderr.read()


@pytest.mark.parametrize("key", [b"\x03", b"\x1c"], ids=["Ctrl-C", "Ctrl-backslash"])
def test_user_gives_up_on_a_lost_server_by_a_key_and_has_the_terminal_back(key: bytes) -> None:
    with subprocess.Popen([*PADDOCK, "serve"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        assert server.stdout is not None
        url = server.stdout.readline().decode().strip()
        script = r"printf '\033[?1049h\033[?25lready'; exec sleep 60"
        with screen_of([*PADDOCK, "run", "--url", url, "--", "sh", "-c", script]) as screen:
            screen.read_until(b"ready")
            server.kill()
            screen.read_until(b"connection lost, trying again for 25 s; Ctrl-C gives up")
            screen.type(key)
            # The cursor is shown, and the other screen left.
            screen.read_until(b"\x1b[?25h\x1b[?1049l")
            screen.read_until(b"paddock run: gave up")
            assert screen.wait() == 130
            assert screen.attributes == screen.attributes_before
