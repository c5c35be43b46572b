"""`paddock run --detach` and `--server`, beside real servers."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.operators import PADDOCK, Operator


def test_a_detached_command_runs_here_and_stays_and_its_id_is_all_that_is_printed(
    operator: Operator, tmp_path: Path
) -> None:
    with operator.serving():
        done = subprocess.run(
            [*PADDOCK, "run", "-d", "--env", "A=1", "--", "sh", "-c", "pwd; echo $A; cat; exec sleep 1000"],
            capture_output=True,
            check=True,
            cwd=tmp_path,
            env=os.environ | operator.env,
        )
        process_id = done.stdout.decode().strip()
        assert done.stderr == b""
        wanted = f"{tmp_path}\n1\n".encode()
        process = operator.await_process(process_id, lambda process: process["outputBytes"] == len(wanted))
        assert (process["running"], process["keepAlive"], process["tty"]) == (True, True, False)
        operator.await_process(process_id, lambda process: not process["session"]["attached"])
        assert operator.output("logs", process_id).encode() == wanted


def test_the_url_of_a_server_serves_as_well(operator: Operator) -> None:
    with operator.serving() as first, operator.serving():
        process_id = operator.detach("--url", first.url, "--", "sleep", "1000")
        assert operator.process(process_id)["server"]["url"] == first.url


def test_without_a_lasting_server_nothing_is_started_and_the_way_out_is_told(operator: Operator) -> None:
    # A private server is running, and would take the command with it when it ends.
    with operator.terminal("run", "--", "sh", "-c", "echo ready; read x") as screen:
        screen.read_until(b"ready")
        done = operator.paddock("run", "--detach", "--", "sleep", "1000")
        assert (done.returncode, done.stdout) == (125, b"")
        assert done.stderr.decode() == (
            "paddock run: you have no lasting server; start one with `paddock serve`, or name one in "
            "$PADDOCK_URL\n"
        )
        (private,) = {process["server"]["pid"] for process in operator.status()}
        process_id = operator.detach("--server", str(private), "--", "sleep", "1000")
        assert operator.process(process_id)["running"]


def test_among_several_servers_one_must_be_chosen(operator: Operator) -> None:
    with operator.serving() as first, operator.serving() as second:
        done = operator.paddock("run", "--detach", "--", "true")
        assert done.returncode == 125
        text = done.stderr.decode()
        assert text.startswith("paddock run: several servers are running; choose one with --server: ")
        assert all(f"{server.pid} ({server.url})" in text for server in (first, second))
        process_id = operator.detach("--server", str(second.pid), "--", "sleep", "1000")
        assert operator.process(process_id)["server"]["pid"] == second.pid


def test_a_command_can_run_in_front_on_a_server_of_this_user(operator: Operator, tmp_path: Path) -> None:
    with operator.serving() as server:
        done = subprocess.run(
            [*PADDOCK, "run", "--server", str(server.pid), "--", "sh", "-c", "pwd; exit 5"],
            capture_output=True,
            check=False,
            cwd=tmp_path,
            env=os.environ | operator.env,
        )
        assert (done.returncode, done.stdout.decode(), done.stderr) == (5, f"{tmp_path}\n", b"")


def test_a_command_that_can_not_be_started_is_not_detached(operator: Operator) -> None:
    with operator.serving():
        done = operator.paddock("run", "--detach", "--", "no-such-program")
        assert (done.returncode, done.stdout) == (127, b"")
        assert done.stderr.startswith(b"paddock run: can't start 'no-such-program'")


def test_options_for_another_server_need_its_url(operator: Operator) -> None:
    done = operator.paddock("run", "--token-file", "x", "--", "true")
    assert done.returncode == 2
    assert b"--token-file and --tls-ca go with --url" in done.stderr


def test_a_token_is_read_from_its_file(operator: Operator, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret-s3cret-s3cret-s3cret-s3cret\n")
    token.chmod(0o600)
    with operator.serving("--ws-auth", "capability-token", "--ws-token-file", str(token)) as server:
        assert operator.paddock("run", "--url", server.url, "--", "true").returncode == 125
        done = operator.paddock("run", "--url", server.url, "--token-file", str(token), "--", "echo", "in")
        assert (done.returncode, done.stdout, done.stderr) == (0, b"in\n", b"")
        missing = operator.paddock("run", "--url", server.url, "--token-file", "/no/token", "--", "true")
        assert (
            missing.stderr == b"paddock run: can't read the token in /no/token: No such file or directory\n"
        )
        # The control socket knows its user and asks for nothing more.
        assert operator.output("run", "--server", str(server.pid), "--", "echo", "in") == "in\n"
