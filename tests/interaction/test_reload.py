"""SIGHUP: a server takes its settings over again, or ends with its terminal."""

from __future__ import annotations

import os
import shlex
import signal
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from websockets.sync.client import connect

import paddock
from tests import tls
from tests.interaction.test_listeners import TOKEN, call, initialize, private, refusal
from tests.interaction.test_server_end import PATIENCE_S, STUBBORN
from tests.operators import PADDOCK, new_operator, terminal
from tests.processes import descendants_of, has_ended, watched
from tests.serving import ServerProcess, serving

OTHER_TOKEN = "a-staple-of-another-battery-horse"
RELOADED = "settings reloaded"


def reload(server: ServerProcess, until: str = RELOADED) -> str:
    """Send the signal, and return the log up to the line that tells what came of it."""
    os.kill(server.pid, signal.SIGHUP)
    lines = ""
    while until not in lines:
        line = server.next_line()
        assert line, lines
        lines += line
    return lines


@contextmanager
def configured(tmp_path: Path, text: str) -> Iterator[tuple[ServerProcess, Path]]:
    """A server with this file of settings, which logs what it does."""
    config = tmp_path / "paddock.toml"
    config.write_text(text)
    with serving("--config", str(config)) as server:
        yield server, config


def test_a_new_token_is_asked_for_and_open_connections_stay(tmp_path: Path) -> None:
    token_file = tmp_path / "token"
    private(token_file, TOKEN)
    settings = f'log_level = "info"\nws_auth = "capability-token"\nws_token_file = "{token_file}"\n'
    with (
        configured(tmp_path, settings) as (server, _),
        connect(server.url, additional_headers={"Authorization": f"Bearer {TOKEN}"}) as before,
    ):
        initialize(before)
        private(token_file, OTHER_TOKEN)

        reload(server)

        assert refusal(server.url, TOKEN)[0] == 401
        with connect(server.url, additional_headers={"Authorization": f"Bearer {OTHER_TOKEN}"}) as after:
            initialize(after)
        assert call(before, "environment/info", {})


def test_a_new_certificate_is_shown(tmp_path: Path) -> None:
    cert = tmp_path / "cert.pem"
    key = tmp_path / "key.pem"
    cert.write_bytes(tls.CERT.read_bytes())
    private(key, tls.KEY.read_text())
    settings = f'log_level = "info"\ntls_cert = "{cert}"\ntls_key = "{key}"\n'
    with configured(tmp_path, settings) as (server, _):
        cert.write_bytes(tls.OTHER_CERT.read_bytes())
        private(key, tls.OTHER_KEY.read_text())

        reload(server)

        other = ssl.create_default_context(cafile=tls.OTHER_CERT)
        with connect(server.url, ssl=other) as connection:
            initialize(connection)
        with pytest.raises(ssl.SSLCertVerificationError):
            connect(server.url, ssl=tls.client_context())


async def test_profiles_and_their_cap_hold_for_clients_that_were_there(tmp_path: Path) -> None:
    settings = 'log_level = "info"\n[permissions.mine]\nextends = ":read-only"\n'
    with configured(tmp_path, settings) as (server, config):
        async with paddock.connect(server.url) as box:
            with pytest.raises(paddock.RequestError, match="yours"):
                await box.run(["true"], sandbox="yours")
            config.write_text('log_level = "info"\n[permissions.yours]\nextends = ":read-only"\n')
            reload(server)
            assert (await box.run(["true"], sandbox="yours")).returncode == 0
            with pytest.raises(paddock.RequestError, match="mine"):
                await box.run(["true"], sandbox="mine")

            config.write_text('log_level = "info"\nmax_profile = ":read-only"\n')
            reload(server)

            with pytest.raises(paddock.RequestError, match="read-only"):
                await box.run(["true"])
            with pytest.raises(paddock.RequestError, match="read-only"):
                await box.run(["true"], sandbox=":workspace", cwd=str(tmp_path))
            with pytest.raises(paddock.RequestError, match="read-only"):
                await box.path(tmp_path / "new").write_text("no")
            assert (await box.run(["true"], sandbox=":read-only")).returncode == 0


