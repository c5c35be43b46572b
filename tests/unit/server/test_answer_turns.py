"""Many requests that are woken at once are answered by and by."""

from __future__ import annotations

import asyncio
import contextlib

from paddock.server.answer_turns import ANSWERS_PER_TURN, AnswerTurns, SharedAnswers


class Client:
    """Whether it is behind, and what it was answered."""

    def __init__(self, shared: SharedAnswers | None = None) -> None:
        self.is_congested = False
        self.answered: list[int] = []
        self.turns = AnswerTurns(lambda: self.is_congested, shared or SharedAnswers())

    async def answer(self, number: int) -> None:
        await self.turns.take()
        self.answered.append(number)

    def wake(self, count: int) -> list[asyncio.Task[None]]:
        return [asyncio.create_task(self.answer(number)) for number in range(count)]


async def test_a_single_request_is_answered_at_once() -> None:
    client = Client()
    answer = client.answer(1)

    with contextlib.suppress(StopIteration):
        answer.send(None)

    assert client.answered == [1]


async def test_many_are_answered_in_order_and_a_bounded_number_in_each_turn() -> None:
    client = Client()
    count = 5 * ANSWERS_PER_TURN
    tasks = client.wake(count)

    before = 0
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0)
        assert len(client.answered) - before <= ANSWERS_PER_TURN
        before = len(client.answered)

    assert client.answered == list(range(count))


async def test_nobody_is_answered_while_the_client_is_behind() -> None:
    client = Client()
    client.is_congested = True
    tasks = client.wake(3)
    for _ in range(10):
        await asyncio.sleep(0)
    assert client.answered == []

    client.is_congested = False
    client.turns.resume()
    await asyncio.gather(*tasks)

    assert client.answered == [0, 1, 2]


async def test_those_who_gave_up_take_nobodys_turn() -> None:
    client = Client()
    client.is_congested = True
    tasks = client.wake(3 * ANSWERS_PER_TURN)
    await asyncio.sleep(0)
    for task in tasks[:-1]:
        task.cancel()
    await asyncio.sleep(0)

    client.is_congested = False
    client.turns.resume()
    await tasks[-1]

    assert client.answered == [3 * ANSWERS_PER_TURN - 1]


async def test_connections_share_the_answers_of_a_turn_and_none_waits_for_all_of_another() -> None:
    shared = SharedAnswers()
    clients = [Client(shared) for _ in range(5)]
    clients[3].is_congested = True
    count = 3 * ANSWERS_PER_TURN
    tasks = [task for client in clients for task in client.wake(count)]

    before = 0
    while sum(task.done() for task in tasks) < 4 * count:
        await asyncio.sleep(0)
        answered = [len(client.answered) for client in clients]
        assert sum(answered) - before <= ANSWERS_PER_TURN
        before = sum(answered)
    assert [len(client.answered) for client in clients] == [count, count, count, 0, count]

    clients[3].is_congested = False
    clients[3].turns.resume()
    await asyncio.gather(*tasks)
    assert all(client.answered == list(range(count)) for client in clients)
