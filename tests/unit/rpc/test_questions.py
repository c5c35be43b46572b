"""The table of open questions: every order of asking, sending, cutting, answering and running out of time."""

from __future__ import annotations

import json
from math import inf
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from paddock.errors import TooManyQuestions
from paddock.protocol.question import EXEC_APPROVAL, ExecApprovalParams
from paddock.rpc.questions import OpenQuestions, Question, QuestionLimits

METHODS = (EXEC_APPROVAL,)
MAX_OPEN = 5


def params(question_id: str, process_id: str = "p", reason: str = "why") -> ExecApprovalParams:
    return ExecApprovalParams(
        question_id=question_id,
        process_id=process_id,
        exec_id="1",
        program="/bin/x",
        argv=["x"],
        cwd="/",
        matches=[],
        reason=reason,
    )


def asked(
    table: OpenQuestions, question_id: str, process_id: str = "p", timeout_s: float | None = None
) -> Question:
    return table.ask(EXEC_APPROVAL, params(question_id, process_id), now_s=100.0, timeout_s=timeout_s)


def issued(table: OpenQuestions) -> list[dict[str, Any]]:
    return [json.loads(message) for message in table.issue(METHODS)]


def test_a_question_goes_out_once_on_a_link_and_under_a_new_request_id_on_the_next() -> None:
    table = OpenQuestions(QuestionLimits(MAX_OPEN))
    asked(table, "a")
    (first,) = issued(table)
    assert (first["method"], first["params"]["questionId"]) == (EXEC_APPROVAL, "a")
    assert issued(table) == []
    table.cut()
    (second,) = issued(table)
    assert second["params"] == first["params"]
    assert second["id"] != first["id"]
    assert table.answered(first["id"]) is None
    question = table.answered(second["id"])
    assert question is not None
    assert (question.id, len(table)) == ("a", 0)


def test_only_requests_that_were_made_were_issued() -> None:
    table = OpenQuestions(QuestionLimits(MAX_OPEN))
    asked(table, "a")
    assert not table.was_issued(1)
    (request,) = issued(table)
    table.answered(request["id"])
    assert table.was_issued(request["id"])
    for never in (0, -1, request["id"] + 1, str(request["id"]), "", 2**63 - 1):
        assert not table.was_issued(never)


def test_a_question_that_the_client_does_not_answer_stays_for_others() -> None:
    table = OpenQuestions(QuestionLimits(MAX_OPEN))
    asked(table, "a")
    assert list(table.issue(())) == []
    assert len(issued(table)) == 1


def test_whoever_stops_half_way_gets_the_rest_later() -> None:
    table = OpenQuestions(QuestionLimits(MAX_OPEN))
    for name in "abc":
        asked(table, name)
    first = json.loads(next(table.issue(METHODS)))
    assert first["params"]["questionId"] == "a"
    assert [request["params"]["questionId"] for request in issued(table)] == ["b", "c"]


def test_the_number_and_the_size_of_open_questions_are_bounded() -> None:
    table = OpenQuestions(QuestionLimits(2, max_bytes=1000))
    with pytest.raises(TooManyQuestions, match="1000 bytes"):
        table.ask(EXEC_APPROVAL, params("x", reason="x" * 1000), now_s=0, timeout_s=None)
    asked(table, "a")
    asked(table, "b")
    with pytest.raises(TooManyQuestions, match="limited to 2"):
        asked(table, "c")
    table.close("a")
    asked(table, "c")
    assert [question.id for question in table] == ["b", "c"]


def test_room_comes_back_with_every_question_that_is_closed() -> None:
    table = OpenQuestions(QuestionLimits(10_000, max_bytes=1000))
    for number in range(5000):
        asked(table, str(number))
        assert table.close(str(number)) is not None


def test_text_that_json_can_not_carry_leaves_nothing_behind() -> None:
    table = OpenQuestions(QuestionLimits(1))
    with pytest.raises(UnicodeEncodeError):
        table.ask(EXEC_APPROVAL, params("x", reason="\udcff"), now_s=0, timeout_s=None)
    asked(table, "a")
    assert len(table) == 1


