"""`paddock agent-demo`, answered from a pipe."""

from __future__ import annotations

import pytest

from tests.operators import Operator


@pytest.mark.parametrize(("answer", "content"), [(b"y\n", "written by the agent"), (b"n\n", "nothing yet")])
def test_demonstration_shows_a_denial_the_question_and_what_the_answer_does(
    operator: Operator, answer: bytes, content: str
) -> None:
    done = operator.paddock("agent-demo", stdin=answer)
    assert done.returncode == 0
    asked, shown = done.stderr.decode(), done.stdout.decode()
    assert "denied:    write" in asked
    assert "yes means: It may write" in asked
    assert shown.endswith(f"1\t{content}\n\n")
