"""`paddock mcp` follows its user's rules. At SIGHUP it reads rules, token and certificate again, or ends."""

from __future__ import annotations

import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from paddock.agent.command_rules import CommandRules
from paddock.model.decision import Action
from paddock.rules.loader import load_sound_policy
from tests import tls
from tests.interaction.test_listeners import TOKEN, private
from tests.interaction.test_reload import OTHER_TOKEN
from tests.mcp_client import RawStdio, rules_file
from tests.operators import terminal
from tests.serving import serving

FORBIDDEN = 'prefix_rule(pattern=["whoami"], decision="forbidden", justification="private")\n'
ALLOWED = 'prefix_rule(pattern=["whoami"], decision="allow")\n'


async def status_of(server: RawStdio, number: int, workspace: Path) -> str:
    """Return the exit status of a program that the rules are about."""
    arguments = {"command": "whoami > /dev/null; echo $?", "workdir": str(workspace)}
    answer = await server.ask(number, "tools/call", name="shell", arguments=arguments)
    return str(answer["result"]["structuredContent"]["stdout"]).strip()


async def test_changed_rules_hold_for_a_client_that_was_there(workspace: Path, tmp_path: Path) -> None:
    rules = rules_file(tmp_path, FORBIDDEN)
    with serving() as backend:
        arguments = ("--server", backend.url, "--workspace", workspace, "--rules", rules)
        async with RawStdio(*arguments, hears=True) as server:
            assert await status_of(server, 1, workspace) == "1"
            rules.write_text(ALLOWED)
            assert await server.heard_after(signal.SIGHUP) == (
                "paddock mcp: reloaded: the rules (1 about programs)\n"
            )
            assert await status_of(server, 2, workspace) == "0"

            rules.write_text("prefix_rule(\n")
            heard = await server.heard_after(signal.SIGHUP)
            assert heard.startswith("paddock mcp: not reloaded, everything stays as it was: ")
            assert await status_of(server, 3, workspace) == "0"
    assert server.status == 0


async def test_rules_of_the_user_hold_as_soon_as_they_are_written(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    directory = tmp_path / "paddock" / "rules"
    with serving() as backend:
        async with RawStdio("--server", backend.url, "--workspace", workspace, hears=True) as server:
            assert await status_of(server, 1, workspace) == "0"

            directory.mkdir(parents=True)
            rules_file(directory, FORBIDDEN)
            number = 2
            while await status_of(server, number, workspace) == "0":
                number += 1

            rules_file(directory, "prefix_rule(\n")
            assert (await server.heard()).startswith("paddock mcp: rules broken")
    assert server.status == 0


@contextmanager
def listening(url: str, *arguments: str | Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`paddock mcp --listen`, and where it listens."""
    command = [sys.executable, "-P", "-m", "paddock", "mcp", "--listen", url, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server, server.stdout.readline().strip()
        finally:
            server.terminate()


def reload(server: subprocess.Popen[str]) -> str:
    """Send the signal, and return what the server says of it."""
    server.send_signal(signal.SIGHUP)
    assert server.stderr is not None
    return server.stderr.readline()


def status_with(token: str, url: str, trusted: ssl.SSLContext | bool = True) -> int:
    """Return the status of a request, which is a bad one for anybody who may come in."""
    answer = httpx2.post(url, json={}, headers={"Authorization": f"Bearer {token}"}, verify=trusted)
    return answer.status_code


def test_a_new_token_is_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "token"
    private(file, TOKEN)
    rules = rules_file(tmp_path, ALLOWED)
    arguments = ("--listen-token-file", file, "--rules", rules)
    with listening("http://127.0.0.1:0", *arguments) as (server, url):
        assert status_with(TOKEN, url) == 400
        private(file, OTHER_TOKEN)
        assert reload(server) == "paddock mcp: reloaded: the rules (1 about programs), the token\n"
        assert (status_with(TOKEN, url), status_with(OTHER_TOKEN, url)) == (401, 400)

        file.unlink()
        assert "everything stays as it was: --listen-token-file: " in reload(server)
        assert (status_with(TOKEN, url), status_with(OTHER_TOKEN, url)) == (401, 400)


def test_a_new_certificate_is_shown(tmp_path: Path) -> None:
    token, cert, key = (tmp_path / name for name in ("token", "cert.pem", "key.pem"))
    private(token, TOKEN)
    cert.write_bytes(tls.CERT.read_bytes())
    private(key, tls.KEY.read_text())
    arguments = ("--listen-token-file", token, "--tls-cert", cert, "--tls-key", key)
    with listening("https://127.0.0.1:0", *arguments, "--rules", rules_file(tmp_path, ALLOWED)) as (
        server,
        url,
    ):
        other = ssl.create_default_context(cafile=tls.OTHER_CERT)
        assert status_with(TOKEN, url, tls.client_context()) == 400
        with pytest.raises(httpx2.ConnectError, match="certificate verify failed"):
            status_with(TOKEN, url, other)

        cert.write_bytes(tls.OTHER_CERT.read_bytes())
        # A certificate without its key is not taken over.
        assert "not the key of the certificate" in reload(server)
        assert status_with(TOKEN, url, tls.client_context()) == 400

        private(key, tls.OTHER_KEY.read_text())
        assert reload(server).endswith(" (1 about programs), the token, the certificate\n")
        assert status_with(TOKEN, url, other) == 400
        with pytest.raises(httpx2.ConnectError, match="certificate verify failed"):
            status_with(TOKEN, url, tls.client_context())


def test_it_ends_with_its_terminal(workspace: Path) -> None:
    command = [sys.executable, "-P", "-m", "paddock", "mcp", "--listen", "http://127.0.0.1:0"]
    with terminal([*command, "--workspace", str(workspace)]) as screen:
        screen.read_until(b"http://127.0.0.1:")
        screen.read_until(b"\n")
        screen.hang_up()
        assert screen.wait() == 0


def test_what_was_allowed_for_always_stays_unless_a_file_holds_it(tmp_path: Path) -> None:
    allowed = load_sound_policy([rules_file(tmp_path, ALLOWED)])
    forbidden = load_sound_policy([rules_file(tmp_path, FORBIDDEN)])
    in_memory = CommandRules(forbidden)
    in_memory.allow(["git", "status"])
    in_memory.renew(allowed)
    assert in_memory.policy.decide(["git", "status"], "/").action is Action.ALLOW
    assert in_memory.policy.decide(["whoami"], "/").action is Action.ALLOW
    in_a_file = CommandRules(forbidden, tmp_path / "always.rules")
    in_a_file.allow(["git", "status"])
    in_a_file.renew(allowed)
    assert in_a_file.policy.decide(["git", "status"], "/").action is None