def test_questions_end_in_time_and_with_their_process() -> None:
    table = OpenQuestions(QuestionLimits(MAX_OPEN))
    asked(table, "late", timeout_s=5)
    asked(table, "soon", "q", timeout_s=1)
    asked(table, "never", "q")
    assert table.next_due_s == 101
    assert table.expire(100.5) == []
    assert [question.id for question in table.expire(101)] == ["soon"]
    assert [question.id for question in table.withdraw("q")] == ["never"]
    assert table.next_due_s == 105
    assert [question.id for question in table.withdraw()] == ["late"]
    assert (len(table), table.next_due_s, table.withdraw()) == (0, inf, [])


class AnyOrder(RuleBasedStateMachine):
    """A session that asks while links come and go. Nothing is answered twice, nothing is lost."""

    def __init__(self) -> None:
        super().__init__()
        self.table = OpenQuestions(QuestionLimits(MAX_OPEN))
        self.now_s = 0.0
        self.number = 0
        self.open: dict[str, float] = {}
        self.on_link: dict[int, str] = {}
        self.ever_issued: set[int] = set()

    @rule(timeout_s=st.none() | st.integers(0, 5), process_id=st.sampled_from("pq"))
    def ask(self, timeout_s: int | None, process_id: str) -> None:
        self.number += 1
        question_id = f"{process_id}{self.number}"

        def add() -> Question:
            return self.table.ask(
                EXEC_APPROVAL, params(question_id, process_id), now_s=self.now_s, timeout_s=timeout_s
            )

        if len(self.open) == MAX_OPEN:
            with pytest.raises(TooManyQuestions):
                add()
            return
        self.open[question_id] = inf if timeout_s is None else self.now_s + timeout_s
        add()

    @rule(most=st.integers(1, MAX_OPEN))
    def issue(self, most: int) -> None:
        requests = self.table.issue(METHODS)
        for _, message in zip(range(most), requests, strict=False):
            request = json.loads(message)
            assert request["id"] not in self.ever_issued
            assert request["params"]["questionId"] not in self.on_link.values()
            self.ever_issued.add(request["id"])
            self.on_link[request["id"]] = request["params"]["questionId"]

    @rule()
    def cut(self) -> None:
        self.table.cut()
        self.on_link.clear()

    @precondition(lambda self: self.ever_issued)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        request_id = data.draw(st.sampled_from(sorted(self.ever_issued)))
        assert self.table.was_issued(request_id)
        question = self.table.answered(request_id)
        expected = self.on_link.pop(request_id, None)
        if expected not in self.open:
            expected = None
        assert (question.id if question is not None else None) == expected
        if expected is not None:
            del self.open[expected]

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def answer_by_id(self, data: st.DataObject) -> None:
        question_id = data.draw(st.sampled_from(sorted(self.open)))
        assert self.table.close(question_id) is not None
        assert self.table.close(question_id) is None
        del self.open[question_id]

    @rule(seconds=st.integers(0, 3))
    def wait(self, seconds: int) -> None:
        self.now_s += seconds
        over = {question_id for question_id, due_at_s in self.open.items() if due_at_s <= self.now_s}
        assert {question.id for question in self.table.expire(self.now_s)} == over
        for question_id in over:
            del self.open[question_id]

    @rule(process_id=st.sampled_from("pq"))
    def end_process(self, process_id: str) -> None:
        ended = {question_id for question_id in self.open if question_id.startswith(process_id)}
        assert {question.id for question in self.table.withdraw(process_id)} == ended
        for question_id in ended:
            del self.open[question_id]

    @invariant()
    def agrees(self) -> None:
        assert [question.id for question in self.table] == list(self.open)
        assert self.table.next_due_s == min(self.open.values(), default=inf)


TestAnyOrder = AnyOrder.TestCase
