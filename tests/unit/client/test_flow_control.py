from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from paddock.client.flow_control import FlowControl, FlowLimits

LIMITS = FlowLimits(high_water_bytes=100, limit_bytes=1000)


class Reading:
    """What the flow control decided, and that it only spoke when it changed its mind."""

    def __init__(self) -> None:
        self._is_on = True

    def __call__(self, wanted: bool) -> None:
        assert wanted != self._is_on
        self._is_on = wanted

    def is_on(self) -> bool:
        return self._is_on


def make() -> tuple[FlowControl[str], Reading]:
    reading = Reading()
    return FlowControl(LIMITS, reading), reading


def test_reading_stops_at_the_mark_and_goes_on_at_half_of_it() -> None:
    flow_control, reading = make()
    flow_control.add("p", 99)
    assert reading.is_on()
    flow_control.add("p", 1)
    assert not reading.is_on()
    flow_control.remove("p", 50)
    assert not reading.is_on()
    flow_control.remove("p", 1)
    assert reading.is_on()


def test_whoever_waits_for_the_server_makes_it_read_on() -> None:
    flow_control, reading = make()
    flow_control.add("p", 100)

    with flow_control.impatience():
        assert reading.is_on()
        assert not flow_control.must_drop

    assert not reading.is_on()


def test_a_patient_waiter_is_held_up_at_the_limit_and_an_impatient_one_makes_room() -> None:
    flow_control, reading = make()
    flow_control.wait(patient=1)
    flow_control.add("p", 999)
    assert reading.is_on()
    flow_control.add("p", 1)
    assert not reading.is_on()
    assert not flow_control.must_drop

    with flow_control.impatience():
        assert reading.is_on()
        assert flow_control.must_drop


Step = tuple[str, str, int]
STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "remove", "wait", "end"]), st.sampled_from("ab"), st.integers(1, 400)),
    max_size=60,
)


@given(STEPS)
def test_nobody_impatient_is_kept_waiting_and_nothing_is_read_that_nobody_wants(
    steps: list[Step],
) -> None:
    flow_control, reading = make()
    unread = {"a": 0, "b": 0}
    impatient = 0
    for action, holder, size in steps:
        if action == "add":
            unread[holder] += size
            flow_control.add(holder, size)
        elif action == "remove" and unread[holder]:
            taken = min(size, unread[holder])
            unread[holder] -= taken
            flow_control.remove(holder, taken)
        elif action == "wait":
            impatient += 1
            flow_control.wait(impatient=1)
        elif action == "end" and impatient:
            impatient -= 1
            flow_control.wait(impatient=-1)
        total = sum(unread.values())
        assert {name: flow_control.unread_of(name) for name in flow_control.holders} == {
            name: size for name, size in unread.items() if size
        }
        assert flow_control.must_drop == (total >= LIMITS.limit_bytes and impatient > 0)
        if impatient or total < LIMITS.high_water_bytes // 2:
            assert reading.is_on()
        elif total >= LIMITS.high_water_bytes:
            assert not reading.is_on()
