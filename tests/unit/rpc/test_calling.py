from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.errors import MalformedMessage, OperationFailed, ProtocolViolation, RequestError
from paddock.model.stream import Stream
from paddock.protocol.fs import FollowablePathParams, ReadBlockParams, ReadBlockResult, WriteBlockParams
from paddock.protocol.path import parse_path
from paddock.protocol.process import (
    ProcessParams,
    ReadParams,
    StartParams,
    TerminateParams,
    TerminateResult,
    WriteParams,
)
from paddock.protocol.process_event import OutputEvent
from paddock.protocol.question import EXEC_APPROVAL, ExecApprovalParams
from paddock.protocol.text import EditParams, EditResult, TextEdit
from paddock.rpc.calling import Answered, Asked, CallingConnection, Failed, Told, Unanswerable

TERMINATE = "process/terminate"


def encode(message: Any) -> bytes:
    return json.dumps(message).encode()


def ask(calling: CallingConnection) -> int | str:
    request_id, _ = calling.request(TERMINATE, TerminateParams(process_id="p"))
    return request_id


def test_a_request_has_an_id_of_its_own_and_only_the_members_it_needs() -> None:
    calling = CallingConnection()
    first, message = calling.request("process/snapshot", ProcessParams(process_id="p"))
    second, bare = calling.request("process/list", None)
    assert json.loads(message) == {"id": first, "method": "process/snapshot", "params": {"processId": "p"}}
    assert json.loads(bare) == {"id": second, "method": "process/list"}
    assert first != second


def test_the_handshake_is_completed_by_a_notification() -> None:
    assert json.loads(CallingConnection().initialized()) == {"method": "initialized", "params": {}}


def test_answers_find_their_requests_in_any_order() -> None:
    calling = CallingConnection()
    first, second = ask(calling), ask(calling)
    assert calling.receive(encode({"id": second, "result": {"running": True}})) == Answered(
        second, TerminateResult(running=True)
    )
    assert calling.receive(encode({"id": first, "result": {"running": False}})) == Answered(
        first, TerminateResult(running=False)
    )


def test_an_error_becomes_the_exception_of_its_code() -> None:
    calling = CallingConnection()
    event = calling.receive(encode({"id": ask(calling), "error": {"code": -32603, "message": "no"}}))
    assert isinstance(event, Failed)
    assert type(event.error) is OperationFailed
    assert str(event.error) == "no"


def test_an_unknown_error_code_stays_visible() -> None:
    calling = CallingConnection()
    event = calling.receive(encode({"id": ask(calling), "error": {"code": -1234, "message": "odd"}}))
    assert isinstance(event, Failed)
    assert type(event.error) is RequestError
    assert str(event.error) == "odd (error code -1234)"


def test_an_answer_that_nobody_waits_for_any_more_is_ignored() -> None:
    calling = CallingConnection()
    request_id = ask(calling)
    calling.forget(request_id)
    assert calling.receive(encode({"id": request_id, "result": {"running": True}})) is None
    assert calling.receive(encode({"id": 999, "error": {"code": -1, "message": ""}})) is None


def test_a_second_answer_is_ignored() -> None:
    calling = CallingConnection()
    answer = encode({"id": ask(calling), "result": {"running": True}})
    assert isinstance(calling.receive(answer), Answered)
    assert calling.receive(answer) is None


def test_a_notification_is_decoded_with_fields_of_later_versions_ignored() -> None:
    params = {"processId": "p", "seq": 1, "stream": "stderr", "chunk": "aGk=", "colour": "red"}
    event = CallingConnection().receive(encode({"method": "process/output", "params": params}))
    assert isinstance(event, Told)
    assert isinstance(event.params, OutputEvent)
    assert event.params.chunk == b"hi"


@pytest.mark.parametrize(
    "message",
    [
        {"method": "network/unheardOf", "params": {"processId": "p"}},
        {"method": "network/unheardOf", "id": 1, "params": {}},
    ],
)
def test_what_this_client_did_not_ask_for_is_ignored(message: Any) -> None:
    assert CallingConnection().receive(encode(message)) is None


QUESTION = {
    "questionId": "q",
    "processId": "p",
    "execId": "1",
    "program": "/bin/x",
    "argv": ["x"],
    "cwd": "/",
    "matches": [],
    "reason": "why",
}


def test_a_request_of_the_server_is_decoded_with_fields_of_later_versions_ignored() -> None:
    message = {"id": 4, "method": EXEC_APPROVAL, "params": QUESTION | {"colour": "red"}}
    event = CallingConnection().receive(encode(message))
    assert isinstance(event, Asked)
    assert isinstance(event.params, ExecApprovalParams)
    assert (event.id, event.params.question_id, event.params.argv) == (4, "q", ["x"])


@pytest.mark.parametrize("params", [None, {}, [], QUESTION | {"argv": "x"}])
def test_a_request_of_the_server_that_can_not_be_understood_is_answered_with_an_error(params: Any) -> None:
    event = CallingConnection().receive(encode({"id": 4, "method": EXEC_APPROVAL, "params": params}))
    assert isinstance(event, Unanswerable)
    reply = json.loads(event.reply)
    assert (reply["id"], reply["error"]["code"]) == (4, -32602)


