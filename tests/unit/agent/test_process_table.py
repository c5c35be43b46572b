"""The processes that a model has left running."""

from __future__ import annotations

from itertools import count

from paddock.agent.process_table import FIRST_ID, PROCESS_LIMIT, RECENT_COUNT, Entry, ProcessTable


class Shop:
    """A table whose processes are names, with those that have ended or are busy."""

    def __init__(self) -> None:
        numbers = count(FIRST_ID)
        self.table: ProcessTable[int] = ProcessTable(lambda: next(numbers))
        self.ended: set[int] = set()
        self.busy: set[int] = set()

    def add(self) -> int | None:
        number = self.table.reserve()
        entry = Entry(number, number, lambda: number in self.busy, lambda: number in self.ended)
        return self.table.add(entry)

    def fill(self) -> None:
        for _ in range(PROCESS_LIMIT):
            assert self.add() is None


def test_number_is_given_once_until_it_is_released() -> None:
    tries = iter([1000, 1000, 1001, 1000])
    table: ProcessTable[str] = ProcessTable(lambda: next(tries))
    assert [table.reserve(), table.reserve()] == [1000, 1001]
    table.release(1000)
    assert table.reserve() == 1000


def test_least_recently_used_makes_room() -> None:
    shop = Shop()
    shop.fill()
    shop.table.use(FIRST_ID)
    assert shop.add() == FIRST_ID + 1
    assert len(shop.table) == PROCESS_LIMIT
    assert shop.table.use(FIRST_ID + 1) is None


def test_one_that_has_ended_goes_before_one_that_runs() -> None:
    shop = Shop()
    shop.fill()
    shop.ended = {FIRST_ID + 5, FIRST_ID + 9}
    assert shop.add() == FIRST_ID + 5


def test_last_few_are_never_chosen() -> None:
    shop = Shop()
    shop.fill()
    shop.ended = set(range(FIRST_ID + PROCESS_LIMIT - RECENT_COUNT, FIRST_ID + PROCESS_LIMIT))
    assert shop.add() == FIRST_ID


def test_one_that_is_talked_to_is_passed_over() -> None:
    shop = Shop()
    shop.fill()
    shop.busy = {FIRST_ID}
    assert shop.add() == FIRST_ID + 1


def test_none_that_runs_goes_while_one_that_has_ended_is_busy() -> None:
    shop = Shop()
    shop.fill()
    shop.busy = shop.ended = {FIRST_ID + 3}
    assert shop.add() is None
    assert len(shop.table) == PROCESS_LIMIT + 1
