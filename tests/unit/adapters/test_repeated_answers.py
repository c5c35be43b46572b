from __future__ import annotations

import asyncio
from functools import partial

import pytest
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from paddock.adapters import repeated_answers
from paddock.adapters.repeated_answers import REMEMBERED, RepeatedAnswers


class Work:
    """Counts how often each answer is worked out."""

    def __init__(self) -> None:
        self.done: list[str] = []

    async def answer(self, name: str, size_bytes: int = 1) -> Response:
        self.done.append(name)
        await asyncio.sleep(0)
        return Response(b"x" * size_bytes)


async def asked(answers: RepeatedAnswers, work: Work, name: str, size_bytes: int = 1) -> Response:
    return await answers.answer(name, partial(work.answer, name, size_bytes))


async def test_a_request_that_is_repeated_is_worked_out_once() -> None:
    answers, work = RepeatedAnswers(), Work()
    first, second = await asyncio.gather(*(asked(answers, work, "a") for _ in range(2)))
    assert first is second is await asked(answers, work, "a")
    assert work.done == ["a"]


async def test_a_request_that_did_not_come_as_a_whole_counts_when_it_is_repeated() -> None:
    answers, work = RepeatedAnswers(), Work()

    async def leave() -> Response:
        raise ClientDisconnect

    with pytest.raises(ClientDisconnect):
        await answers.answer("a", leave)
    await asked(answers, work, "a")
    assert work.done == ["a"]


async def test_a_request_that_is_repeated_just_when_the_first_is_cut_off_is_worked_out() -> None:
    answers, work = RepeatedAnswers(), Work()
    repeated = []

    async def leave() -> Response:
        repeated.append(asyncio.create_task(asked(answers, work, "a")))
        raise ClientDisconnect

    with pytest.raises(ClientDisconnect):
        await answers.answer("a", leave)
    assert (await repeated[0]).body == b"x"
    assert await asked(answers, work, "a") is repeated[0].result()
    assert work.done == ["a"]


async def test_the_oldest_of_too_many_answers_are_forgotten() -> None:
    answers, work = RepeatedAnswers(), Work()
    for number in range(REMEMBERED + 1):
        await asked(answers, work, str(number))
    await asked(answers, work, str(REMEMBERED))
    await asked(answers, work, "0")
    assert work.done == [*map(str, range(REMEMBERED + 1)), "0"]


async def test_the_oldest_of_too_large_answers_are_forgotten_and_the_latest_never(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(repeated_answers, "REMEMBERED_BYTES", 100)
    answers, work = RepeatedAnswers(), Work()
    for name, size_bytes in (("a", 40), ("b", 50), ("c", 50), ("d", 500)):
        await asked(answers, work, name, size_bytes)
        await asked(answers, work, name, size_bytes)
    assert work.done == ["a", "b", "c", "d"]
    for name in ("d", "c", "b", "a"):
        await asked(answers, work, name)
    assert work.done == ["a", "b", "c", "d", "c", "b", "a"]
