"""Standard input and output, whatever they are connected to."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import signal
import socket
import subprocess
import sys
import tty
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from paddock.errors import ConnectError
from paddock.transport.stdio import connect_socket
from tests.unit.transport.recorder import PATIENCE_S, Acceptor

PROGRAM = Path(__file__).with_name("stdio_echo.py")

Stream = int | IO[bytes] | None


@pytest.fixture(params=["asyncio", "uvloop"])
def command(request: pytest.FixtureRequest) -> list[str]:
    """Give the command line of the echo program, once per event loop."""
    return [sys.executable, str(PROGRAM), request.param]


@contextlib.contextmanager
def running(command: list[str], stdin: Stream, stdout: Stream) -> Iterator[subprocess.Popen[bytes]]:
    """Run the echo program; it must end by itself."""
    # In a group of its own, so that no other test continues it once it is stopped.
    with subprocess.Popen(
        command, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, process_group=0
    ) as process:
        try:
            yield process
            process.wait(PATIENCE_S)
        finally:
            process.kill()


def report(process: subprocess.Popen[bytes]) -> str:
    """Give what the program wrote to standard error, after its end."""
    assert process.stderr is not None
    return process.stderr.read().decode()


def test_messages_go_through_pipes_and_the_end_of_the_input_ends_the_link(command: list[str]) -> None:
    with running(command, subprocess.PIPE, subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b'{"id":1}\n\r\n{"id":2}\r\n')
        process.stdin.flush()
        assert [process.stdout.readline() for _ in range(2)] == [b'{"id":1}\n', b'{"id":2}\n']
        process.stdin.close()
        assert process.stdout.read() == b""
        assert report(process) == "ended: NoneType\n"
    assert process.returncode == 0


def test_a_stray_print_does_not_break_the_stream(command: list[str]) -> None:
    with running(command, subprocess.PIPE, subprocess.PIPE) as process:
        output, errors = process.communicate(b"print\nclose\n", PATIENCE_S)
    assert output == b"bye\n"
    assert errors == b"stray output\nended: NoneType\n"


def test_a_message_larger_than_the_pipe_arrives_whole(command: list[str]) -> None:
    with running(command, subprocess.PIPE, subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"big\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"x" * (20 << 20) + b"\n"
        process.stdin.close()


def test_what_is_queued_is_written_before_a_close_ends_the_output(command: list[str]) -> None:
    with running(command, subprocess.PIPE, subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"big\nclose\n")
        process.stdin.flush()
        # The input stays open: the output must end without it.
        assert process.stdout.read() == b"x" * (20 << 20) + b"\nbye\n"
        assert report(process) == "ended: NoneType\n"


def test_an_input_that_ends_inside_a_message_is_a_loss(command: list[str]) -> None:
    with running(command, subprocess.PIPE, subprocess.PIPE) as process:
        output, errors = process.communicate(b'first\n{"id":', PATIENCE_S)
    assert output == b"first\n"
    assert errors == b"ended: ConnectionLost\n"


def test_a_reader_that_goes_away_is_a_loss(command: list[str]) -> None:
    with running(command, subprocess.PIPE, subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.close()
        process.stdin.write(b"echo\n")
        process.stdin.flush()
        assert report(process) == "ended: ConnectionLost\n"


def test_files_do_as_input_and_output(command: list[str], tmp_path: Path) -> None:
    lines = b"".join(b'{"id":%d}\n' % n for n in range(50_000))
    requests, replies = tmp_path / "requests", tmp_path / "replies"
    requests.write_bytes(lines)
    with requests.open("rb") as stdin, replies.open("wb") as stdout, running(command, stdin, stdout):
        pass
    assert replies.read_bytes() == lines


def test_an_empty_device_ends_the_link_at_once(command: list[str]) -> None:
    with running(command, subprocess.DEVNULL, subprocess.DEVNULL) as process:
        assert report(process) == "ended: NoneType\n"
    assert process.returncode == 0


async def test_one_socket_serves_as_input_and_output(acceptor: Acceptor) -> None:
    ours, theirs = socket.socketpair()
    with theirs, running([sys.executable, str(PROGRAM)], theirs.fileno(), theirs.fileno()) as process:
        theirs.close()
        link = await connect_socket(ours, acceptor)
        client = await acceptor.arrived()
        link.send(b"echo")
        link.send(b"big")
        link.send(b"close")
        assert await client.received(3) == [b"echo", b"x" * (20 << 20), b"bye"]
        assert await client.ended() is None
        assert report(process) == "ended: NoneType\n"


def test_a_client_that_dies_in_the_middle_of_a_message_with_output_unread_is_noticed(
    command: list[str],
) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, running(command, theirs.fileno(), theirs.fileno()) as process:
        theirs.close()
        ours.sendall(b"echo\n")
        assert ours.recv(1, socket.MSG_PEEK) == b"e"
        # The bytes and the error, which unread output makes of the end (unix(7)), must come at once.
        process.send_signal(signal.SIGSTOP)
        ours.sendall(b"half a mess")
        ours.close()
        process.send_signal(signal.SIGCONT)
        assert report(process) == "ended: ConnectionLost\n"


def test_a_terminal_is_blocking_again_afterwards(command: list[str]) -> None:
    controller, terminal = pty.openpty()
    try:
        tty.setraw(terminal)
        with running(command, terminal, terminal) as process:
            os.write(controller, b"echo\n")
            assert os.read(controller, 100) == b"echo\n"
            # The program and this test share the open file description.
            assert not os.get_blocking(terminal)
            os.write(controller, b"close\n")
            assert os.read(controller, 100) == b"bye\n"
            assert report(process) == "ended: NoneType\n"
        assert os.get_blocking(terminal)
    finally:
        os.close(controller)
        os.close(terminal)


@pytest.mark.parametrize("closed", ["<&-", ">&-"])
def test_a_closed_standard_stream_is_an_error(closed: str) -> None:
    # Not on uvloop, which aborts the process if a descriptor of its own is a standard one.
    shell = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, str(PROGRAM)]
    with running(shell, subprocess.DEVNULL, subprocess.DEVNULL) as process:
        assert "can't listen on stdio: standard input or output is closed" in report(process)
    assert process.returncode == 1


def test_what_the_receiver_factory_raises_comes_out(command: list[str]) -> None:
    with running([*command, "refuse"], subprocess.PIPE, subprocess.PIPE) as process:
        assert report(process) == "error: no receiver today\n"
    assert process.returncode == 1


async def test_a_socket_that_can_not_be_used_is_an_error_and_closed(
    acceptor: Acceptor, monkeypatch: pytest.MonkeyPatch
) -> None:
    class BrokenLoop:
        async def create_unix_connection(self, *_: object, **__: object) -> None:
            raise OSError(9, "Bad file descriptor")

    ours, theirs = socket.socketpair()
    with theirs:
        monkeypatch.setattr(asyncio, "get_running_loop", BrokenLoop)
        with pytest.raises(ConnectError, match="bad file descriptor"):
            await connect_socket(ours, acceptor)
        assert ours.fileno() < 0
