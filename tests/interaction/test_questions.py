"""Questions of a server to its clients and operators, over real sockets."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import paddock
import paddock.sync
from paddock.client import answering
from paddock.client.operator import ServerControl, operate
from paddock.config import Settings
from paddock.errors import (
    AnswerFailed,
    InvalidParams,
    QuestionError,
    QuestionTimedOut,
    QuestionWithdrawn,
    TooManyQuestions,
    UnknownQuestion,
)
from paddock.protocol.question import EXEC_APPROVAL, ExecApprovalParams, ExecApprovalResult
from paddock.server.app import Server, serve
from paddock.server.metrics import QuestionOutcome
from paddock.server.questions import Answer, new_question_id
from paddock.transport.limits import TransportLimits
from tests.interaction.cutting_proxy import CuttingProxy
from tests.wire import WireClient, WireError, attach, served, start_params

AT_ONCE = paddock.ReconnectPolicy(min_delay_s=0, max_delay_s=0, attached_delay_s=0.001)
ASKABLE = {"extensions": True, "requests": [EXEC_APPROVAL], "notifications": ["question/closed"]}
RUN = ExecApprovalResult(verdict=paddock.Verdict.RUN)
DENY = ExecApprovalResult(verdict=paddock.Verdict.DENY, reason="no")

Handler = Callable[[ExecApprovalParams], Awaitable[ExecApprovalResult]]


def question(number: int = 0, process_id: str = "p", reason: str = "why") -> ExecApprovalParams:
    return ExecApprovalParams(
        question_id=new_question_id(),
        process_id=process_id,
        exec_id=str(number),
        program="/usr/bin/git",
        argv=["git", "push", str(number)],
        cwd="/work",
        matches=[],
        reason=reason,
    )


def asking(
    server: Server, session_id: str, params: ExecApprovalParams | None = None, timeout_s: float | None = None
) -> asyncio.Task[Answer]:
    return asyncio.ensure_future(server.ask(session_id, EXEC_APPROVAL, params or question(), timeout_s))


class Person:
    """Answers when told to, and remembers what was asked and what became of it."""

    def __init__(self) -> None:
        self.asked: list[ExecApprovalParams] = []
        self.cancelled: list[str] = []
        self.decision: asyncio.Future[ExecApprovalResult] = asyncio.get_running_loop().create_future()
        self.news = asyncio.Condition()

    async def __call__(self, params: ExecApprovalParams) -> ExecApprovalResult:
        self.asked.append(params)
        await self._tell()
        try:
            return await asyncio.shield(self.decision)
        except asyncio.CancelledError:
            self.cancelled.append(params.question_id)
            await self._tell()
            raise

    async def _tell(self) -> None:
        async with self.news:
            self.news.notify_all()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with self.news:
            await self.news.wait_for(condition)

    async def was_asked(self, count: int = 1) -> None:
        await self.until(lambda: len(self.asked) >= count)


@asynccontextmanager
async def operated(tmp_path: Path, **settings: Any) -> AsyncIterator[tuple[Server, ServerControl]]:
    path = tmp_path / "control"
    async with (
        serve(Settings(control_socket=str(path), **settings)) as server,
        await operate(path, "test") as control,
    ):
        yield server, control


async def wire_client(server: Server, **capabilities: Any) -> tuple[WireClient, str]:
    client = attach(server)
    greeting = await client.initialize(capabilities=ASKABLE | capabilities)
    return client, greeting["sessionId"]


def is_question(message: dict[str, Any]) -> bool:
    return message.get("method") == EXEC_APPROVAL


# --- one client -------------------------------------------------------------


async def test_a_client_answers_what_the_server_asks() -> None:
    async def decide(params: ExecApprovalParams) -> ExecApprovalResult:
        return ExecApprovalResult(verdict=paddock.Verdict.DENY, reason=f"{params.program} {params.argv[2]}")

    async with (
        served() as server,
        paddock.connect(server.url, on_request={EXEC_APPROVAL: decide}) as box,
    ):
        answer = await server.ask(box.session_id, EXEC_APPROVAL, question(7), 20)
        assert answer.by is QuestionOutcome.CLIENT
        assert answer.result == ExecApprovalResult(verdict=paddock.Verdict.DENY, reason="/usr/bin/git 7")
        assert (await box.run(["echo", "on"])).stdout == b"on\n"


async def test_a_plain_function_answers_too() -> None:
    async with (
        served() as server,
        paddock.connect(server.url, on_request={EXEC_APPROVAL: lambda _: RUN}) as box,
    ):
        assert (await asking(server, box.session_id)).result == RUN


async def test_many_questions_are_answered_at_once_each_with_its_own_answer() -> None:
    async def decide(params: ExecApprovalParams) -> ExecApprovalResult:
        await asyncio.sleep(0)
        return ExecApprovalResult(verdict=paddock.Verdict.RUN, reason=params.exec_id)

    async with (
        served() as server,
        paddock.connect(server.url, on_request={EXEC_APPROVAL: decide}) as box,
    ):
        tasks = [asking(server, box.session_id, question(number)) for number in range(500)]
        results = [(await task).result for task in tasks]
        assert [result.reason for result in results if isinstance(result, ExecApprovalResult)] == [
            str(number) for number in range(500)
        ]


async def test_two_clients_are_asked_for_their_own_sessions_only() -> None:
    async with served() as server, AsyncExitStack() as stack:
        boxes = []
        for name in ("one", "two"):
            answer = ExecApprovalResult(verdict=paddock.Verdict.RUN, reason=name)
            handlers = {EXEC_APPROVAL: partial(lambda answer, _: answer, answer)}
            boxes.append(await stack.enter_async_context(paddock.connect(server.url, on_request=handlers)))
        reasons = [(await asking(server, box.session_id)).result for box in boxes]
        assert [result.reason for result in reasons if isinstance(result, ExecApprovalResult)] == [
            "one",
            "two",
        ]


async def broken(_: ExecApprovalParams) -> ExecApprovalResult:
    raise RuntimeError("a secret of the client")


async def refusing(_: ExecApprovalParams) -> ExecApprovalResult:
    raise paddock.OperationFailed("the terminal is gone")


async def cancelled(_: ExecApprovalParams) -> ExecApprovalResult:
    raise asyncio.CancelledError


@pytest.mark.parametrize(
    ("handler", "said"),
    [
        (broken, "failed; see its log"),
        (refusing, "the terminal is gone"),
        (cancelled, "was cancelled"),
        (lambda _: "yes", "gave no ExecApprovalResult"),
        (
            lambda _: ExecApprovalResult(verdict=paddock.Verdict.RUN, reason="\udcff"),
            "text that is not UTF-8",
        ),
    ],
)
async def test_a_handler_that_fails_answers_with_an_error(handler: Handler, said: str) -> None:
    async with (
        served() as server,
        paddock.connect(server.url, on_request={EXEC_APPROVAL: handler}) as box,
    ):
        with pytest.raises(AnswerFailed, match=said) as failure:
            await asking(server, box.session_id)
        assert "secret" not in str(failure.value)
        assert (await box.run(["echo", "on"])).stdout == b"on\n"


def test_a_name_that_servers_never_ask_is_refused_before_anything_is_dialled() -> None:
    async def attempt() -> None:
        await paddock.connect("ws://127.0.0.1:1", on_request={"process/approve": lambda _: RUN})

    with pytest.raises(ValueError, match="never ask 'process/approve'"):
        asyncio.run(attempt())


async def test_a_handler_is_cancelled_when_nobody_needs_its_answer_and_when_its_box_is_closed() -> None:
    async with served() as server:
        person = Person()
        async with paddock.connect(server.url, on_request={EXEC_APPROVAL: person}) as box:
            withdrawn = asking(server, box.session_id)
            await person.was_asked()
            withdrawn.cancel()
            await person.until(lambda: person.cancelled == [person.asked[0].question_id])
            asking(server, box.session_id).add_done_callback(lambda task: task.exception())
            await person.was_asked(2)
        assert person.cancelled == [params.question_id for params in person.asked]


async def test_a_handler_that_does_not_heed_its_cancellation_does_not_keep_the_box_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(answering, "CANCEL_TIMEOUT_S", 0.01)
    called, end = asyncio.Event(), asyncio.Event()

    async def stubborn(_: ExecApprovalParams) -> ExecApprovalResult:
        called.set()
        while not end.is_set():
            with suppress(asyncio.CancelledError):
                await end.wait()
        return RUN

    async with served() as server:
        async with paddock.connect(server.url, on_request={EXEC_APPROVAL: stubborn}) as box:
            task = asking(server, box.session_id)
            await called.wait()
        assert not task.done()
        end.set()
        task.cancel()


# --- lost connections -------------------------------------------------------


async def test_a_question_survives_lost_connections_and_its_person_is_asked_once() -> None:
    async with served() as server, CuttingProxy(server.url) as proxy:
        person = Person()
        async with paddock.connect(proxy.url, reconnect=AT_ONCE, on_request={EXEC_APPROVAL: person}) as box:
            task = asking(server, box.session_id)
            await person.was_asked()
            for _ in range(5):
                proxy.break_all()
                await box.processes()
            person.decision.set_result(RUN)
            assert (await task).result == RUN
            assert len(person.asked) == 1


async def test_a_question_that_was_asked_while_the_client_was_away_reaches_it_later() -> None:
    async with served() as server:
        person = Person()
        first = await paddock.connect(server.url, on_request={EXEC_APPROVAL: person})
        session_id = first.session_id
        await first.detach()
        task = asking(server, session_id)
        async with paddock.connect(server.url, resume=session_id, on_request={EXEC_APPROVAL: person}):
            await person.was_asked()
            person.decision.set_result(DENY)
            assert (await task).result == DENY


async def test_an_answer_that_was_lost_with_its_connection_is_given_again() -> None:
    async with served() as server, CuttingProxy(server.url) as proxy:
        person, sent = Person(), asyncio.Event()

        async def decide(params: ExecApprovalParams) -> ExecApprovalResult:
            result = await person(params)
            # In the next turn: the answer leaves in this one.
            asyncio.get_running_loop().call_soon(sent.set)
            return result

        async with paddock.connect(proxy.url, reconnect=AT_ONCE, on_request={EXEC_APPROVAL: decide}) as box:
            task = asking(server, box.session_id)
            await person.was_asked()
            # What the client sends from now on goes nowhere.
            proxy.freeze_all()
            person.decision.set_result(RUN)
            await sent.wait()
            assert not task.done()
            proxy.break_all()
            assert (await task).result == RUN
            assert len(person.asked) == 1


async def test_random_cuts_lose_no_question_and_ask_nobody_twice() -> None:
    asked: list[str] = []

    async def decide(params: ExecApprovalParams) -> ExecApprovalResult:
        asked.append(params.question_id)
        await asyncio.sleep(0)
        return ExecApprovalResult(verdict=paddock.Verdict.RUN, reason=params.exec_id)

    async with (
        served() as server,
        CuttingProxy(server.url, seed=5, limit=40, longest_bytes=20_000) as proxy,
        paddock.connect(proxy.url, reconnect=AT_ONCE, on_request={EXEC_APPROVAL: decide}) as box,
    ):
        proxy.is_cutting = True
        for number in range(400):
            answer = await server.ask(box.session_id, EXEC_APPROVAL, question(number), None)
            assert isinstance(answer.result, ExecApprovalResult)
            assert answer.result.reason == str(number)
        assert len(asked) == len(set(asked)) == 400
        assert proxy.cuts > 0


async def test_a_client_that_comes_back_hears_what_was_closed_meanwhile(tmp_path: Path) -> None:
    async with operated(tmp_path) as (server, control), CuttingProxy(server.url) as proxy:
        person = Person()
        async with paddock.connect(proxy.url, reconnect=AT_ONCE, on_request={EXEC_APPROVAL: person}) as box:
            task = asking(server, box.session_id)
            await person.was_asked()
            proxy.hang_up_all()
            await until_detached(control, box.session_id)
            await control.answer(person.asked[0].question_id, {"verdict": "run"})
            assert (await task).by is QuestionOutcome.OPERATOR
            assert person.cancelled == []
            proxy.break_all()
            await person.until(lambda: bool(person.cancelled))


async def until_detached(control: ServerControl, session_id: str) -> None:
    while any(
        session.attached for session in (await control.status()).sessions if session.session_id == session_id
    ):
        pass


async def test_a_lost_session_cancels_its_handlers() -> None:
    async with served(session_ttl_s=0) as server, CuttingProxy(server.url) as proxy:
        person = Person()
        async with paddock.connect(proxy.url, reconnect=AT_ONCE, on_request={EXEC_APPROVAL: person}) as box:
            task = asking(server, box.session_id)
            await person.was_asked()
            proxy.break_all()
            with pytest.raises(QuestionWithdrawn, match="session has ended"):
                await task
            await person.until(lambda: bool(person.cancelled))


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


# --- the wire ---------------------------------------------------------------


async def test_answers_to_stale_requests_are_ignored_and_to_unknown_ones_end_the_connection() -> None:
    async with served() as server:
        client, session_id = await wire_client(server)
        task = asking(server, session_id)
        request = await client.take(is_question)
        yes = {"id": request["id"], "result": {"verdict": "run"}}
        client.send(yes)
        assert (await task).result == RUN
        # Twice, and with an error.
        client.send(yes)
        client.send({"id": request["id"], "error": {"code": -1, "message": "no"}})
        assert await client.call("environment/status") == {"status": "ready"}
        client.send({"id": request["id"] + 1, "result": {"verdict": "run"}})
        await client.closed()


async def test_a_request_id_of_one_link_answers_nothing_on_the_next() -> None:
    async with served() as server:
        client, session_id = await wire_client(server)
        task = asking(server, session_id)
        old = await client.take(is_question)
        client.link.abort()
        await client.closed()
        again = attach(server)
        await again.initialize(capabilities=ASKABLE, resumeSessionId=session_id)
        new = await again.take(is_question)
        assert new["params"] == old["params"]
        assert new["id"] != old["id"]
        again.send({"id": old["id"], "result": {"verdict": "run"}})
        assert await again.call("environment/status") == {"status": "ready"}
        assert not task.done()
        again.send({"id": new["id"], "result": {"verdict": "deny", "reason": "no"}})
        assert (await task).result == DENY


@pytest.mark.parametrize(
    "result",
    [
        None,
        True,
        "run",
        [],
        ["run"],
        {},
        {"verdict": None},
        {"verdict": "RUN"},
        {"verdict": "run", "reason": 1},
        {"verdict": "run", "remember": "always"},
        {"verdict": "run", "sudo": True},
        {"verdict": {"run": {}}},
    ],
)
async def test_an_answer_that_means_nothing_fails_the_question_and_not_the_connection(result: Any) -> None:
    async with served() as server:
        client, session_id = await wire_client(server)
        task = asking(server, session_id)
        request = await client.take(is_question)
        client.send({"id": request["id"], "result": result})
        with pytest.raises(AnswerFailed, match="means nothing"):
            await task
        assert await client.call("environment/status") == {"status": "ready"}


@pytest.mark.parametrize(
    "capabilities",
    [
        None,
        {},
        {"extensions": True},
        {"extensions": True, "requests": ["process/other"]},
        {"extensions": False, "requests": [EXEC_APPROVAL], "notifications": ["question/closed"]},
    ],
)
async def test_a_client_that_did_not_declare_it_is_never_asked(capabilities: Any) -> None:
    async with served() as server:
        client = attach(server)
        session_id = (await client.initialize(capabilities=capabilities))["sessionId"]
        with pytest.raises(QuestionTimedOut):
            await asking(server, session_id, timeout_s=0.01)
        assert await client.call("environment/status") == {"status": "ready"}
        assert list(client.unread) == []
        for wanted in ({}, {"onPrompt": "ask"}):
            with pytest.raises(WireError, match=r"capabilities\.requests") as refused:
                await client.call("process/start", start_params("p", "/bin/true", intercept=wanted))
            assert refused.value.code == -32602
        # The answer to nothing is what it always was.
        client.send({"id": 1, "result": {"verdict": "run"}})
        await client.closed()


async def test_interception_that_can_not_be_had_is_refused_and_never_ignored() -> None:
    async with served() as server:
        client, _ = await wire_client(server)
        rule = {"pattern": [["git"], ["push"]], "action": "prompt", "path": "/r", "line": 1}
        for wanted in ({}, {"onPrompt": "deny"}, {"rules": [rule]}, {"rules": [rule | {"then": 1}]}):
            with pytest.raises(WireError, match="intercept") as refused:
                await client.call("process/start", start_params("p", "/bin/true", intercept=wanted))
            assert refused.value.code == -32602
        assert (await client.call("process/list"))["processes"] == []


async def test_nothing_is_asked_before_the_handshake_is_complete() -> None:
    async with served() as server:
        client = attach(server)
        greeting = await client.call("initialize", {"clientName": "test", "capabilities": ASKABLE})
        task = asking(server, greeting["sessionId"])
        with pytest.raises(WireError):
            await client.call("environment/status")
        assert list(client.unread) == []
        client.send({"method": "initialized"})
        request = await client.take(is_question)
        # A second `initialized` is no reason to ask twice.
        client.send({"method": "initialized"})
        assert await client.call("environment/status") == {"status": "ready"}
        assert list(client.unread) == []
        client.send({"id": request["id"], "result": {"verdict": "run"}})
        assert (await task).result == RUN


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


# --- programs that block ----------------------------------------------------


def test_a_program_that_blocks_answers_from_a_thread_of_its_own() -> None:
    threads = []

    def decide(params: ExecApprovalParams) -> ExecApprovalResult:
        threads.append(threading.current_thread())
        if params.exec_id == "1":
            raise RuntimeError("a secret")
        return ExecApprovalResult(verdict=paddock.Verdict.RUN, reason=params.exec_id)

    with loop_thread() as run, paddock_server(run) as server:
        with paddock.sync.connect(server.url, on_request={EXEC_APPROVAL: decide}) as box:
            answer = run(server.ask(box.session_id, EXEC_APPROVAL, question(4), 20))
            assert answer.result == ExecApprovalResult(verdict=paddock.Verdict.RUN, reason="4")
            with pytest.raises(QuestionError, match="see its log"):
                run(server.ask(box.session_id, EXEC_APPROVAL, question(1), 20))
        assert threading.main_thread() not in threads


def test_a_box_that_blocks_can_be_closed_while_a_person_thinks() -> None:
    thinking, gone = threading.Event(), threading.Event()

    def decide(_: ExecApprovalParams) -> ExecApprovalResult:
        thinking.set()
        gone.wait()
        return RUN

    with loop_thread() as run, paddock_server(run) as server:
        with paddock.sync.connect(server.url, on_request={EXEC_APPROVAL: decide}) as box:
            waiting = run(_begin(server, box.session_id))
            thinking.wait()
        gone.set()
        assert run(_cancel(waiting))


async def _begin(server: Server, session_id: str) -> asyncio.Task[Answer]:
    return asking(server, session_id)


async def _cancel(task: asyncio.Task[Answer]) -> bool:
    task.cancel()
    await asyncio.wait([task])
    return task.cancelled()


@contextmanager
def loop_thread() -> Iterator[Callable[[Coroutine[Any, Any, Any]], Any]]:
    """An event loop in another thread, and what runs something there."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield lambda work: asyncio.run_coroutine_threadsafe(work, loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextmanager
def paddock_server(run: Callable[[Coroutine[Any, Any, Any]], Any]) -> Iterator[Server]:
    async def enter() -> tuple[AsyncExitStack, Server]:
        stack = AsyncExitStack()
        return stack, await stack.enter_async_context(served())

    stack, server = run(enter())
    try:
        yield server
    finally:
        run(stack.aclose())
