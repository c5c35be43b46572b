"""A server that ends, by whatever death, leaves nothing behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

import paddock
from paddock.server.app import SPAWNER_LOST
from tests.processes import command_of, descendants_of, has_ended, watched
from tests.wire import WireError, attach, served

PATIENCE_S = 30


@contextmanager
def server(*flags: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`paddock serve` as a user starts it, and its URL."""
    argv = [sys.executable, "-P", "-m", "paddock", "serve", *flags]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


class Client:
    """A blocking client, just enough to start things."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self.call("initialize", {"clientName": "test"})
        connection.send('{"method":"initialized"}')

    def call(self, method: str, params: Any) -> Any:
        self._connection.send(json.dumps({"id": 1, "method": method, "params": params}))
        while True:
            message = json.loads(self._connection.recv(timeout=PATIENCE_S))
            if message.get("id") == 1:
                return message["result"]

    def start(self, process_id: str, script: str) -> None:
        params = {"processId": process_id, "argv": ["/bin/sh", "-c", script], "cwd": "/", "tty": False}
        self.call("process/start", params | {"env": {"PATH": "/usr/bin:/bin"}})

    def wait_for_output(self, process_id: str) -> None:
        self.call("process/read", {"processId": process_id, "waitMs": PATIENCE_S * 1000})


STUBBORN = "trap '' TERM INT HUP; echo ready; while :; do sleep 1000; done"


def daemon(pid_file: Path) -> str:
    """A child that leaves its session and its parent, as daemons do, and ignores what it can."""
    inner = f"trap '' TERM HUP; echo \\$\\$ > {pid_file}.new; mv {pid_file}.new {pid_file}; exec sleep 1000"
    until_there = f"while [ ! -e {pid_file} ]; do sleep 0.01; done"
    return f'(setsid sh -c "{inner}" >/dev/null 2>&1 &); {until_there}; echo ready'


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_process_survives_the_server(number: signal.Signals, tmp_path: Path) -> None:
    config = tmp_path / "paddock.toml"
    config.write_text("shutdown_grace_period_ms = 100\n")
    with server("--config", str(config)) as (process, url), connect(url) as connection, ExitStack() as stack:
        client = Client(connection)
        client.start("stubborn", STUBBORN)
        client.wait_for_output("stubborn")
        for index in range(3):
            client.start(f"daemon{index}", daemon(tmp_path / f"pid{index}"))
            client.wait_for_output(f"daemon{index}")
        daemons = [int((tmp_path / f"pid{index}").read_text()) for index in range(3)]
        pidfds = [stack.enter_context(watched(pid)) for pid in daemons]
        for pid in descendants_of(process.pid):
            # The shells that started the daemons may end at any moment.
            with suppress(ProcessLookupError):
                pidfds.append(stack.enter_context(watched(pid)))
        assert len(pidfds) >= 5

        os.kill(process.pid, number)

        assert all(has_ended(pidfd, PATIENCE_S) for pidfd in pidfds)
        status = process.wait(PATIENCE_S)
        assert status == (-signal.SIGKILL if number is signal.SIGKILL else 0)


def test_processes_get_their_grace_when_the_server_is_told_to_stop(tmp_path: Path) -> None:
    said = tmp_path / "said"
    with server() as (process, url), connect(url) as connection:
        client = Client(connection)
        client.start("p", f"trap 'echo bye > {said}; exit' TERM; echo ready; while :; do sleep 0.01; done")
        client.wait_for_output("p")

        process.terminate()

        assert process.wait(PATIENCE_S) == 0
    assert said.read_text() == "bye\n"


@pytest.mark.parametrize("listen", ["ws://127.0.0.1:0", "unix://{tmp_path}/s"])
async def test_a_client_learns_the_exit_of_what_had_to_be_killed(listen: str, tmp_path: Path) -> None:
    with server(*short_grace(tmp_path), "--listen", listen.format(tmp_path=tmp_path)) as (process, url):
        async with paddock.connect(url) as box:
            stubborn = await box.start(["sh", "-c", STUBBORN])
            await stubborn.read_until("ready")

            process.terminate()

            assert await stubborn.wait() == 128 + signal.SIGKILL
        assert process.wait(PATIENCE_S) == 0


def test_a_client_at_standard_input_learns_it_too(tmp_path: Path) -> None:
    argv = [sys.executable, "-P", "-m", "paddock", "serve", *short_grace(tmp_path), "--listen", "stdio"]
    ours, theirs = socket.socketpair()
    with theirs, subprocess.Popen(argv, stdin=theirs.fileno(), stdout=theirs.fileno()) as process, ours:
        try:
            ours.settimeout(PATIENCE_S)
            theirs.close()
            assert raw_life(ours, process)["exitCode"] == 128 + signal.SIGKILL
            ours.shutdown(socket.SHUT_WR)
            assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()


def short_grace(tmp_path: Path) -> tuple[str, str]:
    config = tmp_path / "paddock.toml"
    config.write_text("shutdown_grace_period_ms = 100\n")
    return "--config", str(config)


def raw_life(sock: socket.socket, process: subprocess.Popen[bytes]) -> Any:
    """Start what must be killed, end the server, and give what it tells of the exit."""
    params = {"processId": "p", "argv": ["/bin/sh", "-c", STUBBORN], "cwd": "/", "tty": False}
    requests = (
        {"id": 1, "method": "initialize", "params": {"clientName": "test"}},
        {"method": "initialized"},
        {"id": 2, "method": "process/start", "params": params | {"env": {"PATH": "/usr/bin:/bin"}}},
    )
    sock.sendall(b"".join(json.dumps(request).encode() + b"\n" for request in requests))
    with sock.makefile("rb") as lines:
        for line in lines:
            message = json.loads(line)
            if message.get("method") == "process/output":
                process.terminate()
            if message.get("method") == "process/exited":
                return message["params"]
    raise AssertionError("the server ended without a word about the exit")


def test_the_only_line_on_stdout_is_the_url() -> None:
    with server() as (process, url):
        process.terminate()
        assert process.stdout is not None
        assert url.startswith("ws://127.0.0.1:")
        assert process.stdout.read() == ""
        assert process.wait(PATIENCE_S) == 0


def test_closed_standard_streams_do_not_matter() -> None:
    script = f"exec {sys.executable} -P -m paddock serve <&- >&- 2>&-"
    with subprocess.Popen(script, shell=True) as process:
        try:
            spawners: list[int] = []
            while not spawners and process.poll() is None:
                spawners = spawners_of(process.pid)
            process.terminate()

            assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()


def test_a_lost_spawner_ends_the_server_with_an_error() -> None:
    with server() as (process, url), connect(url) as connection:
        client = Client(connection)
        client.start("p", STUBBORN)
        client.wait_for_output("p")
        (spawner,) = spawners_of(process.pid)

        os.kill(spawner, signal.SIGKILL)

        assert process.wait(PATIENCE_S) == 1
        assert process.stderr is not None
        assert "spawner" in process.stderr.read()


async def test_clients_learn_that_the_fate_of_their_processes_is_not_known() -> None:
    async with served() as here:
        client = attach(here)
        await client.initialize(capabilities={"extensions": True, "notifications": ["process/failed"]})
        await client.start("ended", "/bin/true")
        await client.finish("ended")
        await client.start("p", "/bin/cat", pipeStdin=True)
        waiting = client.request("process/wait", {"processId": "p"})
        assert here.unreadiness() is None

        os.kill(here._spawner.helper_pid, signal.SIGKILL)

        async with asyncio.timeout(PATIENCE_S):
            failed = await client.take(lambda message: message.get("method") == "process/failed")
            await here.finished.wait()
        assert failed["params"] == {"processId": "p", "message": SPAWNER_LOST}
        for request in (waiting, client.request("process/wait", {"processId": "p"})):
            with pytest.raises(WireError, match="what became of process 'p' is not known"):
                await client.answer(request)
        ended = await client.call("process/wait", {"processId": "ended"})
        assert (ended["exited"], ended["exitCode"]) == (True, 0)
        assert here.unreadiness() == "the process spawner is lost"
        assert here.failure == SPAWNER_LOST


def spawners_of(pid: int) -> list[int]:
    """The spawners below a server: one, once it has started."""
    return [child for child in descendants_of(pid) if command_of(child) == "paddock-spawner"]


@pytest.mark.parametrize(
    ("flags", "status", "text"),
    [
        (["--listen", "ws://build.example:1"], 1, "literal IP"),
        (["--listen", "ftp://x"], 1, "unsupported address"),
        (["--concurrent-requests", "0"], 2, "not a number from 1 up"),
        (["--config", "/no/such/file"], 1, "can't be read"),
        (["--bogus"], 2, "there is no option"),
    ],
)
def test_wrong_flags_end_with_one_sentence(flags: list[str], status: int, text: str) -> None:
    argv = [sys.executable, "-P", "-m", "paddock", "serve", *flags]

    result = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S)

    assert result.returncode == status
    assert text in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_a_taken_port_is_told() -> None:
    with server() as (_, url):
        argv = [sys.executable, "-P", "-m", "paddock", "serve", "--listen", url]
        result = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S)

    assert result.returncode == 1
    assert "can't listen" in result.stderr
    assert "Traceback" not in result.stderr


# --- stdio ------------------------------------------------------------------


def test_stdio_serves_one_client_and_ends_with_it(tmp_path: Path) -> None:
    argv = [sys.executable, "-P", "-m", "paddock", "serve", "--listen", "stdio"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def send(message: Any) -> None:
            assert process.stdin is not None
            process.stdin.write(json.dumps(message) + "\r\n\n")
            process.stdin.flush()

        send({"id": 1, "method": "initialize", "params": {"clientName": "t"}})
        assert json.loads(process.stdout.readline())["id"] == 1
        send({"method": "initialized"})
        params = {"processId": "p", "argv": ["/bin/sleep", "1000"], "cwd": "/", "env": {}, "tty": False}
        send({"id": 2, "method": "process/start", "params": params})
        assert json.loads(process.stdout.readline())["id"] == 2
        with ExitStack() as stack:
            # Besides them there may be a child with which the server looks at its host.
            family = {command_of(pid): pid for pid in descendants_of(process.pid)}
            pidfds = [stack.enter_context(watched(family[name])) for name in ("paddock-spawner", "sleep")]

            process.stdin.close()

            assert process.wait(PATIENCE_S) == 0
            assert all(has_ended(pidfd, PATIENCE_S) for pidfd in pidfds)
        assert process.stdout.read() == ""
