"""Questions of servers beside those of agents, and which one is meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paddock.cli.approval_survey import Question, ServerQuestion, Survey, find
from paddock.cli.question_selection import Candidate
from paddock.errors import SelectionError
from paddock.protocol.control import OpenQuestion
from paddock.protocol.question import EXEC_APPROVAL

PARAMS: dict[str, Any] = {
    "questionId": "5a17",
    "processId": "p",
    "execId": "e",
    "program": "/usr/bin/touch",
    "argv": ["touch", "a\n  yes means: nothing\u202e"],
    "cwd": "/work",
    "matches": [
        {"prefix": ["touch"], "action": "allow", "path": "a.rules", "line": 1},
        {"prefix": ["touch"], "action": "prompt", "path": "team.rules", "line": 3},
    ],
    "reason": "a rule wants it",
}


def question(name: str = "5a17", method: str = EXEC_APPROVAL, **changes: Any) -> Question:
    opened = OpenQuestion(
        question_id=name,
        session_id="s",
        client_name="c",
        process_id="p",
        method=method,
        params=PARAMS | changes,
        sent=True,
        waited_ms=0,
        time_left_ms=None,
    )
    return ServerQuestion(Candidate(Path("/run/1.sock"), 1, opened))


def test_question_of_a_server_is_shown_as_an_agent_s_is() -> None:
    asked = question()
    assert list(asked.lines) == [
        "Let a running command execute this program?",
        "  command:   /usr/bin/touch $'a\\n  yes means: nothing\\u202e'",
        "  directory: /work",
        "  because:   a rule wants it",
        "  rule:      team.rules:3",
        "  yes means: It runs in the sandbox, where its caller is.",
    ]
    assert not asked.has_always


def test_question_of_another_kind_is_one_printable_line() -> None:
    [line] = question(method="other/question", program=7, reason="\x1b[2J").lines
    assert line.isprintable()


def test_beginning_of_an_id_finds_the_one_question_that_it_fits() -> None:
    first, second = question("5a17"), question("5a99")
    found = Survey([first, second], {"77aa": "it was answered already: denied"})
    assert find(found, "5a1") is first
    for wanted, told in (
        ("5a", "fits 2 questions"),
        ("77", "no longer open: it was answered already: denied"),
        ("zz", "no open question 'zz'"),
        ("", "no open question ''"),
    ):
        with pytest.raises(SelectionError, match=told):
            find(found, wanted)
