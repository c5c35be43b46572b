"""The control socket of a server: where it is, who gets in, and when there is none."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from paddock.client.operator import operate
from paddock.errors import ConfigError, ConnectError, ListenError
from paddock.transport.runtime_directory import VARIABLE, pid_of, socket_paths
from tests.operators import PADDOCK, PATIENCE_S, new_operator
from tests.wire import served

NOBODY = 65534

CONNECT_AS = """\
import os, socket, sys
os.setgroups([])
os.setresgid(int(sys.argv[1]), int(sys.argv[1]), int(sys.argv[1]))
os.setresuid(int(sys.argv[1]), int(sys.argv[1]), int(sys.argv[1]))
sock = socket.socket(socket.AF_UNIX)
try:
    sock.connect(sys.argv[2])
except OSError as error:
    sys.exit(error.errno)
try:
    sock.sendall(b'{"id":1,"method":"initialize","params":{"clientName":"x"}}\\n')
    sys.exit(0 if sock.recv(1) else 200)
except OSError:
    sys.exit(200)
"""
"""Exits with the errno of connect(2), 200 when the server hung up, 0 when it answered."""


def connect_as(uid: int, path: Path) -> int:
    command = [sys.executable, "-I", "-S", "-c", CONNECT_AS, str(uid), str(path)]
    return subprocess.run(command, timeout=PATIENCE_S, check=False).returncode


def path_of(url: str | None) -> Path:
    assert url is not None
    return Path(url.removeprefix("unix://"))


async def test_an_embedded_server_has_none_unless_it_is_asked_for() -> None:
    async with served() as server:
        assert server.control_url is None
    async with served(control_socket=False) as server:
        assert server.control_url is None


async def test_the_socket_is_private_and_gone_after_the_end(own_runtime_directory: str) -> None:
    async with served(control_socket=True) as server:
        path = path_of(server.control_url)
        assert path.parent == Path(own_runtime_directory)
        assert pid_of(path) == os.getpid()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        async with await operate(path, "test") as control:
            assert (await control.status()).server.url == server.url
    assert not path.exists()


async def test_two_servers_in_one_program_have_two_sockets() -> None:
    async with served(control_socket=True) as first, served(control_socket=True) as second:
        for server in (first, second):
            async with await operate(path_of(server.control_url), "test") as control:
                assert (await control.status()).server.url == server.url


async def test_the_socket_can_be_moved(own_runtime_directory: str) -> None:
    path = Path(own_runtime_directory) / "elsewhere.sock"
    async with served(control_socket=str(path)) as server:
        assert server.control_url == f"unix://{path}"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_a_path_that_can_not_be_had_is_an_error_and_the_usual_place_only_a_warning(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ListenError, match="must be absolute"):
        async with served(control_socket="relative.sock"):
            pass
    with pytest.raises(ListenError, match="no such file or directory"):
        async with served(control_socket=str(tmp_path / "missing" / "x.sock")):
            pass
    monkeypatch.setenv(VARIABLE, str(tmp_path / "missing" / "paddock"))
    async with served(control_socket=True) as server:
        assert server.control_url is None
    assert "no control socket" in caplog.text


def test_a_number_is_no_place_for_a_socket() -> None:
    from paddock.config import make_settings

    with pytest.raises(ConfigError, match="control_socket"):
        make_settings({"control_socket": 5})


async def test_a_socket_of_another_kind_is_told_apart(own_runtime_directory: str) -> None:
    path = Path(own_runtime_directory) / "plain.sock"
    async with served(listen=f"unix://{path}"), await operate(path, "test") as control:
        with pytest.raises(ConnectError, match="it is not a control socket"):
            await control.status()


async def test_an_operator_who_leaves_does_not_end_a_server_of_one_client() -> None:
    with new_operator() as operator:
        server = await asyncio.create_subprocess_exec(
            *(*PADDOCK, "serve", "--listen", "stdio"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | operator.env,
        )
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(b'{"id":1,"method":"initialize","params":{"clientName":"x"}}\n')
        assert b"sessionId" in await server.stdout.readline()
        (path,) = socket_paths(operator.runtime)
        for _ in range(2):
            async with await operate(path, "test") as control:
                assert (await control.status()).server.url == "stdio"
        server.stdin.close()
        assert await server.wait() == 0
        assert socket_paths(operator.runtime) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_can_not_connect_not_even_where_the_path_is_open() -> None:
    with new_operator() as operator, operator.serving():
        (path,) = socket_paths(operator.runtime)
        assert connect_as(NOBODY, path) == 13, "the directory keeps strangers out (EACCES)"
        operator.runtime.chmod(0o755)
        assert connect_as(NOBODY, path) == 13, "so does the mode of the socket"
        path.chmod(0o666)
        assert connect_as(NOBODY, path) == 200, "the server itself looks at who is there"
        assert connect_as(0, path) == 0


def test_switching_it_off_in_the_settings_leaves_no_socket(tmp_path: Path) -> None:
    config = tmp_path / "paddock.toml"
    config.write_text("control_socket = false\n")
    with new_operator() as operator, operator.serving("--config", str(config)):
        assert socket_paths(operator.runtime) == []


def test_what_a_killed_server_left_is_removed_when_the_next_one_starts() -> None:
    with new_operator() as operator:
        with operator.serving() as server:
            (stale,) = socket_paths(operator.runtime)
            os.kill(server.pid, 9)
        assert stale.exists()
        with operator.serving():
            (path,) = socket_paths(operator.runtime)
            assert path != stale
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(os.fspath(path))
