"""Answers that stand for more than one execution."""

from __future__ import annotations

from paddock.intercept.approvals import MAX_REMEMBERED, Approvals, RememberedAnswers
from paddock.intercept.verdict import Answer
from paddock.model.verdict import Remember, Verdict
from tests.unit.intercept.cases import execution

PUSH = execution("/usr/bin/git", "push").subject
ONCE = Answer(Verdict.RUN, "the client")


def test_executions_of_the_same_kind_wait_for_one_answer() -> None:
    approvals = Approvals(RememberedAnswers())
    assert approvals.wait(PUSH, "1")
    assert not approvals.wait(PUSH, "2")
    assert approvals.wait(execution("/usr/bin/git", "push", "-f").subject, "3")
    assert approvals.settle(PUSH, ONCE) == ["1", "2"]
    assert approvals.settle(PUSH, ONCE) == []
    assert approvals.wait(PUSH, "4")


def test_program_name_arguments_and_directory_make_a_kind() -> None:
    others = (
        execution("/usr/bin/git", "pull"),
        execution("/opt/git", "push"),
        execution("/usr/bin/git", "push", called="/bin/git"),
        execution("/usr/bin/git", "push", arg0="git-push"),
        execution("/usr/bin/git", "push", cwd="/elsewhere"),
    )
    assert len({PUSH, *(other.subject for other in others)}) == 6
    assert execution("/usr/bin/git", "push", id="9", caller="/bin/sh").subject == PUSH


def test_a_question_can_be_withdrawn_when_the_last_has_left() -> None:
    approvals = Approvals(RememberedAnswers())
    approvals.wait(PUSH, "1")
    approvals.wait(PUSH, "2")
    assert not approvals.leave(PUSH, "1")
    assert not approvals.leave(PUSH, "1")
    assert approvals.leave(PUSH, "2")
    assert not approvals.leave(PUSH, "2")
    assert approvals.wait(PUSH, "3")


def test_an_answer_is_remembered_for_as_long_as_it_says() -> None:
    session = RememberedAnswers()
    first, second = Approvals(session), Approvals(session)
    pull = execution("/usr/bin/git", "pull").subject
    first.settle(PUSH, ONCE)
    assert first.known(PUSH) is None
    first.settle(PUSH, Answer(Verdict.RUN, "the client", remember=Remember.PROCESS))
    first.settle(pull, Answer(Verdict.DENY, "an operator", "no", Remember.SESSION))
    known = first.known(PUSH)
    assert known is not None
    assert (known.verdict, known.by) == (Verdict.RUN, "the client, before,")
    assert second.known(PUSH) is None
    of_session = second.known(pull)
    assert of_session is not None
    assert (of_session.verdict, of_session.reason) == (Verdict.DENY, "no")


def test_a_question_without_an_answer_is_asked_again() -> None:
    approvals = Approvals(RememberedAnswers())
    approvals.wait(PUSH, "1")
    assert approvals.settle(PUSH, None) == ["1"]
    assert approvals.known(PUSH) is None


def test_what_is_remembered_is_bounded_and_what_is_used_stays() -> None:
    remembered = RememberedAnswers()
    remembered.add(PUSH, ONCE)
    for number in range(MAX_REMEMBERED - 1):
        remembered.add(execution("/x", str(number)).subject, ONCE)
    assert remembered.find(PUSH) is ONCE
    remembered.add(execution("/x", "one more").subject, ONCE)
    assert len(remembered) == MAX_REMEMBERED
    assert remembered.find(PUSH) is ONCE
    assert remembered.find(execution("/x", "0").subject) is None
