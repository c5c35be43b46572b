"""Questions that operators see and answer, and questions that nobody answers, over real sockets."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import paddock
import paddock.sync
from paddock.client.operator import ServerControl
from paddock.errors import (
    InvalidParams,
    QuestionTimedOut,
    QuestionWithdrawn,
    TooManyQuestions,
    UnknownQuestion,
)
from paddock.protocol.question import EXEC_APPROVAL, ExecApprovalParams, ExecApprovalResult
from paddock.server.metrics import QuestionOutcome
from paddock.transport.limits import TransportLimits
from tests.interaction.questions import (
    ASKABLE,
    DENY,
    RUN,
    Person,
    asking,
    is_question,
    operated,
    question,
    until_detached,
    wire_client,
)
from tests.wire import WireError, attach, served

# --- operators --------------------------------------------------------------


async def test_an_operator_sees_open_questions_and_answers_in_place_of_the_client(tmp_path: Path) -> None:
    async with operated(tmp_path) as (server, control):
        person = Person()
        async with paddock.connect(
            server.url, client_name="agent", on_request={EXEC_APPROVAL: person}
        ) as box:
            task = asking(server, box.session_id, question(3), 60)
            await person.was_asked()
            (told,) = (await control.questions()).questions
            assert (told.session_id, told.client_name, told.process_id) == (box.session_id, "agent", "p")
            assert (told.method, told.sent, told.params["argv"]) == (
                EXEC_APPROVAL,
                True,
                ["git", "push", "3"],
            )
            assert told.time_left_ms is not None
            assert 0 < told.time_left_ms <= 60_000
            with pytest.raises(InvalidParams, match=r"result\.verdict"):
                await control.answer(told.question_id, {"verdict": "perhaps"})
            with pytest.raises(InvalidParams, match="unknown field"):
                await control.answer(told.question_id, {"verdict": "run", "as": "root"})
            await control.answer(told.question_id, {"verdict": "deny", "reason": "no"})
            answer = await task
            assert (answer.result, answer.by) == (DENY, QuestionOutcome.OPERATOR)
            await person.until(lambda: person.cancelled == [told.question_id])
            with pytest.raises(UnknownQuestion):
                await control.answer(told.question_id, {"verdict": "run"})
            assert (await control.questions()).questions == []


async def test_the_first_of_client_and_operator_wins(tmp_path: Path) -> None:
    async with operated(tmp_path) as (server, control):
        people: asyncio.Queue[tuple[str, asyncio.Future[ExecApprovalResult]]] = asyncio.Queue()

        async def decide(params: ExecApprovalParams) -> ExecApprovalResult:
            decision: asyncio.Future[ExecApprovalResult] = asyncio.get_running_loop().create_future()
            people.put_nowait((params.question_id, decision))
            return await decision

        async with paddock.connect(server.url, on_request={EXEC_APPROVAL: decide}) as box:
            for number in range(200):
                task = asking(server, box.session_id, question(number))
                question_id, person = await people.get()
                # Who comes first is up to the sockets; the two start in either order.
                if number % 2:
                    person.set_result(RUN)
                    operator = asyncio.create_task(control.answer(question_id, {"verdict": "deny"}))
                else:
                    operator = asyncio.create_task(control.answer(question_id, {"verdict": "deny"}))
                    await asyncio.sleep(0)
                    person.set_result(RUN)
                answer = await task
                try:
                    await operator
                except UnknownQuestion:
                    assert (answer.result, answer.by) == (RUN, QuestionOutcome.CLIENT)
                else:
                    assert answer.by is QuestionOutcome.OPERATOR
                    assert answer.result == ExecApprovalResult(verdict=paddock.Verdict.DENY)
            assert (await control.questions()).questions == []


async def test_a_question_without_a_client_waits_for_an_operator(tmp_path: Path) -> None:
    async with operated(tmp_path) as (server, control):
        client, session_id = await wire_client(server, requests=[])
        task = asking(server, session_id)
        (told,) = await listed(control)
        assert (told.sent, told.time_left_ms) == (False, None)
        client.link.abort()
        await until_detached(control, session_id)
        await control.answer(told.question_id, {"verdict": "escalate"})
        assert (await task).result == ExecApprovalResult(verdict=paddock.Verdict.ESCALATE)
        assert not any(is_question(message) for message in client.unread)


async def listed(control: ServerControl) -> Any:
    while not (questions := (await control.questions()).questions):
        pass
    return questions


async def test_only_operators_see_and_answer_the_questions_of_others() -> None:
    async with served() as server:
        client, session_id = await wire_client(server)
        other, _ = await wire_client(server)
        task = asking(server, session_id)
        request = await client.take(is_question)
        for method, params in (
            ("control/questions", None),
            ("control/answer", {"questionId": request["params"]["questionId"], "result": {"verdict": "run"}}),
        ):
            with pytest.raises(WireError) as refused:
                await other.call(method, params)
            assert refused.value.code == -32601
        # The other's session has issued no such id.
        other.send({"id": request["id"], "result": {"verdict": "run"}})
        await other.closed()
        assert not task.done()
        client.send({"id": request["id"], "result": {"verdict": "deny", "reason": "no"}})
        assert (await task).result == DENY


# --- no answer --------------------------------------------------------------


async def test_no_answer_in_time_is_said_as_such(tmp_path: Path) -> None:
    async with operated(tmp_path) as (server, control):
        person = Person()
        async with paddock.connect(server.url, on_request={EXEC_APPROVAL: person}) as box:
            patient = asking(server, box.session_id, question(1))
            await person.was_asked()
            for timeout_s in (0.05, 0):
                with pytest.raises(QuestionTimedOut, match="timed out"):
                    await asking(server, box.session_id, question(2), timeout_s)
            await person.until(lambda: len(person.cancelled) == len(person.asked) - 1)
            (left,) = (await control.questions()).questions
            assert left.params["execId"] == "1"
            person.decision.set_result(RUN)
            assert (await patient).result == RUN


async def test_the_end_of_a_process_withdraws_its_questions() -> None:
    async with served() as server:
        person = Person()
        async with paddock.connect(server.url, on_request={EXEC_APPROVAL: person}) as box:
            process = await box.start(["cat"], process_id="p", stdin=True)
            mine, other = asking(server, box.session_id), asking(server, box.session_id, question(1, "q"))
            await person.was_asked(2)
            await process.close_stdin()
            with pytest.raises(QuestionWithdrawn, match="process has ended"):
                await mine
            await person.until(lambda: person.cancelled == [person.asked[0].question_id])
            person.decision.set_result(RUN)
            assert (await other).result == RUN


async def test_the_end_of_the_server_withdraws_every_question() -> None:
    async with served() as server:
        client, session_id = await wire_client(server)
        tasks = [asking(server, session_id, question(number)) for number in range(3)]
        await client.take(is_question)
    for task in tasks:
        with pytest.raises(QuestionWithdrawn, match="server is ending"):
            await task
    with pytest.raises(paddock.UnknownSession):
        await asking(server, session_id)


# --- limits -----------------------------------------------------------------


async def test_a_thousand_open_questions_are_held_and_one_more_is_refused(tmp_path: Path) -> None:
    async with operated(tmp_path, max_open_questions=1000) as (server, control):
        client, session_id = await wire_client(server)
        tasks = [asking(server, session_id, question(number)) for number in range(1000)]
        requests = [await client.take(is_question) for _ in tasks]
        with pytest.raises(TooManyQuestions, match="1000"):
            await asking(server, session_id)
        told = await control.questions()
        assert (len(told.questions), told.omitted) == (1000, 0)
        for request in reversed(requests):
            client.send(
                {"id": request["id"], "result": {"verdict": "run", "reason": request["params"]["execId"]}}
            )
        for number, task in enumerate(tasks):
            assert (await task).result == ExecApprovalResult(verdict=paddock.Verdict.RUN, reason=str(number))
        assert (await control.questions()).questions == []


async def test_what_questions_hold_is_bounded_and_what_operators_are_told_of_it(tmp_path: Path) -> None:
    async with operated(tmp_path) as (server, control), AsyncExitStack() as stack:
        large = partial(question, reason="x" * 600_000)
        tasks = []
        for _ in range(16):
            box = await stack.enter_async_context(paddock.connect(server.url))
            tasks.append(asking(server, box.session_id, large()))
            with pytest.raises(TooManyQuestions, match="bytes"):
                await asking(server, box.session_id, large())
        told = await control.questions()
        assert len(told.questions) + told.omitted == 16
        assert told.omitted > 0
        for task in tasks:
            task.cancel()


async def test_a_client_that_does_not_read_is_not_asked_more_and_more() -> None:
    async with served() as server:
        client = attach(server, TransportLimits(write_high_water_bytes=64 * 1024))
        session_id = (await client.initialize(capabilities=ASKABLE))["sessionId"]
        client.link.pause_reading()
        for number in range(2000):
            with pytest.raises(QuestionTimedOut):
                await asking(server, session_id, question(number, reason="x" * 1000), 0)
        assert client.server_link.buffered_bytes < 128 * 1024
        task = asking(server, session_id, question(5000))
        client.link.resume_reading()
        request = await client.take(lambda found: is_question(found) and found["params"]["execId"] == "5000")
        client.send({"id": request["id"], "result": {"verdict": "run"}})
        assert (await task).result == RUN
