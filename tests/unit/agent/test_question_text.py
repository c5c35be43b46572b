"""What a person is shown before saying yes."""

from __future__ import annotations

import pytest
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
        "             | $'\\x1b[2Jlast'",
        "  input:     whatever the model types, as long as it runs",
    ]


def test_command_can_not_forge_a_line_of_the_question() -> None:
    forged = "true\n  yes means: nothing changes\x1b[2K\r\u202e"
    lines = list(question_lines(request(forged)))
    assert len(lines) == 8
    assert all(line.isprintable() for line in lines)
    assert lines[1] == ("  command:   /bin/sh -c $'true\\n  yes means: nothing changes\\x1b[2K\\r\\u202e'")


def test_newline_is_told_from_a_backslash_and_an_n() -> None:
    assert lines_of(request("a\nb"))[1] == "  command:   /bin/sh -c $'a\\nb'"
    assert lines_of(request("a\\nb"))[1] == "  command:   /bin/sh -c 'a\\nb'"
    assert lines_of(request("a\\n\tb"))[1] == "  command:   /bin/sh -c $'a\\\\n\\tb'"
    assert lines_of(request("$'a\\nb'"))[1] != lines_of(request("a\nb"))[1]


def lines_of(made: ApprovalRequest) -> list[str]:
    return list(question_lines(made))


LOOK_ALIKE = [
    ("a\nb", "a\\nb"),
    ("a\x1bb", "a\\x1bb"),
    ("caf\u00e9", "cafe\u0301"),
    ("ls;id", "ls\u037eid"),
    ("/usr/bin/curl", "/usr/bin/\u0441url"),
    ("a\u200bb", "ab"),
    ("a\u202eb", "ab"),
    ("a\U000e0041b", "ab"),
    ("a\u3164b", "ab"),
    ("a\xa0b", "a b"),
    ("a\u0335b", "ab"),
    ("\udcff", "\\xff"),
    ("ab ", "ab"),
    ("", "\n"),
    ("a", "a\n"),
]


@pytest.mark.parametrize(("one", "other"), LOOK_ALIKE)
def test_texts_that_look_alike_are_told_apart_in_ascii(one: str, other: str) -> None:
    def shown(made: ApprovalRequest) -> list[str]:
        return [line for line in question_lines(made) if line.isascii()]

    made = replace(request("x"), stdin="", patch="", called="")
    for left, right in (
        (replace(made, command=("/bin/sh", one)), replace(made, command=("/bin/sh", other))),
        (replace(made, stdin=one), replace(made, stdin=other)),
        (replace(made, patch=f"{one}\n."), replace(made, patch=f"{other}\n.")),
        (replace(made, called=one), replace(made, called=other)),
        (replace(made, cwd=one), replace(made, cwd=other)),
    ):
        assert shown(left) != shown(right)


def test_long_question_says_so_at_both_ends() -> None:
    lines = list(question_lines(request("true; " + " " * 5000 + "id")))
    assert lines[1].endswith(": read it to its end")
    assert lines[-1].endswith(": its beginning may be out of sight")
    assert " " * 65 not in lines[2]


@pytest.mark.parametrize(
    "made",
    [
        replace(request("sh"), stdin="x\n" * 20),
        replace(request("sh"), patch="\n" * 20),
        replace(request("sh"), denials=(Denial(DenialKind.WRITE, "/a", None, True),) * 12),
        request("\u4e2d" * 100),
    ],
)
def test_question_of_more_rows_than_a_small_window_says_so(made: ApprovalRequest) -> None:
    lines = list(question_lines(made))
    assert lines[1].endswith(": read it to its end")
    assert lines[-1].endswith(": its beginning may be out of sight")
    assert not any("beware" in line for line in question_lines(replace(request("sh"), stdin="x\n" * 5)))


@given(st.text(alphabet=st.characters(exclude_categories=())))
def test_whatever_stands_in_a_question_stays_on_its_line(text: str) -> None:
    lines = list(question_lines(request(text)))
    labels = ("  in ASCII:", "  beware:")
    assert sum(not line.startswith(labels) for line in lines) == (8 if text else 7)
    assert all(line.isprintable() for line in lines)


def test_what_is_not_in_ascii_is_written_out_wherever_it_stands() -> None:
    lookalike = "d\u0430ta"
    made = replace(request(lookalike), proposed_prefix=(lookalike,))
    lines = list(question_lines(made))
    for label in ("command", "directory", "because", "rule", "denied", "the model", "yes means", "always"):
        [at] = [number for number, line in enumerate(lines) if line.startswith(f"  {label}:")]
        assert "d\\u0430ta" in lines[at + 1], label
        assert lines[at + 1].startswith("  in ASCII:  "), label
        assert lines[at + 1].isascii()
    assert not any("in ASCII" in line for line in question_lines(request("data")))


@given(st.text(), st.text())
def test_no_two_changes_look_the_same_in_ascii(one: str, other: str) -> None:
    shown = [list(question_lines(replace(request("x"), changes=(text,)))) for text in (one, other)]
    if not (one.isascii() or other.isascii()):
        assert (shown[0] == shown[1]) == (one == other)
