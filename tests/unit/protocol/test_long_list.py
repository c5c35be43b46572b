"""Answers that are written element by element."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from paddock.protocol.codec import write_json
from paddock.protocol.long_list import LongList

ELEMENT = st.one_of(st.text(), st.integers(), st.lists(st.text()))


@given(name=st.text(), elements=st.lists(ELEMENT))
def test_answer_is_the_same_as_if_it_was_written_at_once(name: str, elements: list[object]) -> None:
    answer = LongList(write_json({"id": name, "result": {"list": []}}))
    for element in elements:
        answer.add(element)
    assert bytes(answer.finish()) == write_json({"id": name, "result": {"list": elements}})


@given(lists=st.lists(st.lists(ELEMENT)))
def test_elements_may_end_with_lists_themselves(lists: list[list[object]]) -> None:
    answer = LongList(write_json({"result": {"outer": []}}))
    for number, elements in enumerate(lists):
        answer.begin({"number": number, "inner": []})
        for element in elements:
            answer.add(element)
        answer.end()
    expected = [{"number": number, "inner": elements} for number, elements in enumerate(lists)]
    assert bytes(answer.finish()) == write_json({"result": {"outer": expected}})
