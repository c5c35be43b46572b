"""A long message is read for the data in it, or not at all."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from paddock.protocol import envelope
from paddock.protocol.call import Call
from paddock.protocol.codec import CodecLimits
from paddock.protocol.fs import WriteFileParams
from paddock.rpc import serving
from paddock.rpc.questions import OpenQuestions, QuestionLimits
from paddock.rpc.serving import Event, Refusal, ServingConnection
from tests.unit.protocol.test_plain_request import comparable

SMALL = CodecLimits(max_text_bytes=1600)
REST_BYTES = 200
DATA = base64.b64encode(bytes(range(256)) * 12).decode()


def event(data: bytes | memoryview, limits: CodecLimits = SMALL) -> Event:
    connection = ServingConnection("test", limits)
    connection.receive(b'{"id":1,"method":"initialize","params":{"clientName":"t"}}')
    connection.greeted(OpenQuestions(QuestionLimits(1)))
    connection.receive(b'{"method":"initialized"}')
    return connection.receive(data)


def message(method: str, params: Any, **more: Any) -> bytes:
    return json.dumps({"id": 1, "method": method, "params": params} | more, ensure_ascii=False).encode()


def write_file(**params: Any) -> bytes:
    return message("fs/writeFile", {"path": "/é\n", "dataBase64": DATA} | params)


def code(found: Event) -> int:
    assert isinstance(found, Refusal)
    return int(json.loads(found.reply)["error"]["code"])


HONEST = [
    write_file(),
    write_file(atomic=True),
    message("process/write", {"processId": "p", "chunk": DATA, "writeId": "w"}),
    message("fs/writeBlock", {"chunk": DATA, "handleId": "h", "offset": 0}),
    message("http/request", {"requestId": "r", "method": "PUT", "url": "http://x/", "bodyBase64": DATA}),
]


@pytest.mark.parametrize("data", HONEST)
@pytest.mark.parametrize("form", [bytes, memoryview])
def test_data_is_read_as_from_a_short_message(data: bytes, form: type[bytes] | type[memoryview]) -> None:
    found = event(form(data))

    assert isinstance(found, Call)
    assert comparable(found) == comparable(event(data, CodecLimits()))


def test_data_is_never_read_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[int] = []

    def read_message(data: bytes, limits: CodecLimits) -> envelope.Message:
        lengths.append(len(data))
        return envelope.read_message(data, limits)

    monkeypatch.setattr("paddock.protocol.large_message.read_message", read_message)
    monkeypatch.setattr(serving, "read_plain", None)
    connection = ServingConnection("test", SMALL)

    connection.receive(write_file())

    assert len(lengths) == 1
    assert lengths[0] <= 4 * REST_BYTES + 1


LONG = "x\n" * 1600
REFUSED = {
    "white space": b'{"id":1,"method":"environment/status"' + b" " * 2000 + b"}",
    "white space between strings": b'{"id":1,"method":"environment/status"'
    + b" " * 2000
    + b',"params":null}',
    "a method": message("x" * 2000, None),
    "an id": message("environment/status", None, id="x" * 2000),
    "a key": message("environment/status", {"x" * 2000: 1}),
    "a deep string": message("fs/writeFile", {"path": "/", "dataBase64": "", "x": {"dataBase64": DATA}}),
    "a string in a list": message("fs/writeFile", ["/", DATA, None, None]),
    "a result": b'{"id":1,"result":"' + DATA.encode() + b'"}',
    "a notification": b'{"method":"initialized","params":{"x":"' + DATA.encode() + b'"}}',
    "an array": b'["' + DATA.encode() + b'"]',
    "a string that begins with a quote": b'{"id":1,"method":"process/write","params":{"chunk":"\\"'
    + DATA.encode()
    + b'","processId":"p"}}',
    "what stands before": message("process/write", {"processId": "p", "x": [1] * 100, "chunk": DATA}),
    "what stands behind": message("process/write", {"processId": "p", "chunk": DATA, "x": [1] * 100}),
    "a member that means nothing": message("process/write", {"processId": "p", "chunk": "", "x": DATA}),
    "a name": message("process/write", {"processId": "p", "chunk": "", "writeId": DATA}),
    "a path": message("fs/getMetadata", {"path": "/" + DATA}),
    "data of an unknown method": message("unknown", {"chunk": DATA}),
    "members hidden in data": b'{"id":1,"method":"process/write","params":{"processId":"p","x":"'
    + DATA.encode()
    + b'","processId":"q","y":"'
    + DATA.encode()
    + b'","chunk":""}}',
    "values": message("fs/getMetadata", {"path": "/", "x": [1] * 1000}),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_long_for_another_reason_is_refused(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "read_plain", None)

    assert len(REFUSED[what]) > SMALL.max_text_bytes
    connection = ServingConnection("test", SMALL)
    assert code(connection.receive(REFUSED[what])) == -32600


@pytest.mark.parametrize(
    ("beginning", "expected"),
    [
        (b'{"id":7,"method":"fs/edit","params":"', 7),
        (b' { "id" : -7 , "method" : "x', -7),
        (b'{"id":"a-b","method":"fs/edit","params":"', "a-b"),
        (b'{"id":"","method":"', ""),
        (b'{"id":7,"result":"', -1),
        (b'{"id":7,"params":{"method":"', -1),
        (b'{"method":"x","id":7,"params":"', -1),
        (b'{"id":"\\u0041","method":"', -1),
        (b'{"id":"' + b"i" * 257 + b'","method":"', -1),
        (b'{"id":7.5,"method":"', -1),
        (b'[{"id":7,"method":"', -1),
    ],
)
def test_the_answer_to_a_long_request_has_its_id(beginning: bytes, expected: int | str) -> None:
    found = event(beginning + b"\\n" * 2000)

    assert code(found) == -32600
    assert isinstance(found, Refusal)
    assert json.loads(found.reply)["id"] == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (message("process/write", {"processId": "p", "chunk": LONG}), -32602),
        (message("process/write", {"processId": "p", "chunk": DATA[:-1] + "!"}), -32602),
        (message("process/write", {"processId": "p", "chunk": DATA + '","processId":"' + DATA}), -32602),
    ],
)
def test_bad_data_is_an_error_of_its_request(data: bytes, expected: int) -> None:
    assert code(event(data)) == expected


@pytest.mark.parametrize("bad", [LONG, DATA + "!", DATA[:-2]])
def test_bad_data_of_a_file_is_found_when_it_is_used(bad: str) -> None:
    found = event(write_file(dataBase64=bad))

    assert isinstance(found, Call)
    assert isinstance(found.params, WriteFileParams)
    with pytest.raises(ValueError, match="base64"):
        found.params.data_base64.decode()


PIECES = st.sampled_from(
    [
        b'{"id":1,"method":"process/write","params":{',
        b'"processId":"p"',
        b'"chunk":"',
        b'"chunk":"QUJD"',
        b'"x":"',
        DATA.encode(),
        DATA.encode(),
        b'"',
        b",",
        b" ",
        b"\\",
        b'\\"',
        b"{",
        b"}",
        b"}}",
        b"[",
        b"]",
        b"\xc3\xa9",
    ]
)


@given(st.lists(PIECES, max_size=14).map(b"".join))
@example(b'{"id":1,"method":"process/write","params":{"processId":"p","chunk":"' + DATA.encode() + b'"}}')
@example(
    b'{"id":1,"method":"process/write","params":{"processId":"p","x":"\\\\"' + b" " * 2000 + b',"chunk":""}}'
)
@example(b'{"id":1,"method":"process/write","params":{"processId":"p","chunk":"\\"' + DATA.encode() + b'"}}')
def test_whatever_is_accepted_is_read_as_from_a_short_message(data: bytes) -> None:
    found = event(data)

    if isinstance(found, Call):
        assert comparable(found) == comparable(event(data, CodecLimits()))


def test_a_message_that_is_just_short_enough_is_read_as_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "read_large", None)
    data = message("fs/getMetadata", {"path": "/", "x": ""})
    data = message("fs/getMetadata", {"path": "/", "x": "y" * (SMALL.max_text_bytes - len(data))})

    assert len(data) == SMALL.max_text_bytes
    assert isinstance(event(data), Call)
