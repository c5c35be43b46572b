"""The escalation protocol is spoken as its reference says, and nothing else is understood."""

from __future__ import annotations

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.intercept import wire
from paddock.intercept.wire import FrameReader, WireError, read_files, read_request

ASKED = b'{"file":"/usr/bin/id","argv":["id","-u"],"workdir":"/tmp","env":{"A":"1"}}'

RAW = st.binary(max_size=40).map(lambda data: data.replace(b"\0", b"").decode("utf-8", "surrogateescape"))


def framed(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data


def changed(**members: object) -> bytes:
    return json.dumps({**json.loads(ASKED), **members}).encode()


def test_a_request_is_read_as_the_reference_writes_it() -> None:
    request = read_request(ASKED)
    assert (request.file, request.argv, request.workdir, request.env) == (
        "/usr/bin/id",
        ["id", "-u"],
        "/tmp",
        {"A": "1"},
    )


def test_answers_are_written_as_the_reference_does() -> None:
    assert wire.run() == framed(b'{"action":"Run"}')
    assert wire.escalate() == framed(b'{"action":"Escalate"}')
    assert wire.deny("no") == framed(b'{"action":{"Deny":{"reason":"no"}}}')
    assert wire.deny(None) == framed(b'{"action":{"Deny":{"reason":null}}}')
    assert wire.exited(137) == framed(b'{"exit_code":137}')


def test_a_reason_has_no_text_that_another_reader_of_json_refuses() -> None:
    assert json.loads(wire.deny("\udcff é")[4:]) == {"action": {"Deny": {"reason": "\ufffd é"}}}


@given(st.lists(RAW, max_size=5), RAW.filter(bool), st.dictionaries(RAW.filter(bool), RAW, max_size=5))
def test_bytes_that_are_not_utf8_come_through(argv: list[str], file: str, env: dict[str, str]) -> None:
    variables = {name.replace("=", "_"): value for name, value in env.items()}
    request = read_request(changed(file=file, argv=argv, env=variables))
    assert (request.file, request.argv, request.env) == (file, argv, variables)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"[]",
        b'{"file":"/x"}',
        b"\xff",
        b"[" * 100_000,
        changed(file=""),
        changed(file="a\0b"),
        changed(workdir="tmp"),
        changed(argv=[1]),
        changed(env={"": "x"}),
        changed(env={"A=B": "x"}),
        changed(env={"A": "\ud800"}),
        changed(number=10**4000),
        changed(number=1.5),
    ],
)
def test_what_no_program_can_be_given_is_refused(message: bytes) -> None:
    with pytest.raises(WireError):
        read_request(message)


def test_each_descriptor_has_a_number_of_its_own() -> None:
    assert read_files(b'{"fds":[0,1,2]}', 3) == [0, 1, 2]
    for message, received in ((b'{"fds":[0,1,2]}', 2), (b'{"fds":[0,0]}', 2), (b'{"fds":[-1]}', 1)):
        with pytest.raises(WireError):
            read_files(message, received)


def test_a_signal_is_one_that_there_is() -> None:
    assert wire.read_signal(b'{"signal":15}') == 15
    for message in (b'{"signal":0}', b'{"signal":65}', b'{"signal":"TERM"}', b"{}"):
        with pytest.raises(WireError):
            wire.read_signal(message)


@given(st.lists(st.binary(max_size=30), max_size=5), st.integers(1, 7))
def test_messages_are_found_however_the_stream_is_cut(messages: list[bytes], step: int) -> None:
    data = b"".join(map(framed, messages))
    reader = FrameReader()
    found = [found for at in range(0, len(data), step) for found in reader.feed(data[at : at + step])]
    assert found == messages
    assert reader.held_bytes == 0


def test_a_message_that_is_too_long_is_refused_before_it_has_come() -> None:
    with pytest.raises(WireError):
        list(FrameReader(10).feed(struct.pack("<I", 11)))
    assert list(FrameReader(10).feed(framed(b"0123456789"))) == [b"0123456789"]
