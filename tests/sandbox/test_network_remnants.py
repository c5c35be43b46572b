"""A command with a proxy, its server or its launcher killed at some moment: nothing of it is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

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
    door = f"unix://{new_directory}/door"
    with subprocess.Popen([PADDOCK, "serve", "--listen", door], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline().strip() == door
        words = [PADDOCK, "run", "--url", door, "--reconnect", "0", "--profile", PROFILE]
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
