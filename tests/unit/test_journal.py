"""Events with fields: one printable line each, and nothing at all while the level is off."""

from __future__ import annotations

import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.journal import FIELD_LIMIT_CHARS, ITEMS_LIMIT, Event, Journal
from paddock.printable import printable

ANYTHING = st.text(st.characters(), max_size=60)
"""Every code point: line ends of all kinds, terminal escapes, direction marks, lone surrogates."""


def test_an_event_is_its_name_and_its_fields_in_their_order() -> None:
    event = Event("process started", {"process": "p1", "pid": 7, "terminal": False, "took_s": 0.25})

    assert str(event) == "process started process=p1 pid=7 terminal=no took_s=0.25"


def test_a_field_without_a_value_is_left_out() -> None:
    assert str(Event("e", {"signal": None, "code": 0})) == "e code=0"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("", '""'),
        ("two words", '"two words"'),
        ("a=b", '"a=b"'),
        ('say "hi"', r'"say \"hi\""'),
        ("back\\slash", r'"back\\slash"'),
        ("line\nfeed", r'"line\nfeed"'),
        ("\x1b[31m", r'"\u001b[31m"'),
        ("\u202egnp.exe", r'"\u202egnp.exe"'),
        ("\U000e0001", r'"\udb40\udc01"'),
        ("grün", "grün"),
        (("ls", "-l", "a b"), '["ls","-l","a b"]'),
    ],
)
def test_what_a_client_chose_is_quoted_where_it_could_mislead(
    value: str | tuple[str, ...], shown: str
) -> None:
    assert str(Event("e", {"field": value})) == f"e field={shown}"


@given(st.dictionaries(st.sampled_from(["a", "b"]), ANYTHING | st.lists(ANYTHING).map(tuple)))
def test_an_event_is_one_printable_line_whatever_its_fields_hold(fields: dict[str, str]) -> None:
    assert str(Event("event", fields)).isprintable()


@given(st.text(st.characters(codec="utf-8", exclude_characters='\\"')))
def test_escaping_leaves_printable_text_alone_and_loses_nothing(text: str) -> None:
    escaped = printable(text)

    assert escaped.isprintable()
    assert text.isprintable() or escaped != text
    assert json.loads(f'"{escaped}"') == text


@pytest.mark.parametrize(
    "invisible",
    ["\u034f", "\u115f", "\u1160", "\u180b", "\u2800", "\u3164", "\ufe0f", "\uffa0", "\U000e0100"],
)
def test_what_nobody_sees_is_escaped_and_what_looks_strange_is_not(invisible: str) -> None:
    assert invisible.isprintable()
    assert json.loads(f'"{printable(f"rm{invisible}")}"') == f"rm{invisible}"
    assert printable(f"rm{invisible}").isascii()
    assert printable("ありがとう, naïve ☺ e\u0301") == "ありがとう, naïve ☺ e\u0301"


def test_a_long_value_is_cut_and_says_by_how_much() -> None:
    shown = str(Event("e", {"field": "x" * (FIELD_LIMIT_CHARS + 17)}))

    assert shown == f'e field="{"x" * FIELD_LIMIT_CHARS}… (+17)"'


def test_of_a_long_list_the_beginning_is_shown() -> None:
    shown = str(Event("e", {"argv": ("x",) * (ITEMS_LIMIT + 3)}))

    assert shown.count('"x"') == ITEMS_LIMIT
    assert shown.endswith('"… (+3)"]')


def test_bound_ids_go_with_every_event(caplog: pytest.LogCaptureFixture) -> None:
    journal = Journal(logging.getLogger("test"), connection=3)

    with caplog.at_level(logging.INFO):
        journal.info("opened")
        journal.bind(session="abc").info("resumed", client="x")

    assert caplog.messages == ["opened connection=3", "resumed connection=3 session=abc client=x"]


def test_a_level_that_is_off_writes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    journal = Journal(logging.getLogger("test"))

    with caplog.at_level(logging.WARNING):
        journal.info("nobody hears this")
        journal.debug("nor this")

    assert caplog.records == []
    assert not journal.is_debugging


def test_an_error_comes_with_its_exception(caplog: pytest.LogCaptureFixture) -> None:
    problem = ValueError("no")

    Journal(logging.getLogger("test")).error("request crashed", error=problem, request=1)

    (record,) = caplog.records
    assert record.exc_info is not None
    assert record.exc_info[1] is problem
