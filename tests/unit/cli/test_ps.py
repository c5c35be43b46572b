"""`paddock ps` beside real servers."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess

import pytest

import paddock
from paddock.transport.runtime_directory import socket_paths
from tests.operators import PADDOCK, PATIENCE_S, Operator

HEADER = "ID  PID  STATE  SESSION  AGE  OUTPUT  CLIENT  SERVER  COMMAND\n"


def rows(text: str) -> dict[str, list[str]]:
    """The lines of a table by their first column."""
    lines = [re.split("  +", line) for line in text.splitlines()[1:]]
    return {line[0]: line for line in lines}


def test_without_a_server_that_is_said_and_is_no_failure(operator: Operator) -> None:
    done = operator.paddock("ps")
    assert (done.returncode, done.stdout) == (0, b"")
    assert done.stderr == b"paddock ps: you have no server running; start one with `paddock serve`\n"
    assert json.loads(operator.output("ps", "--json")) == {"servers": []}
    assert operator.output("ps", "--quiet") == ""


def test_a_server_without_processes_has_an_empty_table(operator: Operator) -> None:
    with operator.serving():
        assert operator.output("ps") == HEADER


async def test_the_processes_of_all_sessions_on_all_servers_are_listed(operator: Operator) -> None:
    def compare(first_pid: int, second_pid: int) -> None:
        listed = rows(operator.output("ps"))
        assert set(listed) == {"one", "two", "kept"}
        assert listed["one"][2:4] == ["running", "attached"]
        assert listed["kept"][3] == "kept"
        assert [listed[name][6:8] for name in ("one", "two", "kept")] == [
            ["agent-1", str(first_pid)],
            ["agent-2", str(first_pid)],
            ["gone", str(second_pid)],
        ]
        assert listed["one"][8:] == ["sleep 1000"]
        every = rows(operator.output("ps", "--all"))
        assert every["done"][2] == "exited 7"
        assert set(operator.output("ps", "--quiet").split()) == {"one", "two", "kept"}
        assert set(operator.output("ps", "-q", "--server", str(second_pid)).split()) == {"kept"}

    with operator.serving() as first, operator.serving() as second:
        async with paddock.connect(second.url, client_name="gone") as leaving:
            await leaving.start(["sleep", "1000"], process_id="kept", keep_alive=True)
        async with (
            paddock.connect(first.url, client_name="agent-1") as box,
            paddock.connect(first.url, client_name="agent-2") as other,
        ):
            await box.start(["sleep", "1000"], process_id="one")
            await other.start(["sleep", "1000"], process_id="two")
            done = await other.start(["sh", "-c", "exit 7"], process_id="done")
            await done.wait()
            await asyncio.to_thread(
                operator.await_process, "kept", lambda process: not process["session"]["attached"]
            )
            await asyncio.to_thread(compare, first.pid, second.pid)


async def test_json_tells_everything_about_servers_sessions_and_processes(operator: Operator) -> None:
    with operator.serving() as server:
        async with paddock.connect(server.url, client_name="agent") as box:
            process = await box.start(["sh", "-c", "echo hi; exec sleep 1000"], process_id="p", cwd="/tmp")
            await anext(aiter(process))
            told = json.loads(await asyncio.to_thread(operator.output, "ps", "--json"))

            (about,) = told["servers"]
            assert (about["pid"], about["url"], about["version"]) == (
                server.pid,
                server.url,
                paddock.__version__,
            )
            assert about["controlSocket"] == str(socket_paths(operator.runtime)[0])
            (session,) = about["sessions"]
            assert (session["sessionId"], session["clientName"]) == (box.session_id, "agent")
            (listed,) = session["processes"]
            assert (listed["processId"], listed["outputBytes"], listed["tty"]) == ("p", 3, False)
            assert listed["argv"] == ["sh", "-c", "echo hi; exec sleep 1000"]


async def test_a_private_server_is_seen_while_its_client_lives(operator: Operator) -> None:
    command = [*PADDOCK, "run", "--", "sh", "-c", "echo ready; read x"]
    child = await asyncio.create_subprocess_exec(
        *command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | operator.env
    )
    assert child.stdout is not None
    assert child.stdin is not None
    assert await child.stdout.readline() == b"ready\n"
    listed = rows(await asyncio.to_thread(operator.output, "ps"))
    (process,) = listed.values()
    assert process[3] == "attached"
    assert process[6] == "paddock-run"
    child.stdin.close()
    assert await child.wait() == 1, "the read at the end of the input fails"
    assert socket_paths(operator.runtime) == []


async def test_ids_of_the_same_text_are_shown_with_their_sessions(operator: Operator) -> None:
    with operator.serving() as server:
        async with paddock.connect(server.url) as box, paddock.connect(server.url) as other:
            await box.start(["sleep", "1000"], process_id="1")
            await other.start(["sleep", "1000"], process_id="1")
            shown = (await asyncio.to_thread(operator.output, "ps", "--quiet")).split()
            assert set(shown) == {f"{each.session_id[:8]}/1" for each in (box, other)}


async def test_names_and_arguments_can_not_act_on_the_terminal(operator: Operator) -> None:
    with operator.serving() as server:
        async with paddock.connect(server.url, client_name="\x1b]0;owned\x07") as box:
            await box.start(["sh", "-c", "sleep 1000", "\x1b[2J"], process_id="\x1b[31m")
            for arguments in (("ps",), ("ps", "-q")):
                text = await asyncio.to_thread(operator.output, *arguments)
                assert text.replace("\n", "").isprintable()
                assert "\\u001b[31m" in text
            await asyncio.to_thread(operator.output, "kill", "\\u001b[31m")


def test_what_dead_servers_left_is_removed_and_not_told_of(operator: Operator) -> None:
    with operator.serving() as server:
        os.kill(server.pid, signal.SIGKILL)
    (stale,) = socket_paths(operator.runtime)
    assert (
        operator.paddock("ps").stderr
        == b"paddock ps: you have no server running; start one with `paddock serve`\n"
    )
    assert not stale.exists()


def test_a_server_that_does_not_answer_hides_no_other(operator: Operator) -> None:
    with operator.serving() as stuck, operator.serving():
        os.kill(stuck.pid, signal.SIGSTOP)
        try:
            done = operator.paddock("ps")
        finally:
            os.kill(stuck.pid, signal.SIGCONT)
    assert (done.returncode, done.stdout.decode()) == (0, HEADER)
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith("paddock: can't connect to unix://")
    assert f"/{stuck.pid}-" in line
    assert line.endswith("no answer within 5 s")


@pytest.mark.parametrize("form", [(), ("-q",), ("--json",)])
def test_a_server_that_does_not_answer_does_not_count_as_none(
    operator: Operator, form: tuple[str, ...]
) -> None:
    with operator.serving() as stuck:
        os.kill(stuck.pid, signal.SIGSTOP)
        try:
            done = operator.paddock("ps", *form)
        finally:
            os.kill(stuck.pid, signal.SIGCONT)
    assert done.returncode == 1
    (line,) = done.stderr.decode().splitlines()
    assert line.endswith("no answer within 5 s")


def test_a_server_can_be_named_by_pid_or_by_the_path_of_its_socket(operator: Operator) -> None:
    with operator.serving() as server:
        (path,) = socket_paths(operator.runtime)
        assert operator.output("ps", "--server", str(server.pid)) == HEADER
        assert operator.output("ps", "--server", str(path)) == HEADER
        for wrong, reason in (
            ("1", "no server with pid '1'; `paddock doctor` lists the servers"),
            ("./nothing", "can't connect to unix://"),
        ):
            done = operator.paddock("ps", "--server", wrong)
            assert (done.returncode, done.stdout) == (1, b"")
            (line,) = done.stderr.decode().splitlines()
            assert line.startswith(f"paddock ps: {reason}")


def test_a_reader_that_leaves_early_is_no_reason_to_complain(operator: Operator) -> None:
    with operator.serving():
        done = subprocess.run(
            ["sh", "-c", '"$@" | true', "sh", *PADDOCK, "ps", "--json"],
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
            env=os.environ | operator.env,
        )
    assert done.stderr == b""


@pytest.mark.parametrize(("columns", "shown"), [(40, "ID COMMAND"), (60, "ID PID STATE AGE COMMAND")])
def test_a_narrow_terminal_leaves_room_for_the_command(operator: Operator, columns: int, shown: str) -> None:
    with operator.serving():
        operator.detach("--", "sleep", "1000", "2000", "3000", "40")
        with operator.terminal("ps", cols=columns) as screen:
            seen = screen.read_until(b"40\r\n").decode()
            assert screen.wait() == 0
    header, line = seen.splitlines()
    assert header.split() == shown.split()
    assert line.endswith("sleep 1000 2000 3000 40")
    assert len(line) <= columns


def test_colour_is_only_for_terminals_and_only_for_what_has_ended(operator: Operator) -> None:
    with operator.serving():
        process_id = operator.detach("--", "sh", "-c", "exit 3")
        operator.await_process(process_id, lambda process: not process["running"])
        assert "\x1b" not in operator.output("ps", "--all")
        with operator.terminal("ps", "--all") as screen:
            assert b"\x1b[31m" in screen.read_until(b"\x1b[0m")
            assert screen.wait() == 0
