"""Large chunks are read and written like small ones."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.errors import InvalidParams
from paddock.model.stream import Stream
from paddock.protocol.bulk import BULK_BYTES
from paddock.protocol.codec import CodecLimits, convert_params, read_json
from paddock.protocol.envelope import begin_file, write_notification, write_result
from paddock.protocol.fs import ReadBlockResult
from paddock.protocol.process import WriteParams
from paddock.protocol.process_event import OutputEvent

LIMITS = CodecLimits()
BIG = bytes(range(256)) * 16


def message(chunk: Any, **more: Any) -> bytes:
    params = {"processId": "p", "chunk": chunk} | more
    return json.dumps({"id": 1, "method": "process/write", "params": params}, separators=(",", ":")).encode()


def read(data: bytes) -> WriteParams:
    return convert_params(read_json(data, LIMITS)["params"], WriteParams)


@given(st.binary(min_size=BULK_BYTES, max_size=4 * BULK_BYTES))
def test_a_large_chunk_comes_out_as_it_was(chunk: bytes) -> None:
    assert read(message(base64.b64encode(chunk).decode())).chunk == chunk


@given(st.binary(max_size=3 * BULK_BYTES), st.text(), st.sampled_from(Stream))
def test_output_of_any_size_is_valid_json(chunk: bytes, process_id: str, stream: Stream) -> None:
    event = OutputEvent(process_id=process_id, seq=7, stream=stream, chunk=chunk)

    found = json.loads(write_notification("process/output", event))

    assert found["params"] == {
        "processId": process_id,
        "seq": 7,
        "stream": stream.value,
        "chunk": base64.b64encode(chunk).decode(),
    }


@pytest.mark.parametrize(
    "text",
    [
        base64.b64encode(BIG).decode()[:-1],
        base64.b64encode(BIG).decode() + "=",
        "!" + base64.b64encode(BIG).decode()[1:],
        base64.b64encode(BIG + b"a").decode()[:-3] + "R==",
        "é" * 3000,
    ],
)
def test_a_large_chunk_that_is_not_strict_base64_is_refused_as_a_small_one_is(text: str) -> None:
    with pytest.raises(InvalidParams, match=r"params\.chunk"):
        read(message(text))


def test_escaped_slashes_in_a_large_chunk_are_understood() -> None:
    text = base64.b64encode(b"\xff" * 4000).decode()
    data = message("@").replace(b"@", text.replace("/", r"\/").encode())

    assert read(data).chunk == b"\xff" * 4000


def test_a_chunk_of_another_object_is_not_taken_for_the_parameter() -> None:
    big = base64.b64encode(BIG).decode()
    data = json.dumps(
        {"id": 1, "other": {"chunk": big}, "params": {"processId": "p", "chunk": "YQ=="}},
        separators=(",", ":"),
    ).encode()

    assert read(data).chunk == b"a"
    assert read_json(data, LIMITS)["other"]["chunk"] == big


def test_duplicate_chunks_are_refused_however_large() -> None:
    big = base64.b64encode(BIG).decode()
    data = ('{"params":{"processId":"p","chunk":"' + big + '","chunk":"' + big + '"}}').encode()

    with pytest.raises(Exception, match="duplicate"):
        read(data)


@given(st.binary(max_size=3000), st.booleans())
def test_a_block_of_any_size_is_valid_json(chunk: bytes, eof: bool) -> None:
    message = json.loads(write_result(7, ReadBlockResult(chunk=chunk, eof=eof)))

    assert message == {"id": 7, "result": {"eof": eof, "chunk": base64.b64encode(chunk).decode()}}


@given(st.lists(st.binary(max_size=9).filter(lambda piece: len(piece) % 3 == 0)), st.binary(max_size=9))
def test_a_file_in_pieces_is_the_same_as_in_one(pieces: list[bytes], last: bytes) -> None:
    answer = begin_file("x")
    for piece in (*pieces, last):
        answer.add(piece)

    content = base64.b64encode(b"".join((*pieces, last))).decode()
    assert json.loads(answer.finish()) == {"id": "x", "result": {"dataBase64": content}}
