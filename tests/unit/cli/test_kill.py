"""`paddock kill` beside real servers."""

from __future__ import annotations

import asyncio

import pytest

import paddock
from tests.operators import Desk
from tests.processes import has_ended, watched


def test_a_process_is_told_to_end_and_has_ended_afterwards(desk: Desk) -> None:
    with desk.serving():
        process_id = desk.detach(
            "--", "sh", "-c", "trap 'echo bye; exit 4' TERM; echo ready; sleep 1000 & wait"
        )
        desk.await_process(process_id, lambda process: process["outputBytes"] > 0)
        assert desk.output("kill", process_id) == ""
        process = desk.process(process_id)
        assert (process["running"], process["exitCode"]) == (False, 4)
        assert desk.output("logs", process_id) == "ready\nbye\n"


def test_one_that_does_not_listen_is_killed_after_its_grace(desk: Desk) -> None:
    with desk.serving():
        script = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
        process_id = desk.detach("--", "sh", "-c", script)
        desk.await_process(process_id, lambda process: process["outputBytes"] > 0)
        assert desk.output("kill", "--grace", "0.1", process_id) == ""
        assert desk.process(process_id)["exitCode"] == 137


@pytest.mark.parametrize("name", ["USR1", "SIGUSR1", "usr1"])
def test_a_signal_alone_can_be_sent(desk: Desk, name: str) -> None:
    with desk.serving():
        script = "trap 'echo told; exit 6' USR1; echo ready; sleep 1000 & wait"
        process_id = desk.detach("--", "sh", "-c", script)
        desk.await_process(process_id, lambda process: process["outputBytes"] > 0)
        assert desk.output("kill", "--signal", name, process_id) == ""
        process = desk.await_process(process_id, lambda process: not process["running"])
        assert process["exitCode"] == 6


async def test_it_reaches_sessions_with_and_without_a_client_on_every_server(desk: Desk) -> None:
    with desk.serving() as first, desk.serving() as second:
        async with paddock.connect(second.url) as leaving:
            await leaving.start(["sleep", "1000"], process_id="kept", keep_alive=True)
        async with paddock.connect(first.url) as box:
            process = await box.start(["sleep", "1000"], process_id="attached")
            await asyncio.to_thread(desk.output, "kill", "attached", "kept")
            assert await process.wait() == 143
            assert (await asyncio.to_thread(desk.process, "kept"))["running"] is False


def test_the_whole_group_goes(desk: Desk) -> None:
    with desk.serving():
        process_id = desk.detach("--", "sh", "-c", "sleep 1000 & echo $!; wait")
        desk.await_process(process_id, lambda process: process["outputBytes"] > 0)
        with watched(int(desk.output("logs", process_id))) as pidfd:
            desk.output("kill", process_id)
            assert has_ended(pidfd, 0)


@pytest.mark.parametrize("elsewhere", ["", ">/dev/null 2>&1"])
def test_what_an_ended_process_left_of_its_group_is_listed_and_ended(desk: Desk, elsewhere: str) -> None:
    with desk.serving():
        process_id = desk.detach("--", "sh", "-c", f"trap '' TERM; sleep 1000 {elsewhere} & echo $!; exit 3")
        desk.await_process(process_id, lambda process: process["survivors"] and process["outputBytes"] > 0)
        assert "exited 3, group lives" in desk.output("ps")
        assert desk.output("ps", "--quiet").strip() == process_id[:12]
        with watched(int(desk.output("logs", "--tail", "1", process_id))) as pidfd:
            assert desk.output("kill", "--signal", "CONT", process_id) == ""
            assert not has_ended(pidfd, 0)
            assert desk.output("kill", "--grace", "0.1", process_id) == ""
            assert has_ended(pidfd, 0)
        assert desk.output("ps", "--quiet") == ""
        assert "has ended already" in desk.paddock("kill", process_id).stderr.decode()


def test_what_has_ended_or_never_was_is_a_failure_that_does_not_stop_the_rest(desk: Desk) -> None:
    with desk.serving():
        ended = desk.detach("--", "true")
        desk.await_process(ended, lambda process: not process["running"])
        running = desk.detach("--", "sleep", "1000")
        done = desk.paddock("kill", ended, "nothing", running)
        assert (done.returncode, done.stdout) == (1, b"")
        assert done.stderr.decode().splitlines() == [
            f"paddock kill: process '{ended}' has ended already",
            "paddock kill: no process 'nothing'; `paddock ps --all` lists those that are known",
        ]
        assert desk.process(running)["running"] is False
        done = desk.paddock("kill", "--signal", "HUP", ended)
        assert (done.returncode, done.stderr.decode()) == (
            1,
            f"paddock kill: process '{ended}' has ended already\n",
        )


async def test_an_ambiguous_name_ends_nothing_and_lists_what_it_fits(desk: Desk) -> None:
    with desk.serving() as server:
        async with paddock.connect(server.url) as box, paddock.connect(server.url) as other:
            await box.start(["sleep", "1000"], process_id="p")
            await other.start(["sleep", "1000"], process_id="p")
            done = await asyncio.to_thread(desk.paddock, "kill", "p")
            assert done.returncode == 1
            (line,) = done.stderr.decode().splitlines()
            assert line.startswith("paddock kill: 'p' fits 2 processes; name one of: ")
            assert {f"{each.session_id}/p" for each in (box, other)} <= set(line.replace(",", "").split())
            await asyncio.to_thread(desk.output, "kill", f"{box.session_id[:8]}/p")
            assert [process["running"] for process in await asyncio.to_thread(desk.status)].count(True) == 1


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--signal", "NOPE", "p"), "'NOPE' is not a signal; expected a name such as TERM"),
        (("--grace", "-1", "p"), "'-1' is not a number of seconds"),
        (("--grace", "nan", "p"), "'nan' is not a number of seconds"),
        (("--grace", "1", "--signal", "HUP", "p"), "not allowed with argument"),
        ((), "the following arguments are required: ID"),
    ],
)
def test_a_bad_command_line_is_explained(desk: Desk, arguments: tuple[str, ...], problem: str) -> None:
    done = desk.paddock("kill", *arguments)
    assert done.returncode == 2
    assert problem in done.stderr.decode()
