"""Which server a command line means: by name, by the environment, or the only one there is."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from paddock.cli.server_choice import token_for
from tests.operators import PADDOCK, PATIENCE_S, Operator, new_operator
from tests.serving import ServerProcess

TOKEN = "correct-horse-battery-staple"


@pytest.fixture
def guarded(operator: Operator, tmp_path: Path) -> Iterator[ServerProcess]:
    """A server that asks for a token and takes operators over the network."""
    token_file = tmp_path / "token"
    token_file.write_text(TOKEN)
    token_file.chmod(0o600)
    config = tmp_path / "paddock.toml"
    config.write_text("network_operators = true\ncontrol_socket = false\n")
    flags = ("--ws-auth", "capability-token", "--ws-token-file", str(token_file))
    with operator.serving("--config", str(config), *flags) as server:
        yield server


def paddock(operator: Operator, *arguments: str, **env: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [*PADDOCK, *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        env=os.environ | operator.env | env,
    )
    return done.returncode, done.stdout, done.stderr


def test_the_environment_names_server_and_token_for_all_verbs(
    operator: Operator, guarded: ServerProcess, tmp_path: Path
) -> None:
    env = {"PADDOCK_URL": guarded.url, "PADDOCK_TOKEN": TOKEN}
    (tmp_path / "here").write_text("content")
    assert paddock(operator, "run", "--", "echo", "hello", **env) == (0, "hello\n", "")
    status, process_id, _ = paddock(operator, "run", "--detach", "--tty", "--", "cat", **env)
    process_id = process_id.strip()
    assert status == 0
    assert paddock(operator, "ps", "--quiet", **env) == (0, f"{process_id}\n", "")
    assert paddock(operator, "cp", str(tmp_path / "here"), f":{tmp_path}/there", **env) == (0, "", "")
    assert paddock(operator, "cat", f":{tmp_path}/there", **env) == (0, "content", "")
    assert "there\n" in paddock(operator, "ls", f":{tmp_path}", **env)[1]
    assert paddock(operator, "kill", process_id, **env) == (0, "", "")
    assert paddock(operator, "logs", process_id, **env)[0] == 0


@pytest.mark.parametrize(
    "words", [("run", "--", "true"), ("ps",), ("attach", "x"), ("kill", "x"), ("ls", ":/"), ("cat", ":/x")]
)
def test_address_that_is_of_the_environment_is_told_to_be(operator: Operator, words: tuple[str, ...]) -> None:
    env = {"PADDOCK_URL": "ws://127.0.0.1:1"}
    refused = f"paddock {words[0]}: can't connect to ws://127.0.0.1:1: connection refused"
    assert paddock(operator, *words, **env)[2] == f"{refused} (the address is that of PADDOCK_URL)\n"


def test_address_that_the_user_gave_needs_no_explanation(operator: Operator) -> None:
    given = paddock(
        operator, "run", "--url", "ws://127.0.0.1:1", "--", "true", PADDOCK_URL="ws://127.0.0.1:2"
    )
    assert given[2] == "paddock run: can't connect to ws://127.0.0.1:1: connection refused\n"


def test_operators_over_the_network_need_the_token_and_the_servers_consent(
    operator: Operator, guarded: ServerProcess, tmp_path: Path
) -> None:
    token_file = str(tmp_path / "token")
    _, process_id, _ = paddock(
        operator, "run", "--url", guarded.url, "--token-file", token_file, "--detach", "--tty", "--", "cat"
    )
    process_id = process_id.strip()
    with new_operator() as stranger:
        status, _, problem = paddock(stranger, "ps", "--url", guarded.url)
    assert status == 1
    assert "401" in problem
    with operator.terminal("attach", "--url", guarded.url, "--token-file", token_file, process_id) as screen:
        screen.type(b"over the network\n")
        screen.read_until(b"over the network\r\nover the network\r\n")
        screen.type(b"\x1c")
        assert screen.wait() == 0
    told = paddock(operator, "logs", "--url", guarded.url, "--token-file", token_file, process_id)
    assert told == (0, "over the network\nover the network\n", "")
    with operator.serving() as unwilling, new_operator() as stranger:
        status, _, problem = paddock(stranger, "ps", "--url", unwilling.url)
        assert status == 1
        assert "network_operators" in problem


def test_a_server_of_ones_own_named_by_its_url_is_operated_over_its_control_socket(
    operator: Operator,
) -> None:
    with operator.serving() as one, operator.serving():
        process_id = operator.detach("--url", one.url, "--", "sleep", "1000")
        operator.env["PADDOCK_URL"] = one.url
        assert process_id in paddock(operator, "ps")[1]
        assert paddock(operator, "kill", process_id)[0] == 0


def test_network_operators_without_a_token_are_refused(operator: Operator, tmp_path: Path) -> None:
    config = tmp_path / "paddock.toml"
    config.write_text("\nnetwork_operators = true\n")
    status, _, problem = paddock(operator, "serve", "--config", str(config))
    assert status == 1
    assert f"{config}:2: setting 'network_operators': needs ws_auth" in problem


def test_the_only_server_is_found_without_a_name_and_two_are_not_guessed_between(
    operator: Operator, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("content")
    assert "you have no lasting server; start one" in paddock(operator, "cat", f":{tmp_path}/file")[2]
    with operator.serving():
        assert paddock(operator, "cat", f":{tmp_path}/file") == (0, "content", "")
        assert paddock(operator, "run", "--server", "--", "echo", "hello") == (0, "hello\n", "")
        with operator.serving():
            status, _, problem = paddock(operator, "run", "--server", "--", "true")
            assert status == 125
            assert "several servers are running; choose one with --server: " in problem
            status, _, problem = paddock(operator, "cat", f":{tmp_path}/file")
            assert status == 1
            assert "several servers are running; name one by its URL, or in $PADDOCK_URL: " in problem


def test_the_token_of_the_environment_is_shown_to_its_server_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_TOKEN", TOKEN)
    monkeypatch.delenv("PADDOCK_URL", raising=False)
    assert token_for("ws://one:1", None) == TOKEN
    assert token_for("unix:///run/x", None) is None
    monkeypatch.setenv("PADDOCK_URL", "ws://one:1")
    assert token_for("ws://one:1", None) == TOKEN
    assert token_for("ws://two:1", None) is None
