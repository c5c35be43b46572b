"""A server as a service: what it tells its manager and its operators."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import pytest

import paddock
from tests.operators import PADDOCK, PATIENCE_S
from tests.serving import serving, without_bubblewrap

ROOT = Path(__file__).resolve().parents[2]
UNIT = ROOT / "packaging" / "paddock.service"


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    """Where a server tells what it does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(PATIENCE_S)
        yield manager


def told(manager: socket.socket, wanted: str) -> list[str]:
    """The next message that has this assignment."""
    while True:
        message = manager.recv(4096).decode().split("\n")
        if wanted in message:
            return message


def test_the_manager_learns_of_start_life_reload_and_end(manager: socket.socket) -> None:
    env = {"NOTIFY_SOCKET": str(manager.getsockname()), "WATCHDOG_USEC": "200000"}
    with serving(env=env) as server:
        assert told(manager, "READY=1")[1] == f"STATUS=Listening on {server.url}"
        told(manager, "WATCHDOG=1")
        told(manager, "WATCHDOG=1")

        os.kill(server.pid, signal.SIGHUP)

        assert told(manager, "RELOADING=1")[1].startswith("MONOTONIC_USEC=")
        told(manager, "READY=1")
        server.stop()
        told(manager, "STOPPING=1")


async def test_commands_can_not_speak_to_the_manager(manager: socket.socket) -> None:
    env = {"NOTIFY_SOCKET": str(manager.getsockname()), "WATCHDOG_USEC": "5000000", "WATCHDOG_PID": "1"}
    with serving(env=env) as server:
        async with paddock.connect(server.url) as box:
            names = (await box.run(["env"], text=True)).stdout
    assert "NOTIFY" not in names
    assert "WATCHDOG" not in names


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "paddock.service"
    # It wants the program to be there.
    unit.write_text(UNIT.read_text().replace("/usr/local/bin/paddock", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_unit_starts_a_server_as_it_is_documented() -> None:
    text = UNIT.read_text()
    assert "\nType=notify\n" in text
    assert "\nWatchdogSec=" in text
    assert "\nExecReload=/bin/kill -HUP $MAINPID\n" in text


# --- readiness ---------------------------------------------------------------


def answer_of(url: str, path: str) -> tuple[int, str]:
    """What a health check gets."""
    connection = HTTPConnection(url.removeprefix("ws://"), timeout=PATIENCE_S)
    with closing(connection):
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def test_a_server_that_must_confine_and_can_not_is_not_ready(tmp_path: Path) -> None:
    config = tmp_path / "paddock.toml"
    config.write_text("require_sandbox = true\n")
    with serving("--config", str(config), env=without_bubblewrap()) as server:
        while "no sandboxes can be made" not in (line := server.next_line()):
            assert line
        status, text = answer_of(server.url, "/readyz")
        assert status == 503
        assert "no command can be started: everything must be confined" in text
        assert answer_of(server.url, "/healthz") == (200, "ok\n")
    with serving() as server:
        assert answer_of(server.url, "/readyz") == (200, "ok\n")


# --- settings and listeners ----------------------------------------------------


def checked(file: Path, text: str) -> subprocess.CompletedProcess[str]:
    file.write_text(text)
    return subprocess.run(
        [*PADDOCK, "config", "check", str(file)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_good_settings_are_told_with_who_could_connect(tmp_path: Path) -> None:
    file = tmp_path / "paddock.toml"
    done = checked(file, 'listen = "unix:///run/paddock.sock"\nlog_level = "debug"\n')
    told = f"{file}: good; would listen on unix:///run/paddock.sock: only its own user can connect\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, told, "")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "\nsesion_ttl_s = 3\n",
            ":2: setting 'sesion_ttl_s': there is no such setting; did you mean 's",
        ),
        ('log_level = "loud"\n', ":1: setting 'log_level': expected debug or info or warning or error"),
        ('\n\n[permissions.a]\nextends = ":b"\n', ":4: setting 'permissions.a.extends': "),
        ('ws_auth = "capability-token"\n', ":1: setting 'ws_auth': "),
        ('listen = "ws://0.0.0.0:0"\n', "other machines can reach this address"),
        ("listen = \n", "is not valid TOML"),
    ],
)
def test_bad_settings_are_told_with_their_place(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "paddock.toml"
    done = checked(file, text)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("paddock config check: ")
    assert problem in done.stderr


def test_a_server_without_a_token_says_who_can_connect() -> None:
    with serving() as server:
        line = server.next_line()
    assert line == (
        "paddock serve: listening: every user and program on this machine can connect, without a token\n"
    )
