from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from paddock.client.intake import Intake, IntakeLimits

LIMITS = IntakeLimits(high_water_bytes=100, limit_bytes=1000)


class Reading:
    """What the intake decided, and that it only spoke when it changed its mind."""

    def __init__(self) -> None:
        self._is_on = True

    def __call__(self, wanted: bool) -> None:
        assert wanted != self._is_on
        self._is_on = wanted

    def is_on(self) -> bool:
        return self._is_on


def make() -> tuple[Intake[str], Reading]:
    reading = Reading()
    return Intake(LIMITS, reading), reading


def test_reading_stops_at_the_mark_and_goes_on_at_half_of_it() -> None:
    intake, reading = make()
    intake.add("p", 99)
    assert reading.is_on()
    intake.add("p", 1)
    assert not reading.is_on()
    intake.remove("p", 50)
    assert not reading.is_on()
    intake.remove("p", 1)
    assert reading.is_on()


def test_whoever_waits_for_the_server_makes_it_read_on() -> None:
    intake, reading = make()
    intake.add("p", 100)

    with intake.impatience():
        assert reading.is_on()
        assert not intake.must_drop

    assert not reading.is_on()


def test_a_patient_waiter_is_held_up_at_the_limit_and_an_impatient_one_makes_room() -> None:
    intake, reading = make()
    intake.wait(patient=1)
    intake.add("p", 999)
    assert reading.is_on()
    intake.add("p", 1)
    assert not reading.is_on()
    assert not intake.must_drop

    with intake.impatience():
        assert reading.is_on()
        assert intake.must_drop


Step = tuple[str, str, int]
STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "remove", "wait", "end"]), st.sampled_from("ab"), st.integers(1, 400)),
    max_size=60,
)


@given(STEPS)
def test_nobody_impatient_is_kept_waiting_and_nothing_is_read_that_nobody_wants(
    steps: list[Step],
) -> None:
    intake, reading = make()
    unread = {"a": 0, "b": 0}
    impatient = 0
    for action, holder, size in steps:
        if action == "add":
            unread[holder] += size
            intake.add(holder, size)
        elif action == "remove" and unread[holder]:
            taken = min(size, unread[holder])
            unread[holder] -= taken
            intake.remove(holder, taken)
        elif action == "wait":
            impatient += 1
            intake.wait(impatient=1)
        elif action == "end" and impatient:
            impatient -= 1
            intake.wait(impatient=-1)
        total = sum(unread.values())
        assert intake.unread_bytes == total
        assert set(intake.holders) == {name for name, size in unread.items() if size}
        assert intake.must_drop == (total >= LIMITS.limit_bytes and impatient > 0)
        if impatient or total < LIMITS.high_water_bytes // 2:
            assert reading.is_on()
        elif total >= LIMITS.high_water_bytes:
            assert not reading.is_on()
