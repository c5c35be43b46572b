"""Questions of a server to its clients, over real sockets, also when connections are lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import paddock
import paddock.sync
from paddock.client import answering
from paddock.errors import (
    AnswerFailed,
    QuestionError,
    QuestionWithdrawn,
)
from paddock.protocol.question import EXEC_APPROVAL, ExecApprovalParams, ExecApprovalResult
from paddock.server.app import Server
from paddock.server.metrics import QuestionOutcome
from paddock.server.questions import Answer
from tests.interaction.cutting_proxy import CuttingProxy
from tests.interaction.questions import (
    AT_ONCE,
    DENY,
    RUN,
    Handler,
    Person,
    asking,
    operated,
    question,
    until_detached,
)
from tests.wire import served

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
