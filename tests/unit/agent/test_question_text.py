"""What a person is shown before saying yes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from paddock.agent.approval import ApprovalRequest
from paddock.agent.question_text import question_lines
from paddock.model.denial import Denial, DenialKind


def request(text: str) -> ApprovalRequest:
    return ApprovalRequest(
        approval_id="a",
        call_id="c",
        tool="exec_command",
        command=("/bin/sh", "-c", text),
        cwd=f"/{text}",
        reason=text,
        changes=(text,),
        rule=text,
        justification=text,
        denials=(Denial(DenialKind.WRITE, text, text, True),),
        is_retry=True,
    )


def test_question_has_the_command_the_directory_the_reason_and_the_difference() -> None:
    made = ApprovalRequest(
        approval_id="a",
        call_id="c",
        tool="exec_command",
        command=("/bin/sh", "-c", "make test"),
        cwd="/work",
        reason="the sandbox denied it",
        changes=("It may write /work/out.",),
        rule="user.rules:3",
        justification="May I?",
        denials=(
            Denial(DenialKind.WRITE, "/work/out", "root = read", True),
            Denial(DenialKind.WRITE, None, None, False),
        ),
        is_retry=True,
    )
    assert list(question_lines(made)) == [
        "Run this again?",
        "  command:   /bin/sh -c 'make test'",
        "  directory: /work",
        "  because:   the sandbox denied it",
        "  rule:      user.rules:3",
        "  denied:    write /work/out (root = read)",
        "  denied:    write something",
        "  the model: May I?",
        "  yes means: It may write /work/out.",
    ]


def test_question_shows_all_of_the_input() -> None:
    made = replace(request("sh"), stdin="first\n  command:   ls\n\x1b[2Jlast\n", is_terminal=True)
    lines = list(question_lines(made))
    assert lines[2:6] == [
        "  input:     | first",
        "             |   command:   ls",
        "             | \\u001b[2Jlast",
        "  input:     whatever the model types, as long as it runs",
    ]


def test_command_can_not_forge_a_line_of_the_question() -> None:
    forged = "true\n  yes means: nothing changes\x1b[2K\r\u202e"
    lines = list(question_lines(request(forged)))
    assert len(lines) == 8
    assert all(line.isprintable() for line in lines)
    assert lines[1] == ("  command:   /bin/sh -c 'true\\n  yes means: nothing changes\\u001b[2K\\r\\u202e'")


@given(st.text(alphabet=st.characters(exclude_categories=())))
def test_whatever_stands_in_a_question_stays_on_its_line(text: str) -> None:
    lines = list(question_lines(request(text)))
    assert len(lines) == (8 if text else 7)
    assert all(line.isprintable() for line in lines)
