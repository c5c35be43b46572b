"""Plain requests take a short cut; nobody can tell from the outside."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from paddock.protocol import plain_message, plain_request
from paddock.protocol.call import Call
from paddock.protocol.codec import CodecLimits
from paddock.protocol.late_base64 import LateBase64
from paddock.protocol.methods import METHODS
from paddock.protocol.plain_request import read_plain
from paddock.rpc import serving
from paddock.rpc.questions import OpenQuestions, QuestionLimits
from paddock.rpc.serving import Event, ServingConnection
from scripts.reference.example import Example
from scripts.reference.examples import CONVERSATION

pytest.importorskip("paddock.protocol._scanner", reason="the scanner is not compiled: no Python headers")

LIMITS = CodecLimits()
BIG = bytes(range(256)) * 16
SPACE = b" " * 4096
"""Behind a short request it makes a long one."""


SANDBOX = {
    "permissions": {
        "type": "managed",
        "file_system": {
            "type": "restricted",
            "entries": [{"path": {"type": "path", "path": "file:///x"}, "access": "read"}] * 9,
        },
        "network": "restricted",
    },
    "windowsSandboxLevel": "disabled",
}
"""It stands behind the chunk and is longer than what mostly does."""


def message(method: str, params: Any, request_id: Any = 1, **more: Any) -> bytes:
    value = {"id": request_id, "method": method, "params": params} | more
    return json.dumps(value, separators=(",", ":")).encode()


def write(chunk: str, **more: Any) -> bytes:
    return message("process/write", {"processId": "p", "chunk": chunk} | more)


def event(data: bytes, limits: CodecLimits = LIMITS, *, is_operator: bool = False) -> Event:
    connection = ServingConnection("test", limits, is_operator=is_operator)
    connection.receive(message("initialize", {"clientName": "t"}))
    connection.greeted(OpenQuestions(QuestionLimits(1)))
    connection.receive(b'{"method":"initialized"}')
    return connection.receive(data)


def comparable(found: Event) -> Any:
    """What an event says, with base64 that is checked later in the form that all of it has."""
    if not isinstance(found, Call):
        return found
    params = {name: getattr(found.params, name) for name in found.params.__struct_fields__}
    for name, value in params.items():
        if isinstance(value, LateBase64):
            params[name] = value.text
    return found.id, found.method, type(found.params), params, found.size_bytes


def both_ways(data: bytes, limits: CodecLimits = LIMITS) -> tuple[Any, Any]:
    with pytest.MonkeyPatch.context() as patch:
        short = comparable(event(data, limits))
        patch.setattr(serving, "read_plain", lambda data, limits: None)
        return short, comparable(event(data, limits))


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**66), 2**66)
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
PATHS = st.sampled_from(["/x", "file:///x", "file:///x%20y", "http://x", "x", "", "/é", "file:///c:/x"])
CHUNKS = st.binary(max_size=9).map(lambda data: base64.b64encode(data).decode()) | st.text(
    alphabet='AQRgw=+/ \\"', max_size=6
)
PARAMS = st.dictionaries(
    st.sampled_from(
        ["processId", "chunk", "writeId", "sessionId", "dataBase64", "path", "sandbox", "maxBytes"]
    ),
    VALUES | PATHS | CHUNKS,
    max_size=5,
)
REQUESTS = st.builds(
    message,
    st.sampled_from([*METHODS, "unknown"]),
    PARAMS | VALUES,
    st.integers(-(2**66), 2**66) | SCALARS,
)


@pytest.mark.parametrize("space", [b"", SPACE])
@given(REQUESTS)
@example(write("QUJD"))
@example(write("QUI="))
@example(write("QUJ="))
@example(write("QR=="))
@example(write("QUJD", writeId=""))
@example(write("QR==", writeId="QQ=="))
@example(write("QQ==", writeId="QQ=="))
@example(write("=" * 2000))
@example(write("A" * 2000, writeId='"' + "B" * 2000))
@example(write(base64.b64encode(BIG).decode(), sandbox={"type": "x" * 40, "entries": [{"a": "b" * 40}] * 9}))
@example(write(base64.b64encode(BIG + b"a").decode()[:-3] + "R=="))
@example(message("fs/writeFile", {"path": "/x=", "dataBase64": base64.b64encode(BIG).decode()}))
@example(message("fs/getMetadata", {"path": "/" + "x" * 3000}))
@example(message("fs/getMetadata", {"path": "/x", "chunk": "A" * 3000}))
@example(b'{"id":1,"method":"environment/status","result":{}}')
@example(b'{"id":1,"method":"environment/status","params":null,"result":null}')
@example(b'{"id":1,"result":{}}')
@example(write('QU"JD'))
@example(write("Q\\JD"))
@example(write(base64.b64encode(BIG).decode(), writeId="w" * 300))
@example(
    message(
        "process/write", {"processId": "p", "dataBase64": base64.b64encode(BIG).decode(), "chunk": "QUJD"}
    )
)
@example(message("fs/writeFile", {"path": "/x", "dataBase64": "QR=="}))
@example(message("fs/writeFile", {"path": "/x", "dataBase64": "QUJD", "chunk": "QUJD"}))
@example(message("fs/getMetadata", {"path": "/x", "chunk": "\x01"}))
@example(
    message("http/request", {"requestId": "1", "method": "GET", "url": "http://x/", "bodyBase64": "QR=="})
)
@example(message("environment/status", None, jsonrpc="2.0"))
@example(message("environment/status", {}, trace={"traceparent": 1}))
@example(message("environment/status", {"unknown": 1}))
@example(message("fs/getMetadata", ["/x"]))
@example(message("control/status", None))
@example(message("initialize", {"clientName": "again"}))
@example(b'{"id":1,"method":"environment/status","params":{},"params":{}}')
@example(b'{"id":1,"method":"fs/getMetadata","params":{"path":"/x","path":"/y"}}')
@example(b'{"id":1,"method":"fs/getMetadata","params":{"path":"/x","more":{"a":1,"a":2}}}')
@example(message("environment/status", {"k" * 300: 1}))
@example(b'{"id":01,"method":"environment/status"}')
@example(b'{"id":-0,"method":"environment/status"}')
@example(b'{"id":1e2,"method":"environment/status"}')
@example(b' {\n"id" : 1 ,\t"method":"environment/status"\r}  ')
@example(b'{"id":1,"method":"environment/status"}}')
@example(b'{"id":1,"method":"environment/status",}')
@example(b'{"method":"environment/status"}')
@example(b"{}")
@example(b"")
def test_a_request_is_read_alike_both_ways(space: bytes, data: bytes) -> None:
    short, ordinary = both_ways(data + space)

    assert short == ordinary


def changed(params: Any, draw: st.DataObject) -> Any:
    """The same with one of its values, however deep, replaced or left out."""
    if not isinstance(params, dict) or not params:
        return draw.draw(VALUES | PATHS | CHUNKS)
    key = draw.draw(st.sampled_from(sorted(params)))
    if draw.draw(st.booleans()):
        return params | {key: changed(params[key], draw)}
    return {name: value for name, value in params.items() if name != key}


@given(st.sampled_from(CONVERSATION), st.data())
def test_an_example_of_the_reference_with_one_change_is_read_alike_both_ways(
    case: Example, draw: st.DataObject
) -> None:
    short, ordinary = both_ways(message(case.method, changed(case.params, draw)))

    assert short == ordinary


@pytest.mark.parametrize("space", [b"", SPACE])
@given(REQUESTS, st.data())
def test_a_damaged_request_is_read_alike_both_ways(space: bytes, data: bytes, draw: st.DataObject) -> None:
    at = draw.draw(st.integers(0, len(data)))
    end = draw.draw(st.integers(at, min(len(data), at + 3)))
    damaged = (
        data[:at]
        + draw.draw(st.sampled_from([b"", b'"', b"\\", b"{", b"]", b",", b"\xff", b"\0", b"0"]))
        + data[end:]
    )

    short, ordinary = both_ways(damaged + space)

    assert short == ordinary


@given(st.integers(5, 20), st.integers(2, 20), st.integers(0, 12), st.integers(0, 18))
def test_limits_hold_both_ways(max_values: int, max_depth: int, values: int, depth: int) -> None:
    nested: Any = [0] * values
    for _ in range(depth):
        nested = [nested]
    data = message("fs/getMetadata", {"path": "/x", "unknown": nested})

    short, ordinary = both_ways(data, CodecLimits(max_values=max_values, max_depth=max_depth))

    assert short == ordinary


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("environment/status", None),
        ("environment/info", {}),
        ("fs/getMetadata", {"path": "file:///tmp/x"}),
        ("fs/readFile", {"path": "/tmp/x", "followSymlinks": None, "sandbox": None}),
        ("process/read", {"processId": "p", "afterSeq": 3, "waitMs": 0}),
        ("process/write", {"processId": "p", "chunk": base64.b64encode(BIG).decode(), "writeId": "w"}),
        ("fs/writeFile", {"path": "/x", "dataBase64": base64.b64encode(BIG).decode()}),
        ("fs/writeBlock", {"handleId": "h", "offset": 0, "chunk": "QUJD"}),
        ("fs/writeBlock", {"handleId": "h", "offset": 0, "chunk": "QQ=="}),
        ("fs/writeFile", {"path": "/x", "dataBase64": base64.b64encode(BIG).decode(), "sandbox": SANDBOX}),
    ],
)
def test_ordinary_clients_take_the_short_cut(method: str, params: Any) -> None:
    found = read_plain(message(method, params), LIMITS)

    assert found is not None
    assert found.method is METHODS[method]


@given(st.binary(max_size=4096))
def test_a_chunk_in_a_view_of_a_buffer_outlives_the_buffer(chunk: bytes) -> None:
    buffer = bytearray(write(base64.b64encode(chunk).decode()))

    found = event(memoryview(buffer))  # type: ignore[arg-type]
    buffer[:] = bytes(len(buffer))

    assert isinstance(found, Call)
    assert found.params.chunk == chunk  # type: ignore[attr-defined]


def test_without_the_scanner_everything_goes_the_ordinary_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_request, "scan", plain_message.find_nothing)

    assert read_plain(write("QUJD"), LIMITS) is None
    assert isinstance(event(write("QUJD")), Call)
