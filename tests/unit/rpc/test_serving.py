"""The server's side of the handshake and of request checking."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from msgspec.structs import replace

from paddock.protocol import plain_request
from paddock.protocol.call import Call
from paddock.protocol.codec import CodecLimits
from paddock.protocol.envelope import Response, read_message
from paddock.protocol.methods import METHODS
from paddock.protocol.question import EXEC_APPROVAL, ExecApprovalParams
from paddock.rpc.questions import OpenQuestions, QuestionLimits
from paddock.rpc.serving import Drop, Event, Ready, Refusal, Reply, ServingConnection, State


def connection(state: State = State.NEW, *, is_operator: bool = False) -> ServingConnection:
    made = ServingConnection("test", CodecLimits(), is_operator=is_operator)
    if state is not State.NEW:
        send(made, {"id": 1, "method": "initialize", "params": {"clientName": "t"}})
        made.greeted(OpenQuestions(QuestionLimits(1)))
    if state is State.READY:
        send(made, {"method": "initialized"})
    return made


def send(made: ServingConnection, message: Any) -> Event:
    return made.receive(json.dumps(message).encode())


def refusal(event: Event) -> tuple[Any, int]:
    assert isinstance(event, Refusal)
    reply = json.loads(event.reply)
    assert list(reply) == ["error", "id"]
    assert list(reply["error"]) == ["code", "message"]
    return reply["id"], reply["error"]["code"]


STATUS = {"id": 7, "method": "environment/status"}


@pytest.mark.parametrize("state", [State.NEW, State.GREETED])
def test_requests_wait_for_the_handshake(state: State) -> None:
    assert refusal(send(connection(state), STATUS)) == (7, -32600)


def test_after_the_handshake_requests_are_calls() -> None:
    event = send(connection(State.READY), STATUS)

    assert isinstance(event, Call)
    assert (event.id, event.method.name) == (7, "environment/status")


def test_a_method_for_operators_does_not_exist_for_others() -> None:
    request = {"id": 7, "method": "control/status"}
    for state in State:
        assert refusal(send(connection(state), request)) == (7, -32601)
    assert refusal(send(connection(State.NEW, is_operator=True), request)) == (7, -32600)
    assert isinstance(send(connection(State.READY, is_operator=True), request), Call)


def test_initialize_may_be_retried_until_it_succeeded() -> None:
    made = connection()
    initialize = {"id": 1, "method": "initialize", "params": {"clientName": "t"}}

    assert isinstance(send(made, initialize), Call)
    assert isinstance(send(made, initialize), Call)
    made.greeted(OpenQuestions(QuestionLimits(1)))
    assert refusal(send(made, initialize)) == (1, -32600)


def test_an_answer_counts_only_if_its_request_was_made() -> None:
    questions = OpenQuestions(QuestionLimits(1))
    made = connection()
    answer = {"id": 1, "result": {"verdict": "run"}}
    assert isinstance(send(made, answer), Drop)
    made.greeted(questions)
    send(made, {"method": "initialized"})
    assert isinstance(send(made, answer), Drop)
    params = ExecApprovalParams(
        question_id="q",
        process_id="p",
        exec_id="1",
        program="/x",
        argv=["x"],
        cwd="/",
        matches=[],
        reason="r",
    )
    questions.ask(EXEC_APPROVAL, params, now_s=0, timeout_s=None)
    assert len(list(questions.issue([EXEC_APPROVAL]))) == 1
    assert send(made, answer) == Reply(1, {"verdict": "run"})
    assert send(made, {"id": 1, "error": {"code": -1, "message": "no"}}) == Reply(1, None, "no")
    questions.close("q")
    assert isinstance(send(made, answer), Reply)
    for never in (2, 0, "1"):
        assert isinstance(send(made, answer | {"id": never}), Drop)
    # Neither a response nor anything else: told as such, and the connection goes on.
    assert isinstance(send(made, {"id": 1, "error": "no"}), Refusal)


def test_bad_parameters_are_told_before_the_wrong_moment() -> None:
    event = send(connection(), {"id": "a", "method": "process/read", "params": {}})

    assert refusal(event) == ("a", -32602)


def test_unknown_methods_are_told_before_everything() -> None:
    assert refusal(send(connection(), {"id": 1, "method": "nope", "params": 5})) == (1, -32601)


def test_methods_of_later_versions_check_their_parameters_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "fs/readFile", replace(METHODS["fs/readFile"], result_type=None))
    # Those that other tests have called are remembered as they were.
    monkeypatch.setattr(plain_request, "_readers", {})
    made = connection(State.READY)

    assert refusal(send(made, {"id": 1, "method": "fs/readFile", "params": {}})) == (1, -32602)
    assert refusal(send(made, {"id": 1, "method": "fs/readFile", "params": {"path": "/x"}})) == (1, -32601)


@pytest.mark.parametrize("method", ["process/list", "no/such"])
def test_a_stray_notification_is_answered_and_the_connection_goes_on(method: str) -> None:
    made = connection(State.READY)

    assert refusal(send(made, {"method": method})) == (-1, -32600)
    assert isinstance(send(made, STATUS), Call)


def test_initialized_may_be_repeated_with_any_parameters() -> None:
    assert isinstance(send(connection(State.READY), {"method": "initialized", "params": 5}), Ready)


def test_initialized_too_early_ends_the_connection() -> None:
    assert isinstance(send(connection(), {"method": "initialized"}), Drop)


def test_an_answer_that_is_good_and_bad_is_bad() -> None:
    text = b'{"id":1,"result":{"verdict":"run"},"error":{"code":1,"message":"x"}}'
    assert read_message(text, CodecLimits()) == Response(1, problem="x")


@pytest.mark.parametrize("body", [{"result": {}}, {"error": {"code": 1, "message": "x"}}])
def test_an_answer_to_nothing_ends_the_connection(body: dict[str, Any]) -> None:
    assert isinstance(send(connection(State.READY), {"id": 3} | body), Drop)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "5",
        "{}",
        '{"id":5}',
        '{"id":null,"method":"x"}',
        '{"id":1.5,"method":"x"}',
        '{"id":true,"method":"x"}',
        '{"id":9223372036854775808,"method":"x"}',
        '{"id":1,"method":5}',
        '{"id":1,"method":"x","trace":5}',
        '{"id":1,"method":"x","trace":{"traceparent":5}}',
        '{"id":7,"error":{}}',
        '{"id":7,"error":{"code":"1","message":"x"}}',
        '{"id":1,"method":"x","id":1}',
        '[{"id":1,"method":"x"}]',
    ],
)
def test_what_is_no_envelope_gets_an_error_of_id_minus_one(text: str) -> None:
    assert refusal(connection(State.READY).receive(text.encode())) == (-1, -32600)


@pytest.mark.parametrize("request_id", [0, -7, 2**63 - 1, -(2**63), "", "abc"])
def test_ids_come_back_as_they_were(request_id: Any) -> None:
    assert refusal(send(connection(), {"id": request_id, "method": "nope"})) == (request_id, -32601)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


class AnyMessageInAnyOrder(RuleBasedStateMachine):
    """Whatever comes, the machine answers with one event and its state only moves forward."""

    def __init__(self) -> None:
        super().__init__()
        self.connection = ServingConnection("test", CodecLimits())

    def check(self, message: bytes) -> Event:
        before = self.connection.state
        event = self.connection.receive(message)
        order = list(State)
        assert order.index(self.connection.state) >= order.index(before)
        if isinstance(event, Call):
            assert event.method.name == "initialize" or before is State.READY
        if isinstance(event, Refusal):
            json.loads(event.reply)
        return event

    @rule(data=st.binary(max_size=50))
    def garbage(self, data: bytes) -> None:
        assert isinstance(self.check(data), Refusal)

    @rule(method=st.sampled_from(sorted(METHODS)) | st.text(), params=JSON_VALUES, request_id=JSON_VALUES)
    def any_request(self, method: str, params: Any, request_id: Any) -> None:
        self.check(json.dumps({"id": request_id, "method": method, "params": params}).encode())

    @rule()
    def initialize(self) -> None:
        message = {"id": 1, "method": "initialize", "params": {"clientName": "t"}}
        if isinstance(self.check(json.dumps(message).encode()), Call):
            self.connection.greeted(OpenQuestions(QuestionLimits(1)))

    @rule()
    def initialized(self) -> None:
        event = self.check(b'{"method":"initialized"}')
        assert isinstance(event, Drop if self.connection.state is State.NEW else Ready)

    @rule()
    def status(self) -> None:
        event = self.check(b'{"id":1,"method":"environment/status"}')
        assert isinstance(event, Call if self.connection.state is State.READY else Refusal)


TestAnyMessageInAnyOrder = AnyMessageInAnyOrder.TestCase
TestAnyMessageInAnyOrder.settings = settings(max_examples=30)
"""Fifty steps each. The measurement of lines makes each of them several times as long."""


@given(JSON_VALUES)
def test_no_value_breaks_the_reader(value: Any) -> None:
    connection(State.READY).receive(json.dumps(value).encode())
