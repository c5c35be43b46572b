"""When requests run: lanes, bounds and order."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from paddock.errors import InvalidRequest, TooManyWaits
from paddock.fs.step_scheduler import STEPS_PER_TURN, StepScheduler
from paddock.protocol.call import Call
from paddock.protocol.methods import METHODS
from paddock.protocol.structure import NoParams, Params
from paddock.server.dispatch import LONG_REQUEST_BYTES, Dispatcher, Parked
from paddock.transport.input_turns import InputTurns

ORDINARY = METHODS["process/read"]
CONTROL = METHODS["environment/status"]
OPENING = METHODS["process/start"]

PARKED = 100
"""Handlers of requests numbered from here on park; below 0 they do not wait."""

MAX_PARKED = 3


class Bench:
    """A dispatcher whose handlers wait for the test."""

    def __init__(
        self, concurrency: int, turns: InputTurns | None = None, max_parked: int = MAX_PARKED
    ) -> None:
        self.begun: list[int] = []
        self.finished: list[tuple[int, Any]] = []
        self.waited: set[int] = set()
        self.gates: dict[int, asyncio.Future[Any]] = {}
        self.heard: asyncio.Future[None] | None = None
        self.left_at_advances: list[int] = []
        self.ended = 0
        self.dispatcher = Dispatcher(
            concurrency,
            max_parked,
            self.handle,
            self.finish,
            self.advanced,
            turns or InputTurns(),
            StepScheduler(),
        )

    def submit(self, number: int, *, is_control: bool = False) -> None:
        self.dispatcher.submit(Call(number, CONTROL if is_control else ORDINARY, NoParams(), size_bytes=10))

    def submit_start(self, number: int, size_bytes: int) -> None:
        self.dispatcher.submit(Call(number, OPENING, NoParams(), size_bytes=size_bytes))

    def handle(self, call: Call[Params]) -> Any:
        assert isinstance(call.id, int)
        self.begun.append(call.id)
        if call.id < 0:
            return "at once"
        gate = self.gates[call.id] = asyncio.get_running_loop().create_future()
        return Parked(self.wait(gate)) if call.id >= PARKED else self.wait(gate)

    async def wait(self, gate: asyncio.Future[Any]) -> Any:
        try:
            return await gate
        finally:
            self.ended += 1

    def finish(self, call: Call[Params], result: Any, error: Exception | None, since_s: float) -> None:
        assert isinstance(call.id, int)
        if since_s:
            self.waited.add(call.id)
        self.finished.append((call.id, error or result))
        if self.heard is not None and not self.heard.done():
            self.heard.set_result(None)

    def advanced(self) -> None:
        self.left_at_advances.append(self.dispatcher.waiting)

    async def open(self, number: int) -> None:
        """Let a handler finish, and return when its outcome was reported."""
        gate = self.gates[number]
        gate.set_result("done")
        self.heard = asyncio.get_running_loop().create_future()
        await self.heard


async def test_a_handler_that_does_not_wait_is_answered_within_the_call() -> None:
    bench = Bench(4)

    bench.submit(-1)

    assert bench.finished == [(-1, "at once")]


async def test_requests_run_up_to_the_bound_and_the_rest_in_order() -> None:
    bench = Bench(2)
    for number in (1, 2, 3, 4):
        bench.submit(number)

    assert bench.begun == [1, 2]
    assert (bench.dispatcher.waiting, bench.dispatcher.waiting_bytes) == (2, 20)
    await asyncio.sleep(0)
    await bench.open(2)
    assert bench.begun == [1, 2, 3]
    await bench.dispatcher.aclose()


async def test_control_requests_overtake_a_full_lane() -> None:
    bench = Bench(2)
    for number in (1, 2, 3):
        bench.submit(number)

    bench.submit(-5, is_control=True)

    assert bench.finished == [(-5, "at once")]
    await bench.dispatcher.aclose()


async def test_a_bound_of_one_is_strictly_serial_for_control_requests_too() -> None:
    bench = Bench(1)
    bench.submit(1)
    bench.submit(-2, is_control=True)
    await asyncio.sleep(0)
    assert bench.finished == []

    await bench.open(1)

    assert [number for number, _ in bench.finished] == [1, -2]


async def test_only_a_call_that_waited_for_its_turn_or_in_its_handler_is_said_to_have_waited() -> None:
    bench = Bench(1)
    bench.submit(-1)
    bench.submit(2)
    bench.submit(-3)
    await asyncio.sleep(0)

    await bench.open(2)

    assert [number for number, _ in bench.finished] == [-1, 2, -3]
    assert bench.waited == {2, -3}


async def test_parked_requests_take_no_place_up_to_a_bound_of_their_own() -> None:
    bench = Bench(2)
    for number in range(PARKED, PARKED + MAX_PARKED + 1):
        bench.submit(number)

    bench.submit(1)

    assert bench.begun[-1] == 1
    ((refused, problem),) = bench.finished
    assert refused == PARKED + MAX_PARKED
    assert isinstance(problem, TooManyWaits)
    await asyncio.sleep(0)
    await bench.open(PARKED)
    bench.submit(PARKED + MAX_PARKED + 1)
    assert len(bench.finished) == 2
    await bench.dispatcher.aclose()


async def test_it_is_told_when_calls_that_waited_have_been_parked() -> None:
    bench = Bench(2)
    for number in (1, 2, PARKED, PARKED + 1, 3):
        bench.submit(number)
    assert bench.dispatcher.waiting == 3
    await asyncio.sleep(0)

    await bench.open(1)

    assert bench.begun[2:] == [PARKED, PARKED + 1, 3]
    assert bench.left_at_advances == [0]
    await bench.dispatcher.aclose()


async def test_a_bound_of_one_is_strictly_serial_for_parked_requests_too() -> None:
    bench = Bench(1)
    bench.submit(PARKED)
    bench.submit(PARKED + 1)
    bench.submit(-2)
    await asyncio.sleep(0)
    assert bench.begun == [PARKED]

    await bench.open(PARKED)
    await asyncio.sleep(0)
    await bench.open(PARKED + 1)

    assert [number for number, _ in bench.finished] == [PARKED, PARKED + 1, -2]


async def test_one_turn_of_the_loop_begins_one_long_start() -> None:
    bench = Bench(4)
    for number in (-1, -2, -3):
        bench.submit_start(number, LONG_REQUEST_BYTES + 1)
    bench.submit(-4)

    assert bench.begun == [-1]
    await asyncio.sleep(0)
    assert bench.begun == [-1, -2]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert bench.begun == [-1, -2, -3, -4]
    assert bench.left_at_advances == [2, 1, 0]


async def test_long_starts_that_waited_for_a_place_begin_one_by_one_too() -> None:
    bench = Bench(1)
    bench.submit(1)
    for number in (-1, -2, -3):
        bench.submit_start(number, LONG_REQUEST_BYTES + 1)

    await bench.open(1)

    assert bench.begun == [1, -1]


async def test_one_turn_of_the_loop_begins_one_request_with_much_text() -> None:
    bench = Bench(4)
    for number in (1, 2):
        size_bytes = LONG_REQUEST_BYTES + 1
        bench.dispatcher.submit(Call(number, ORDINARY, NoParams(), size_bytes))
    assert bench.begun == [1]
    await asyncio.sleep(0)
    assert bench.begun == [1, 2]
    await bench.dispatcher.aclose()


async def test_bulk_data_makes_no_request_long() -> None:
    bench = Bench(4)
    for number in (1, 2):
        bench.dispatcher.submit(Call(number, ORDINARY, NoParams(), 100_000, bulk_bytes=99_000))
    assert bench.begun == [1, 2]
    await bench.dispatcher.aclose()


async def test_short_starts_begin_at_once() -> None:
    bench = Bench(4)
    for number in (-1, -2, -3):
        bench.submit_start(number, LONG_REQUEST_BYTES)

    assert bench.begun == [-1, -2, -3]


async def test_nothing_begins_in_the_turn_of_a_rest() -> None:
    bench = Bench(2)
    bench.submit(-1)
    bench.dispatcher.rest()
    bench.submit(-2)
    bench.submit(-3, is_control=True)
    assert bench.begun == [-1]

    bench.dispatcher.rest()
    await asyncio.sleep(0)
    assert bench.begun == [-1, -2, -3]
    bench.submit(-4)
    assert bench.begun[-1] == -4


async def test_an_error_of_a_handler_is_its_outcome() -> None:
    problem = InvalidRequest("no")
    outcomes: list[Exception | None] = []

    def refuse(_: Call[Params]) -> Any:
        raise problem

    def finish(_call: Call[Params], _result: Any, error: Exception | None, _since_s: float) -> None:
        outcomes.append(error)

    dispatcher = Dispatcher(2, MAX_PARKED, refuse, finish, lambda: None, InputTurns(), StepScheduler())
    dispatcher.submit(Call(1, ORDINARY, NoParams(), size_bytes=0))

    assert outcomes == [problem]


async def test_closing_cancels_what_runs_and_forgets_what_waits() -> None:
    bench = Bench(1)
    bench.submit(1)
    bench.submit(2)

    await bench.dispatcher.aclose()

    assert bench.gates[1].cancelled() or not bench.gates[1].done()
    assert bench.begun == [1]
    assert bench.finished == []


async def test_only_one_of_many_connections_goes_on_after_a_rest_in_a_turn_without_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("paddock.transport.input_turns.TURN_S", 1e-9)
    turns = InputTurns()
    benches = [Bench(2, turns) for _ in range(20)]
    for bench in benches:
        bench.submit(-1)
        bench.dispatcher.rest()
        bench.submit(-2)
        bench.submit(-3, is_control=True)
    begun = 20
    for _ in range(2 * len(benches) + 1):
        await asyncio.sleep(0)
        now = sum(len(bench.begun) for bench in benches)
        assert now - begun <= 1
        begun = now
    assert all(sorted(bench.begun) == [-3, -2, -1] for bench in benches)


async def test_closing_cancels_a_bounded_number_of_parked_calls_in_a_turn() -> None:
    count = 10 * STEPS_PER_TURN
    bench = Bench(2, max_parked=count)
    for number in range(count):
        bench.submit(PARKED + number)
    await asyncio.sleep(0)
    closing = asyncio.ensure_future(bench.dispatcher.aclose())
    before = 0
    while not closing.done():
        await asyncio.sleep(0)
        assert bench.ended - before <= STEPS_PER_TURN
        before = bench.ended
    assert bench.ended == count
    assert bench.finished == []


class Watched:
    """Parameters that count how often their subject is looked at."""

    looks = 0

    @property
    def process_id(self) -> str:
        Watched.looks += 1
        return "p"


async def test_a_control_request_is_not_compared_with_all_that_wait() -> None:
    bench = Bench(1)
    dispatcher = Dispatcher(
        2, MAX_PARKED, bench.handle, bench.finish, bench.advanced, InputTurns(), StepScheduler()
    )
    params = cast(Params, Watched())
    for number in range(PARKED):
        dispatcher.submit(Call(number, OPENING, params, size_bytes=10))
    Watched.looks = 0

    dispatcher.submit(Call(-1, CONTROL, NoParams(), size_bytes=10))

    assert bench.begun == [0, 1, -1]
    assert Watched.looks == 0
    await dispatcher.aclose()


async def test_nothing_begins_while_answers_pile_up() -> None:
    bench = Bench(2)
    for number in (1, 2, 3):
        bench.submit(number)
    await asyncio.sleep(0)
    bench.dispatcher.hold()
    bench.submit(-4, is_control=True)
    await bench.open(1)
    assert (bench.begun, bench.dispatcher.waiting) == ([1, 2], 2)

    bench.dispatcher.release()

    assert (bench.begun, bench.dispatcher.waiting) == ([1, 2, -4, 3], 0)
    await bench.dispatcher.aclose()
