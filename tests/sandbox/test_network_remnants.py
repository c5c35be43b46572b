"""Somebody kills a command with a proxy, its server, its launcher, or a proxy alone: nothing is left."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.processes import descendants_of
from tests.sandbox.helper_process import wait_until

PADDOCK = str(Path(sys.executable).parent / "paddock")
PROFILE = '{"type": "managed", "file_system": {"type": "unrestricted"}, "network": "proxied"}'


def network_of(pid: int) -> str | None:
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return None


def members(namespace: str) -> list[int]:
    """The processes that are in a network namespace."""
    return [
        int(name) for name in os.listdir("/proc") if name.isdigit() and network_of(int(name)) == namespace
    ]


@pytest.mark.parametrize("verb", ["run", "sandbox"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("moment", ["idle", "connected"])
def test_killed_launcher_leaves_no_process_and_no_namespace(
    verb: str, number: signal.Signals, moment: str, new_directory: Path
) -> None:
    # Connected, and silent: the proxy waits for its first word.
    held = "exec 3<>/dev/tcp/127.0.0.1/3128; " if moment == "connected" else ""
    script = f"{held}readlink /proc/self/ns/net; exec sleep 1000"
    words = [PADDOCK, verb, "--profile", PROFILE, "--", "/bin/bash", "-c", script]
    with subprocess.Popen(
        words, cwd=new_directory, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as started:
        assert started.stdout is not None
        namespace = started.stdout.readline().strip()
        assert namespace.startswith("net:[")
        assert namespace != network_of(os.getpid())
        assert members(namespace)
        started.send_signal(number)
    # A namespace is gone with its last process and socket, and no listener of it is held by anybody else.
    wait_until(lambda: not members(namespace))


@pytest.mark.parametrize("moment", ["idle", "connected", "asking"])
def test_killed_server_leaves_no_process_and_no_namespace(moment: str, new_directory: Path) -> None:
    said = {"idle": "", "connected": "exec 3<>/dev/tcp/127.0.0.1/3128", "asking": f"{CONNECT} >&3"}[moment]
    script = f"{said}\nreadlink /proc/self/ns/net\nexec sleep 1000"
    url = f"unix://{new_directory}/server.sock"
    with subprocess.Popen([PADDOCK, "serve", "--listen", url], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline().strip() == url
        words = [PADDOCK, "run", "--url", url, "--reconnect", "0", "--profile", PROFILE]
        with subprocess.Popen(
            [*words, "--", "/bin/bash", "-c", script],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as client:
            assert client.stdout is not None
            namespace = client.stdout.readline().strip()
            assert members(namespace)
            server.kill()
    wait_until(lambda: not members(namespace))


CONNECT = r"""exec 3<>/dev/tcp/127.0.0.1/3128; printf 'CONNECT a.test:443 HTTP/1.1\r\nHost: a.test\r\n\r\n'"""


def test_command_that_is_killed_takes_its_connections_along(new_directory: Path) -> None:
    script = "exec 3<>/dev/tcp/127.0.0.1/3128; kill -9 $$"
    words = [PADDOCK, "run", "--profile", PROFILE, "--", "/bin/bash", "-c", script]
    done = subprocess.run(words, cwd=new_directory, check=False, timeout=50)
    assert done.returncode == 128 + signal.SIGKILL


LOOPBACK = "127.0.0.1"
PATIENCE_S = 50.0


def ended(connection: socket.socket) -> None:
    """Wait until the other end has closed a connection, whatever is left in it."""
    with suppress(ConnectionResetError):
        while connection.recv(1 << 16):
            pass


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_killed_proxy_leaves_nothing_of_itself_and_its_connections(
    number: signal.Signals, new_directory: Path
) -> None:
    kept = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    own = dict.fromkeys(("HOME", "TMPDIR", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"), str(new_directory))
    with ExitStack() as stack:
        origin = stack.enter_context(socket.create_server((LOOPBACK, 0)))
        host = f"{LOOPBACK}:{origin.getsockname()[1]}"
        words = [PADDOCK, "proxy", "--allow-host", host, "--allow-local"]
        proxy = stack.enter_context(
            subprocess.Popen(words, cwd=new_directory, env=kept | own, stdout=subprocess.PIPE, text=True)
        )
        assert proxy.stdout is not None
        port = int(proxy.stdout.readline().rpartition(":")[2])

        def said(words: bytes) -> socket.socket:
            client = socket.create_connection((LOOPBACK, port), PATIENCE_S)
            client.sendall(words)
            return stack.enter_context(client)

        def reached() -> socket.socket:
            server, _ = origin.accept()
            server.settimeout(PATIENCE_S)
            return stack.enter_context(server)

        silent = said(b"")
        tunnel = said(f"CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert tunnel.recv(100).startswith(b"HTTP/1.1 200")
        # Nobody reads what comes here, so that it waits in the proxy.
        behind_tunnel = reached()
        behind_tunnel.setblocking(False)
        with suppress(BlockingIOError):
            while behind_tunnel.send(bytes(1 << 16)):
                pass
        behind_tunnel.settimeout(PATIENCE_S)
        # Half of a body.
        upload = said(f"POST http://{host}/ HTTP/1.1\r\nHost: {host}\r\nContent-Length: 9\r\n\r\nx".encode())
        connections = [silent, tunnel, behind_tunnel, upload, reached()]
        assert network_of(proxy.pid) == network_of(os.getpid())
        family = [proxy.pid, *descendants_of(proxy.pid)]
        proxy.send_signal(number)
        assert proxy.wait(PATIENCE_S) == (0 if number is signal.SIGTERM else -number)
        assert not any(Path(f"/proc/{pid}").exists() for pid in family)
        for connection in connections:
            ended(connection)
        # The port is free.
        stack.enter_context(socket.create_server((LOOPBACK, port)))
    assert os.listdir(new_directory) == []
