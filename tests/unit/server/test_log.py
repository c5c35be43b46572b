"""Lines of the log: one for each event, parseable, bounded, and never waiting for a reader."""

from __future__ import annotations

import argparse
import json
import logging
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.cli.main import build_parser
from paddock.journal import FIELD_LIMIT_CHARS, Event, Value
from paddock.model.log_setting import LogFormat, LogLevel
from paddock.server.log import (
    LINE_LIMIT_BYTES,
    JsonFormatter,
    LineFormatter,
    LineHandler,
    TextFormatter,
    configure,
)

ANYTHING = st.text(st.characters(), max_size=400)
FIELDS = st.dictionaries(
    st.sampled_from(["process", "client", "argv", "reason"]),
    ANYTHING | st.integers() | st.booleans() | st.none() | st.lists(ANYTHING, max_size=50).map(tuple),
)
FORMATTERS = pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()], ids=["text", "json"])


def record_of(message: object, *args: object, error: BaseException | None = None) -> logging.LogRecord:
    fault = (type(error), error, error.__traceback__) if error is not None else None
    record = logging.LogRecord("paddock.test", logging.INFO, __file__, 1, message, args, fault)
    record.created = 1772600767.890
    return record


def test_text_is_for_people() -> None:
    line = TextFormatter().format(record_of(Event("process exited", {"process": "p 1", "exit_code": 3})))

    assert line == '2026-03-04T05:06:07.890Z INFO process exited process="p 1" exit_code=3'


def test_json_is_for_programs() -> None:
    line = JsonFormatter().format(
        record_of(Event("process exited", {"process": "p 1", "exit_code": 3, "signal": None}))
    )

    assert json.loads(line) == {
        "time": "2026-03-04T05:06:07.890Z",
        "level": "info",
        "logger": "paddock.test",
        "event": "process exited",
        "process": "p 1",
        "exit_code": 3,
    }


def test_file_name_that_is_no_text_can_be_read_in_json() -> None:
    event = Event("process started", {"program": "caf\udce9", "argv": ("caf\udce9", "x"), "pid": 1})
    told = json.loads(JsonFormatter().format(record_of(event)))
    assert (told["program"], told["argv"], told["pid"]) == ("caf\\udce9", ["caf\\udce9", "x"], 1)


@FORMATTERS
@given(fields=FIELDS)
def test_a_line_is_one_line_within_its_limit_whatever_the_fields_hold(
    formatter: LineFormatter, fields: dict[str, Value]
) -> None:
    line = formatter.format(record_of(Event("event", fields)))

    assert line.isprintable()
    assert len(line.encode()) < LINE_LIMIT_BYTES


@given(fields=FIELDS)
def test_every_json_line_can_be_read_back(fields: dict[str, Value]) -> None:
    members = json.loads(JsonFormatter().format(record_of(Event("event", fields))))

    assert members.keys() - {"time", "level", "logger", "event"} == {
        name for name, value in fields.items() if value is not None
    }


@given(text=st.text(st.characters(codec="utf-8"), max_size=100))
def test_a_short_value_survives_json_unchanged(text: str) -> None:
    assert json.loads(JsonFormatter().format(record_of(Event("event", {"client": text}))))["client"] == text


@FORMATTERS
def test_the_message_of_a_library_is_an_event_too(formatter: LineFormatter) -> None:
    line = formatter.format(record_of("task %r\nwas destroyed", "x"))

    assert r"task 'x'\nwas destroyed" in line


@FORMATTERS
def test_an_error_is_told_with_the_end_of_its_traceback_on_the_same_line(formatter: LineFormatter) -> None:
    def fail(depth: int) -> None:
        if depth:
            fail(depth - 1)
        raise ValueError("went\nwrong")

    with pytest.raises(ValueError, match="went") as caught:
        fail(200)
    line = formatter.format(record_of(Event("request crashed", {"request": 7}), error=caught.value))

    assert line.isprintable()
    assert len(line.encode()) < LINE_LIMIT_BYTES
    assert r"ValueError: went\nwrong" in line
    assert "test_log.py" in line


# --- the handler ------------------------------------------------------------


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    yield reader, writer
    os.close(reader)
    os.close(writer)


def handler_for(fd: int) -> LineHandler:
    handler = LineHandler(fd)
    handler.setFormatter(TextFormatter())
    return handler


def test_a_line_that_was_cut_off_does_not_take_the_next_with_it(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as file:
        handler = handler_for(file.fileno())
        handler.handle(record_of(Event("first", {})))
        size_bytes = os.fstat(file.fileno()).st_size
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes + 10, before[1]))
        try:
            handler.handle(record_of(Event("second", {})))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        handler.handle(record_of(Event("third", {})))
    first, second, dropped, third = (tmp_path / "log").read_text().splitlines()
    assert (first[25:], second, third[25:]) == ("INFO first", first[:10], "INFO third")
    assert dropped.endswith("log lines dropped count=1")


def test_a_reader_that_does_not_read_loses_lines_and_learns_how_many(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    handler = handler_for(writer)
    record = record_of(Event("event", {"filler": "x" * FIELD_LIMIT_CHARS}))

    # Far more than a pipe holds (pipe(7)): each of these would wait for ever if it waited at all.
    for _ in range(2000):
        handler.handle(record)
    written = os.read(reader, 1 << 20).decode().splitlines()
    handler.handle(record)
    told, last = os.read(reader, 1 << 20).decode().splitlines()

    assert f"log lines dropped count={2000 - len(written)}" in told
    assert last == written[0]


def test_a_reader_that_is_gone_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        handler_for(writer).handle(record_of("nobody"))
    finally:
        os.close(writer)

    assert capsys.readouterr().err == ""


def test_a_line_that_can_not_be_made_is_no_error_of_the_program(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    reader, writer = pipe
    handler = handler_for(writer)
    handler.handle(record_of("%d", "no number"))
    handler.handle(record_of("next"))
    assert os.read(reader, 65536).count(b"\n") == 1
    assert capsys.readouterr().err == ""


def test_configuring_sends_everything_from_the_level_up_to_one_place(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    try:
        configure(LogFormat.JSON, LogLevel.INFO, writer)
        logging.getLogger("paddock.a").info("seen")
        logging.getLogger("other").debug("not seen")
        logging.getLogger("other").warning("seen too")
    finally:
        root.handlers[:] = before
        root.setLevel(level)

    lines = [json.loads(line) for line in os.read(reader, 65536).splitlines()]
    assert [(line["logger"], line["event"]) for line in lines] == [
        ("paddock.a", "seen"),
        ("other", "seen too"),
    ]


def test_the_command_line_offers_every_format_and_level() -> None:
    verbs = next(a for a in build_parser()._actions if isinstance(a, argparse._SubParsersAction))
    choices = {action.dest: action.choices for action in verbs.choices["serve"]._actions}

    assert choices["log_format"] == tuple(LogFormat)
    assert choices["log_level"] == tuple(LogLevel)
