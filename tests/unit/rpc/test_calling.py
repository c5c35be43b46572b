from __future__ import annotations

import json
from typing import Any

import pytest

from paddock.errors import MalformedMessage, OperationFailed, ProtocolViolation, RequestError
from paddock.protocol.process import (
    ProcessParams,
    StartParams,
    TerminateParams,
    TerminateResult,
)
from paddock.protocol.process_event import OutputEvent
from paddock.rpc.calling import Answered, CallingConnection, Failed, Told

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
        {"method": "network/policyDecision", "params": {"processId": "p"}},
        {"method": "network/policyRequest", "id": 1, "params": {}},
    ],
)
def test_what_this_client_did_not_ask_for_is_ignored(message: Any) -> None:
    assert CallingConnection().receive(encode(message)) is None


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
