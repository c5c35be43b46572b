"""`paddock kill` beside real servers."""

from __future__ import annotations

import asyncio
from signal import SIGUSR1

import pytest

import paddock
from tests.operators import Operator
from tests.processes import has_ended, watched


def test_a_process_is_told_to_end_and_has_ended_afterwards(operator: Operator) -> None:
    with operator.serving():
        process_id = operator.detach(
            "--", "sh", "-c", "trap 'echo bye; exit 4' TERM; echo ready; sleep 1000 & wait"
        )
        operator.await_process(process_id, lambda process: process["outputBytes"] > 0)
        assert operator.output("kill", process_id) == ""
        process = operator.process(process_id)
        assert (process["running"], process["exitCode"]) == (False, 4)
        assert operator.output("logs", process_id) == "ready\nbye\n"


def test_one_that_does_not_listen_is_killed_after_its_grace(operator: Operator) -> None:
    with operator.serving():
        script = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
        process_id = operator.detach("--", "sh", "-c", script)
        operator.await_process(process_id, lambda process: process["outputBytes"] > 0)
        assert operator.output("kill", "--grace", "0.1", process_id) == ""
        assert operator.process(process_id)["exitCode"] == 137


@pytest.mark.parametrize("name", ["USR1", "SIGUSR1", "usr1", str(int(SIGUSR1))])
def test_a_signal_alone_can_be_sent(operator: Operator, name: str) -> None:
    with operator.serving():
        script = "trap 'echo told; exit 6' USR1; echo ready; sleep 1000 & wait"
        process_id = operator.detach("--", "sh", "-c", script)
        operator.await_process(process_id, lambda process: process["outputBytes"] > 0)
        assert operator.output("kill", "--signal", name, process_id) == ""
        process = operator.await_process(process_id, lambda process: not process["running"])
        assert process["exitCode"] == 6


async def test_it_reaches_sessions_with_and_without_a_client_on_every_server(operator: Operator) -> None:
    with operator.serving() as first, operator.serving() as second:
        async with paddock.connect(second.url) as leaving:
            await leaving.start(["sleep", "1000"], process_id="kept", keep_alive=True)
        async with paddock.connect(first.url) as box:
            process = await box.start(["sleep", "1000"], process_id="attached")
            await asyncio.to_thread(operator.output, "kill", "attached", "kept")
            assert await process.wait() == 143
            assert (await asyncio.to_thread(operator.process, "kept"))["running"] is False


def test_the_whole_group_goes(operator: Operator) -> None:
    with operator.serving():
        process_id = operator.detach("--", "sh", "-c", "sleep 1000 & echo $!; wait")
        operator.await_process(process_id, lambda process: process["outputBytes"] > 0)
        with watched(int(operator.output("logs", process_id))) as pidfd:
            operator.output("kill", process_id)
            assert has_ended(pidfd, 0)


@pytest.mark.parametrize("elsewhere", ["", ">/dev/null 2>&1"])
def test_what_an_ended_process_left_of_its_group_is_listed_and_ended(
    operator: Operator, elsewhere: str
) -> None:
    with operator.serving():
        process_id = operator.detach(
            "--", "sh", "-c", f"trap '' TERM; sleep 1000 {elsewhere} & echo $!; exit 3"
        )
        operator.await_process(
            process_id, lambda process: process["survivors"] and process["outputBytes"] > 0
        )
        assert "exited 3, group lives" in operator.output("ps")
        assert operator.output("ps", "--quiet").strip() == process_id[:12]
        with watched(int(operator.output("logs", "--tail", "1", process_id))) as pidfd:
            assert operator.output("kill", "--signal", "CONT", process_id) == ""
            assert not has_ended(pidfd, 0)
            assert operator.output("kill", "--grace", "0.1", process_id) == ""
            assert has_ended(pidfd, 0)
        assert operator.output("ps", "--quiet") == ""
        assert "has ended already" in operator.paddock("kill", process_id).stderr.decode()


def test_what_has_ended_or_never_was_is_a_failure_that_does_not_stop_the_rest(operator: Operator) -> None:
    with operator.serving():
        ended = operator.detach("--", "true")
        operator.await_process(ended, lambda process: not process["running"])
        running = operator.detach("--", "sleep", "1000")
        done = operator.paddock("kill", ended, "nothing", running)
        assert (done.returncode, done.stdout) == (1, b"")
        assert done.stderr.decode().splitlines() == [
            f"paddock kill: process '{ended}' has ended already",
            "paddock kill: no process 'nothing'; `paddock ps --all` lists those that are known",
        ]
        assert operator.process(running)["running"] is False
        done = operator.paddock("kill", "--signal", "HUP", ended)
        assert (done.returncode, done.stderr.decode()) == (
            1,
            f"paddock kill: process '{ended}' has ended already\n",
        )


async def test_an_ambiguous_name_ends_nothing_and_lists_what_it_fits(operator: Operator) -> None:
    with operator.serving() as server:
        async with paddock.connect(server.url) as box, paddock.connect(server.url) as other:
            await box.start(["sleep", "1000"], process_id="p")
            await other.start(["sleep", "1000"], process_id="p")
            done = await asyncio.to_thread(operator.paddock, "kill", "p")
            assert done.returncode == 1
            (line,) = done.stderr.decode().splitlines()
            assert line.startswith("paddock kill: 'p' fits 2 processes; name one of: ")
            assert {f"{each.session_id}/p" for each in (box, other)} <= set(line.replace(",", "").split())
            await asyncio.to_thread(operator.output, "kill", f"{box.session_id[:8]}/p")
            assert [process["running"] for process in await asyncio.to_thread(operator.status)].count(
                True
            ) == 1


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--signal", "NOPE", "p"), "'NOPE' is not a signal; expected a name such as TERM"),
        (("--signal", "trem", "p"), "'trem' is not a signal; did you mean 'TERM'?"),
        (("--signal", "SIGKIL", "p"), "'SIGKIL' is not a signal; did you mean 'SIGKILL'?"),
        (("--signal", "999", "p"), "'999' is not a signal; expected a name such as TERM"),
        (("--grace", "-1", "p"), "'-1' is not a number of seconds"),
        (("--grace", "nan", "p"), "'nan' is not a number of seconds"),
        (("--grace", "1", "--signal", "HUP", "p"), "not allowed with argument"),
        ((), "the following arguments are required: ID"),
    ],
)
def test_a_bad_command_line_is_explained(
    operator: Operator, arguments: tuple[str, ...], problem: str
) -> None:
    done = operator.paddock("kill", *arguments)
    assert done.returncode == 2
    assert problem in done.stderr.decode()
