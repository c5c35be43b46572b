"""`paddock attach` as its users see it: on a real terminal, beside a real server."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator

import pytest

from tests.operators import PADDOCK, PATIENCE_S, Operator

LEAVE = b"\x1c"


@pytest.fixture
def served_operator(operator: Operator) -> Iterator[Operator]:
    with operator.serving():
        yield operator


def shell_on(operator: Operator) -> str:
    """An interactive shell that waits on a terminal, with a prompt to wait for."""
    process_id = operator.detach("--tty", "--env", "PS1=PROMPT>", "--", "bash", "--norc", "-i")
    operator.await_process(process_id, lambda process: process["outputBytes"] > 0)
    return process_id


def is_running(operator: Operator, process_id: str) -> bool:
    return bool(operator.process(process_id)["running"])


# --- a terminal ----------------------------------------------------------


def test_the_newest_output_comes_first_and_then_everything_that_is_typed_and_answered(
    served_operator: Operator,
) -> None:
    process_id = shell_on(served_operator)
    with served_operator.terminal("attach", process_id) as screen:
        screen.read_until(b"PROMPT>")
        screen.type(b"echo $((6 * 7)); test -t 0 && echo a terminal\r")
        screen.read_until(b"42\r\na terminal\r\n")


def test_the_exit_status_of_a_process_that_ends_meanwhile_is_ours(served_operator: Operator) -> None:
    process_id = shell_on(served_operator)
    with served_operator.terminal("attach", process_id) as screen:
        screen.read_until(b"PROMPT>")
        assert screen.attributes != screen.attributes_before
        screen.type(b"exit 7\r")
        assert screen.wait() == 7
        assert screen.attributes == screen.attributes_before


def test_the_detach_key_leaves_the_process_running_and_the_terminal_as_it_was(
    served_operator: Operator,
) -> None:
    process_id = shell_on(served_operator)
    with served_operator.terminal("attach", process_id) as screen:
        screen.read_until(b"PROMPT>")
        screen.type(b"kept=yes\r" + LEAVE)
        screen.read_until(b"detached from " + process_id.encode())
        assert screen.wait() == 0
        assert screen.attributes == screen.attributes_before
    with served_operator.terminal("attach", process_id) as screen:
        screen.type(b"echo was $kept\r")
        screen.read_until(b"was yes\r\n")


def test_who_leaves_a_full_screen_program_has_the_screen_cursor_and_mouse_back(
    served_operator: Operator,
) -> None:
    script = r"printf '\033[?1049h\033[?25l\033[?1000h\033=ready'; exec sleep 1000"
    process_id = served_operator.detach("--tty", "--", "sh", "-c", script)
    with served_operator.terminal("attach", process_id) as screen:
        screen.read_until(b"ready")
        screen.type(LEAVE)
        put_back = screen.read_until(b"detached from " + process_id.encode())
        assert screen.wait() == 0
    for sequence in (b"\x1b[?1049l", b"\x1b[?25h", b"\x1b[?1000l", b"\x1b>"):
        assert sequence in put_back


def test_other_keys_to_leave_with_can_be_chosen_and_the_usual_one_passes_then(
    served_operator: Operator,
) -> None:
    script = "stty raw -echo; echo ready; head -c 3 | od -An -tx1"
    process_id = served_operator.detach("--tty", "--", "sh", "-c", script)
    with served_operator.terminal("attach", "--detach-keys", "ctrl-p,ctrl-q", process_id) as screen:
        screen.read_until(b"ready")
        screen.type(b"\x10x")
        screen.type(LEAVE)
        screen.read_until(b"10 78 1c")
        assert screen.wait() == 0
    process_id = shell_on(served_operator)
    with served_operator.terminal("attach", "--detach-keys", "ctrl-p,ctrl-q", process_id) as screen:
        screen.read_until(b"PROMPT>")
        screen.type(b"\x10\x11")
        screen.read_until(b"detached")
        assert screen.wait() == 0
    assert is_running(served_operator, process_id)


def test_every_other_key_is_for_the_process(served_operator: Operator) -> None:
    script = "stty raw -echo; echo ready; head -c 5 | od -An -tx1"
    process_id = served_operator.detach("--tty", "--", "sh", "-c", script)
    with served_operator.terminal("attach", process_id) as screen:
        screen.read_until(b"ready")
        screen.type(b"\x03\x04\x1a\x11\r")
        screen.read_until(b"03 04 1a 11 0d")
        assert screen.wait() == 0


def test_the_window_is_ours_while_we_stay_follows_ours_and_is_given_back(served_operator: Operator) -> None:
    process_id = shell_on(served_operator)
    before = served_operator.process(process_id)
    assert (before["rows"], before["cols"]) == (24, 80)
    with served_operator.terminal("attach", process_id, rows=31, cols=99) as screen:
        served_operator.await_process(
            process_id, lambda process: (process["rows"], process["cols"]) == (31, 99)
        )
        screen.resize(44, 122)
        served_operator.await_process(
            process_id, lambda process: (process["rows"], process["cols"]) == (44, 122)
        )
        screen.type(LEAVE)
        assert screen.wait() == 0
    after = served_operator.process(process_id)
    assert (after["rows"], after["cols"]) == (24, 80)


def test_a_visitor_that_only_looks_changes_nothing(served_operator: Operator) -> None:
    process_id = shell_on(served_operator)
    for leave in (LEAVE, b"\x03"):
        with served_operator.terminal("attach", "--read-only", process_id, rows=31, cols=99) as screen:
            screen.read_until(b"PROMPT>")
            screen.type(b"exit 9\r")
            screen.type(leave)
            screen.read_until(b"detached")
            assert screen.wait() == 0
    process = served_operator.process(process_id)
    assert (process["running"], process["rows"], process["cols"]) == (True, 24, 80)
    assert b"exit 9" not in served_operator.paddock("logs", process_id).stdout


def test_a_visitor_that_only_looks_sees_what_another_does(served_operator: Operator) -> None:
    process_id = shell_on(served_operator)
    with (
        served_operator.terminal("attach", "--read-only", process_id) as looking,
        served_operator.terminal("attach", process_id) as typing,
    ):
        looking.read_until(b"PROMPT>")
        typing.read_until(b"PROMPT>")
        typing.type(b"echo $((20 + 3)) seen\r")
        looking.read_until(b"23 seen\r\n")
        typing.type(b"exit 3\r")
        assert looking.wait() == typing.wait() == 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_visit_and_not_the_process(
    served_operator: Operator, number: signal.Signals
) -> None:
    process_id = shell_on(served_operator)
    with served_operator.terminal("attach", process_id) as screen:
        screen.read_until(b"PROMPT>")
        screen.child.send_signal(number)
        screen.read_until(b"detached")
        assert screen.wait() == 128 + number
        assert screen.attributes == screen.attributes_before
    assert is_running(served_operator, process_id)


def test_the_detach_key_works_while_the_process_does_not_read(served_operator: Operator) -> None:
    process_id = served_operator.detach(
        "--tty", "--", "sh", "-c", "stty raw -echo; echo ready; exec sleep 1000"
    )
    with served_operator.terminal("attach", process_id) as screen:
        screen.read_until(b"ready")
        # More than a terminal and the server hold for a process that does not read.
        screen.type(b"x" * 3000)
        for _ in range(60):
            screen.type(b"x" * 3000)
        screen.type(LEAVE)
        screen.read_until(b"detached")
        assert screen.wait() == 0


def test_only_the_newest_of_much_output_is_shown_again(served_operator: Operator) -> None:
    process_id = served_operator.detach("--tty", "--", "sh", "-c", "seq 50000; echo ready; read x")
    served_operator.await_process(process_id, lambda process: process["outputBytes"] > 50_000)
    with served_operator.terminal("attach", process_id) as screen:
        shown = screen.read_until(b"ready\r\n")
        assert 60_000 < len(shown) <= 65_536 + len(b"ready\r\n")
        assert shown.endswith(b"49999\r\n50000\r\nready\r\n")


def test_a_process_that_has_ended_is_shown_and_its_status_is_ours(served_operator: Operator) -> None:
    process_id = served_operator.detach("--tty", "--", "sh", "-c", "echo last words; exit 12")
    served_operator.await_process(process_id, lambda process: not process["running"])
    with served_operator.terminal("attach", process_id) as screen:
        screen.read_until(b"last words")
        assert screen.wait() == 12


def test_a_server_that_dies_is_a_failure_of_our_own(operator: Operator) -> None:
    with operator.serving() as server:
        process_id = shell_on(operator)
        with operator.terminal("attach", process_id) as screen:
            screen.read_until(b"PROMPT>")
            os.kill(server.pid, signal.SIGKILL)
            screen.read_until(b"\r\npaddock attach: ")
            assert screen.wait() == 125
            assert screen.attributes == screen.attributes_before


def test_the_detach_key_works_while_the_server_hangs(operator: Operator) -> None:
    with operator.serving() as server:
        process_id = shell_on(operator)
        with operator.terminal("attach", process_id) as screen:
            screen.read_until(b"PROMPT>")
            os.kill(server.pid, signal.SIGSTOP)
            try:
                screen.type(b"x" + LEAVE)
                screen.read_until(b"detached")
                assert screen.wait() == 0
            finally:
                os.kill(server.pid, signal.SIGCONT)
            assert screen.attributes == screen.attributes_before


# --- pipes ---------------------------------------------------------------


def test_lines_go_to_a_process_on_pipes_and_the_end_of_file_key_ends_its_input(
    served_operator: Operator,
) -> None:
    with served_operator.terminal(
        "run", "--no-tty", "--server", server_of(served_operator), "--", "cat"
    ) as owner:
        process_id = only_process(served_operator)
        with served_operator.terminal("attach", process_id) as screen:
            screen.type(b"hello\r")
            screen.read_until(b"hello\r\n")
            screen.read_until(b"hello\r\n")
            owner.read_until(b"hello\r\n")
            screen.type(b"\x04")
            assert screen.wait() == 0
        assert owner.wait() == 0


def test_the_end_of_a_process_is_seen_though_its_owner_left_sooner(served_operator: Operator) -> None:
    script = "echo ready; read line; echo the last words; exit 7"
    command = ("run", "--no-tty", "--server", server_of(served_operator), "--", "sh", "-c", script)
    with (
        served_operator.terminal(*command) as owner,
        served_operator.terminal("attach", only_process(served_operator)) as screen,
    ):
        screen.read_until(b"ready\r\n")
        screen.child.send_signal(signal.SIGSTOP)
        owner.type(b"\r")
        assert owner.wait() == 7
        screen.child.send_signal(signal.SIGCONT)
        screen.read_until(b"the last words\r\n")
        assert screen.wait() == 7


@pytest.mark.parametrize(("key", "status"), [(b"\x03", 130), (LEAVE, 0)])
def test_a_process_on_pipes_is_left_by_the_keys_that_interrupt(
    served_operator: Operator, key: bytes, status: int
) -> None:
    process_id = served_operator.detach("--", "sh", "-c", "echo ready; exec sleep 1000")
    with served_operator.terminal("attach", process_id) as screen:
        screen.read_until(b"ready")
        screen.type(key)
        assert screen.wait() == status
    assert is_running(served_operator, process_id)


def test_input_and_output_may_be_pipes_too(served_operator: Operator) -> None:
    with served_operator.terminal("run", "--no-tty", "--server", server_of(served_operator), "--", "cat"):
        process_id = only_process(served_operator)
        data = bytes(range(256)) * 2000
        done = served_operator.paddock("attach", process_id, stdin=data)
        assert (done.returncode, done.stdout, done.stderr) == (0, data, b"")


def test_a_process_without_input_says_so_and_goes_on(served_operator: Operator) -> None:
    process_id = served_operator.detach("--", "sh", "-c", "echo out; echo err >&2; exec sleep 1000")
    with subprocess.Popen(
        [*PADDOCK, "attach", process_id],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | served_operator.env,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdin.write(b"hello\n")
        child.stdin.flush()
        assert child.stdout.readline() == b"out\n"
        lines = {child.stderr.readline(), child.stderr.readline()}
        told = f"paddock attach: stdin of process {process_id!r} is closed".encode()
        assert b"err\n" in lines
        assert any(line.startswith(told) for line in lines)
        served_operator.output("kill", process_id)
        assert child.wait(PATIENCE_S) == 143


def test_a_reader_that_is_stuck_keeps_nobody_from_leaving(served_operator: Operator) -> None:
    process_id = served_operator.detach("--", "yes")
    with subprocess.Popen(
        [*PADDOCK, "attach", process_id],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env=os.environ | served_operator.env,
    ) as child:
        assert child.stdout is not None
        pipe = child.stdout.fileno()
        room = os.fpathconf(pipe, "PC_PIPE_BUF")
        capacity = fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ)
        while held_bytes(pipe) <= capacity - room:
            assert child.poll() is None
        child.terminate()
        assert child.wait(PATIENCE_S) == 128 + signal.SIGTERM
    assert is_running(served_operator, process_id)


def held_bytes(pipe: int) -> int:
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


def test_without_any_input_the_input_of_the_process_stays_open(served_operator: Operator) -> None:
    with served_operator.terminal(
        "run", "--no-tty", "--server", server_of(served_operator), "--", "cat"
    ) as owner:
        process_id = only_process(served_operator)
        with subprocess.Popen(
            [*PADDOCK, "attach", process_id],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env=os.environ | served_operator.env,
        ) as child:
            assert child.stdout is not None
            owner.type(b"still open\r")
            assert child.stdout.readline() == b"still open\n"
            # The session ends with its owner, and who still looks then may not see the exit.
            child.terminate()
            child.wait(PATIENCE_S)
        owner.type(b"\x04")


def server_of(operator: Operator) -> str:
    (path,) = operator.runtime.glob("*.sock")
    return path.name.partition("-")[0]


def only_process(operator: Operator) -> str:
    """The id of the only process, once there is one."""
    while not (found := operator.status()):
        pass
    return str(found[0]["processId"])


# --- mistakes ------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "status", "problem"),
    [
        (("nothing",), 125, "paddock attach: no process 'nothing'"),
        (("--detach-keys", "nope", "x"), 2, "'nope' in 'nope' is not a key; expected keys such as ctrl-p"),
        ((), 2, "the following arguments are required: ID"),
    ],
)
def test_a_mistake_is_explained(
    served_operator: Operator, arguments: tuple[str, ...], status: int, problem: str
) -> None:
    done = served_operator.paddock("attach", *arguments)
    assert (done.returncode, done.stdout) == (status, b"")
    assert problem in done.stderr.decode()
