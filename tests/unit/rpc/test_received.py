"""What a client knows of the questions that it was asked."""

from __future__ import annotations

from paddock.rpc.received import REMEMBERED_ANSWERS, Arrival, ReceivedQuestions


def test_a_question_that_comes_again_is_answered_once_under_the_latest_id() -> None:
    questions: ReceivedQuestions[str] = ReceivedQuestions()
    assert questions.asked("q", 1) is Arrival.ANSWER
    questions.cut()
    assert questions.asked("q", 7) is Arrival.WAIT
    assert questions.settled("q", "yes") == 7
    assert questions.answer_to("q") == "yes"


def test_an_answer_that_finds_no_link_waits_for_the_next() -> None:
    questions: ReceivedQuestions[str] = ReceivedQuestions()
    questions.asked("q", 1)
    questions.cut()
    assert questions.settled("q", "yes") is None
    assert questions.answer_to("q") == "yes"


def test_an_answer_to_a_closed_question_goes_nowhere() -> None:
    questions: ReceivedQuestions[str] = ReceivedQuestions()
    questions.asked("q", 1)
    questions.closed("q")
    assert questions.settled("q", "yes") is None
    assert questions.answer_to("q") is None
    assert "q" not in questions


def test_a_lost_session_takes_its_questions_with_it() -> None:
    questions: ReceivedQuestions[str] = ReceivedQuestions()
    questions.asked("q", 1)
    questions.asked("r", 2)
    questions.settled("r", "yes")
    questions.clear()
    assert (len(questions), questions.answer_to("r"), questions.settled("q", "no")) == (0, None, None)


def test_questions_and_answers_are_bounded() -> None:
    questions: ReceivedQuestions[int] = ReceivedQuestions(max_questions=2)
    assert questions.asked("a", 1) is questions.asked("b", 2) is Arrival.ANSWER
    assert questions.asked("c", 3) is Arrival.REFUSE
    assert questions.asked("a", 4) is Arrival.WAIT
    questions.settled("a", 0)
    questions.settled("b", 0)
    for number in range(REMEMBERED_ANSWERS + 1):
        questions.asked(str(number), number)
        questions.settled(str(number), number)
    assert questions.answer_to("0") is None
    assert questions.answer_to("1") == 1