@pytest.mark.parametrize(
    "message",
    [
        {"method": "process/exited", "params": {"processId": "p"}},
        {
            "method": "process/output",
            "params": {"processId": "p", "seq": 1, "stream": "stdout", "chunk": "!"},
        },
        {"method": "process/closed"},
        {"result": {}},
        {},
        {"id": 1, "result": {"running": "perhaps"}},
        {"id": 1},
        {"id": -1, "error": {"code": -32600, "message": "failed to parse"}},
    ],
)
def test_a_message_that_breaks_the_protocol_ends_the_connection(message: Any) -> None:
    calling = CallingConnection()
    assert ask(calling) == 1
    with pytest.raises(ProtocolViolation):
        calling.receive(encode(message))


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b"\xff", b'{"id": 1.5, "result": {}}'])
def test_something_that_is_no_message_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedMessage):
        CallingConnection().receive(data)


def test_a_request_that_json_can_not_carry_leaves_nothing_behind() -> None:
    calling = CallingConnection()
    params = StartParams(process_id="p", argv=["\udcff"], cwd="/", env={}, tty=False)  # type: ignore[arg-type]
    with pytest.raises(UnicodeEncodeError):
        calling.request("process/start", params)
    assert ask(calling) == 1


# Small ones go through the JSON parser, large ones past it.
CHUNKS = st.builds(lambda piece, count: piece * count, st.binary(max_size=7), st.sampled_from((1, 1000)))


def dense(message: Any) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode()


@given(CHUNKS, st.text())
def test_input_of_any_size_is_sent_as_valid_json(chunk: bytes, name: str) -> None:
    calling = CallingConnection()

    _, to_process = calling.request("process/write", WriteParams(process_id=name, chunk=chunk, write_id="w"))
    _, to_file = calling.request("fs/writeBlock", WriteBlockParams(handle_id=name, offset=3, chunk=chunk))

    encoded = b64encode(chunk).decode()
    assert json.loads(to_process)["params"] == {"processId": name, "chunk": encoded, "writeId": "w"}
    assert json.loads(to_file)["params"] == {"handleId": name, "offset": 3, "chunk": encoded}


@given(CHUNKS, st.booleans(), st.booleans())
def test_a_block_of_any_size_arrives_as_it_was_sent(chunk: bytes, is_last: bool, is_first: bool) -> None:
    calling = CallingConnection()
    request_id, _ = calling.request("fs/readBlock", ReadBlockParams(handle_id="h", offset=0, len=4000))
    result = {"chunk": b64encode(chunk).decode(), "eof": is_last}
    if not is_first:
        result = dict(reversed(result.items()))

    answer = calling.receive(dense({"id": request_id, "result": result}))

    assert answer == Answered(request_id, ReadBlockResult(chunk=chunk, eof=is_last))


@given(CHUNKS)
def test_a_file_and_output_of_any_size_arrive_as_they_were_sent(content: bytes) -> None:
    calling = CallingConnection()
    encoded = b64encode(content).decode()
    request_id, _ = calling.request("fs/readFile", FollowablePathParams(path=parse_path("/x")))
    output = {"processId": "p", "seq": 1, "stream": "stdout", "chunk": encoded}

    answer = calling.receive(dense({"id": request_id, "result": {"dataBase64": encoded}}))
    told = calling.receive(dense({"method": "process/output", "params": output}))

    assert isinstance(answer, Answered)
    assert getattr(answer.result, "data_base64", None) == content
    assert isinstance(told, Told)
    assert told.params == OutputEvent(process_id="p", seq=1, stream=Stream.STDOUT, chunk=content)


@given(st.lists(CHUNKS, max_size=3))
def test_chunks_of_retained_output_arrive_whatever_their_sizes(chunks: list[bytes]) -> None:
    calling = CallingConnection()
    request_id, _ = calling.request("process/read", ReadParams(process_id="p"))
    listed = [
        {"seq": seq, "stream": "stdout", "chunk": b64encode(chunk).decode()}
        for seq, chunk in enumerate(chunks, 1)
    ]
    result = {
        "chunks": listed,
        "nextSeq": 9,
        "exited": False,
        "exitCode": None,
        "closed": False,
        "failure": None,
        "sandboxDenied": False,
    }

    answer = calling.receive(dense({"id": request_id, "result": result}))

    assert isinstance(answer, Answered)
    assert [chunk.chunk for chunk in getattr(answer.result, "chunks", ())] == chunks


@pytest.mark.parametrize("chunk", ["A" * 2001, "%" * 2000, "é" * 2000])
def test_a_large_chunk_that_is_not_base64_is_a_violation(chunk: str) -> None:
    calling = CallingConnection()
    request_id, _ = calling.request("fs/readBlock", ReadBlockParams(handle_id="h", offset=0, len=4000))
    with pytest.raises(ProtocolViolation, match="fs/readBlock can't be understood"):
        calling.receive(dense({"id": request_id, "result": {"chunk": chunk, "eof": False}}))


@pytest.mark.parametrize("diff", ["A" * 3000 + "=", '"' + "A" * 3000, "A" * 3000 + '"', "é" * 999])
def test_a_long_text_arrives_though_it_is_no_base64(diff: str) -> None:
    calling = CallingConnection()
    params = EditParams(path=parse_path("/x"), edits=[TextEdit(old="a", new="b")])
    request_id, _ = calling.request("fs/edit", params)

    assert calling.receive(dense({"id": request_id, "result": {"diff": diff}})) == Answered(
        request_id, EditResult(diff=diff)
    )


def test_bulk_that_nobody_asked_for_is_ignored() -> None:
    chunk = "A" * 4000

    assert CallingConnection().receive(dense({"id": 7, "result": {"chunk": chunk, "eof": True}})) is None
    assert CallingConnection().receive(dense({"method": "no/such", "params": {"chunk": chunk}})) is None
