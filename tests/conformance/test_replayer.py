"""The replayer notices what a server does wrong. The servers here say what a test tells them to."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve

from tests.conformance.replayer import ReplayFailed, replay
from tests.conformance.transcript import Line, Transcript, read_step

OUT = {"stream": "stdout", "chunk": "aGkK"}
END = {"processId": "p", "output": {"stdout": "<base64:hi\n>"}, "exitCode": 0, "sandboxDenied": False}


def output(seq: int, **changes: Any) -> dict[str, Any]:
    return {"method": "process/output", "params": {"processId": "p", "seq": seq, **OUT, **changes}}


def exited(seq: int, **changes: Any) -> dict[str, Any]:
    params = {"processId": "p", "seq": seq, "exitCode": 0, "sandboxDenied": False, **changes}
    return {"method": "process/exited", "params": params}


def closed(seq: int, **changes: Any) -> dict[str, Any]:
    return {"method": "process/closed", "params": {"processId": "p", "seq": seq, **changes}}


def read_answer(*chunks: dict[str, Any]) -> dict[str, Any]:
    return {"id": 1, "result": {"chunks": list(chunks), "closed": True}}


async def hold(messages: list[dict[str, Any]], *steps: dict[str, Any], drop: bool = False) -> None:
    """Replay the steps with a server that says all messages at once, and then drops the connection or not."""

    async def speak(connection: ServerConnection) -> None:
        for message in messages:
            await connection.send(json.dumps(message))
        if drop:
            connection.transport.abort()
        await connection.wait_closed()

    lines = tuple(Line(number, read_step(step)) for number, step in enumerate(steps, start=1))
    async with serve(speak, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        await replay(Transcript("spoken", (), lines), f"ws://{host}:{port}")


async def test_answers_are_found_in_any_order_unless_order_matters() -> None:
    messages = [{"id": 2, "result": {}}, {"id": 1, "result": {}}]
    first: dict[str, Any] = {"expect": {"id": 1, "result": {}}}
    second: dict[str, Any] = {"expect": {"id": 2, "result": {}}}
    await hold(messages, first, second)
    await hold(messages, first, {**second, "inOrder": True})
    with pytest.raises(ReplayFailed) as failure:
        await hold(messages, {**first, "inOrder": True})
    assert failure.value.number == 1


async def test_answer_to_a_number_is_not_an_answer_to_the_text() -> None:
    with pytest.raises(ReplayFailed, match="dropped"):
        await hold([{"id": "1", "result": {}}], {"expect": {"id": 1, "result": {}}}, drop=True)


async def test_captured_value_is_used_later() -> None:
    steps = (
        {"expect": {"id": 1, "result": {"sessionId": "<str>"}}, "capture": {"SID": "result.sessionId"}},
        {"expect": {"id": 2, "result": "${SID}"}},
    )
    await hold([{"id": 1, "result": {"sessionId": "s"}}, {"id": 2, "result": "s"}], *steps)
    with pytest.raises(ReplayFailed) as failure:
        await hold([{"id": 1, "result": {"sessionId": "s"}}, {"id": 2, "result": "t"}], *steps)
    assert failure.value.number == 2


@pytest.mark.parametrize(
    "events",
    [
        [output(1), exited(2), closed(3)],
        [exited(1), output(2), closed(3)],
        [closed(3), output(1), exited(2)],
        [output(2, chunk="Cg=="), output(1, chunk="aGk="), exited(3), closed(4)],
    ],
    ids=["in order", "exit before output", "end first", "output swapped"],
)
async def test_events_of_a_process_may_arrive_in_any_order(events: list[dict[str, Any]]) -> None:
    await hold(events, {"expectProcess": END})


@pytest.mark.parametrize(
    ("events", "problem"),
    [
        ([output(1), exited(1), closed(2)], "numbered"),
        ([output(1), exited(4), closed(3)], "numbered"),
        ([output(2), exited(3), closed(4)], "dropped"),
        ([output(1), exited(2)], "dropped"),
        ([output(1), exited(2), exited(3), closed(4)], "one process/exited"),
        ([output(1), closed(2)], "one process/exited"),
        ([output(1, stream="stderr"), exited(2), closed(3)], "output of stderr"),
        ([exited(1), closed(2)], "output of stdout"),
        ([output(1), exited(2, exitCode=1), closed(3)], "exitCode"),
        ([output(1), exited(2, sandboxDenied=True), closed(3)], "sandboxDenied"),
        ([output(1), exited(2), closed(3, extra=1)], "extra"),
    ],
)
async def test_wrong_events_of_a_process_are_noticed(events: list[dict[str, Any]], problem: str) -> None:
    with pytest.raises(ReplayFailed, match=problem):
        await hold(events, {"expectProcess": END}, drop=True)


async def test_output_that_was_awaited_is_not_expected_again() -> None:
    live = {"expectOutput": {"processId": "p", "stream": "stdout", "text": "hi\n"}}
    rest = {"expectProcess": {**END, "output": {}}}
    await hold([output(1), exited(2), closed(3)], live, rest)


async def test_other_output_than_was_awaited_is_noticed() -> None:
    live = {"expectOutput": {"processId": "p", "stream": "stdout", "text": "ho\n"}}
    with pytest.raises(ReplayFailed, match="begins with"):
        await hold([output(1)], live)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (read_answer({"seq": 2, **OUT}, {"seq": 1, "stream": "stdout", "chunk": ""}), "numbered"),
        (read_answer({"seq": 1, **OUT, "extra": 1}), "extra"),
        (read_answer(), "output of stdout"),
        ({"id": 1, "result": {"chunks": [], "closed": False}}, "closed"),
        ({"id": 1, "error": {"code": -32600, "message": ""}}, "result"),
    ],
)
async def test_wrong_answer_to_a_read_is_noticed(answer: dict[str, Any], problem: str) -> None:
    step = {"expectRead": {"id": 1, "output": {"stdout": "<base64:hi\n>"}, "closed": True}}
    await hold([read_answer({"seq": 1, **OUT})], step)
    with pytest.raises(ReplayFailed, match=problem):
        await hold([answer], step)


async def test_connection_must_be_dropped_without_a_word() -> None:
    await hold([], {"expectClosed": True}, drop=True)
    with pytest.raises(ReplayFailed, match="to be dropped"):
        await hold([{"id": 1, "result": {}}], {"expectClosed": True}, drop=True)


async def test_connection_that_stays_open_was_not_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.conformance.client.MESSAGE_TIMEOUT_S", 0.01)
    with pytest.raises(ReplayFailed, match="did not come"):
        await hold([], {"expectClosed": True})


async def test_silence_is_broken_by_a_message_that_came_before() -> None:
    messages = [{"id": 1, "result": {}}, {"id": 2, "result": {}}]
    await hold([], {"expectSilence": 0.01})
    with pytest.raises(ReplayFailed, match="silence"):
        await hold(messages, {"expect": {"id": 2, "result": {}}}, {"expectSilence": 0.01})


async def test_nothing_is_left_open_after_a_failure() -> None:
    with pytest.raises(ReplayFailed):
        await hold([], {"expect": {"id": 1, "result": {}}}, drop=True)
    assert len(asyncio.all_tasks()) == 1