def test_the_log_level_follows_the_file_and_a_restart_is_asked_for_where_it_takes_one(tmp_path: Path) -> None:
    with configured(tmp_path, 'log_level = "info"\n') as (server, config):
        config.write_text('log_level = "debug"\nmax_connections = 3\n')
        log = reload(server)
        assert 'some settings need a restart settings=["max_connections"]' in log
        assert "log_level" in log
        with connect(server.url) as connection:
            initialize(connection)
        assert "request answered" in server.stop()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('listne = "x"\n', "no such setting"),
        ('ws_auth = "capability-token"\nws_token_file = "/nonexistent/token"\n', "can't be read"),
        ('[permissions.mine]\nextends = ":nothing"\n', "permissions.mine"),
        ('tls_cert = "c.pem"\ntls_key = "k.pem"\n', "without a restart"),
    ],
)
def test_what_can_not_be_taken_over_leaves_everything_as_it_was(
    tmp_path: Path, text: str, reason: str
) -> None:
    token_file = tmp_path / "token"
    private(token_file, TOKEN)
    good = f'log_level = "info"\nws_auth = "capability-token"\nws_token_file = "{token_file}"\n'
    with configured(tmp_path, good) as (server, config):
        config.write_text(text)

        assert reason in reload(server, until="settings not reloaded")

        assert refusal(server.url, OTHER_TOKEN)[0] == 401
        with connect(server.url, additional_headers={"Authorization": f"Bearer {TOKEN}"}) as connection:
            initialize(connection)


# --- the terminal ------------------------------------------------------------


def test_a_server_ends_with_its_terminal_and_everything_it_started_too() -> None:
    with (
        new_operator() as operator,
        terminal([*PADDOCK, "serve"], env=operator.env) as screen,
    ):
        screen.read_until(b"try: ")
        operator.detach("--", "sh", "-c", STUBBORN)
        (below,) = [pid for pid in descendants_of(screen.child.pid) if b"trap" in _command_line(pid)]
        with watched(below) as pidfd:
            screen.hang_up()

            assert screen.wait() == 0
            assert has_ended(pidfd, PATIENCE_S)


def test_a_job_of_a_shell_ends_with_the_shell() -> None:
    script = f"{shlex.join([*PADDOCK, 'serve'])}; true"
    with new_operator() as operator, terminal(["sh", "-c", script], env=operator.env) as screen:
        screen.read_until(b"try: ")
        (server,) = [pid for pid in descendants_of(screen.child.pid) if b"serve" in _command_line(pid)]
        with watched(server) as pidfd:
            screen.child.kill()

            assert has_ended(pidfd, PATIENCE_S)


def test_a_server_with_a_terminal_reloads_and_one_under_nohup_outlives_it(tmp_path: Path) -> None:
    config = tmp_path / "paddock.toml"
    config.write_text('log_level = "info"\n')
    log = tmp_path / "log"
    command = shlex.join([*PADDOCK, "serve", "--config", str(config)])
    with new_operator() as operator:
        with terminal([*PADDOCK, "serve", "--config", str(config)], env=operator.env) as screen:
            screen.read_until(b"try: ")
            screen.child.send_signal(signal.SIGHUP)
            screen.read_until(RELOADED.encode())
            assert screen.child.poll() is None
        os.mkfifo(log)
        shell = f"exec nohup {command} > /dev/null 2> {log}"
        with terminal(["sh", "-c", shell], env=operator.env) as screen, log.open() as lines:
            while "try: " not in lines.readline():
                pass
            screen.hang_up()
            # The kernel's signal means a reload to it.
            while RELOADED not in lines.readline():
                pass
            assert operator.output("run", "--detach", "--", "true")


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
