from __future__ import annotations

from paddock.cli.exec_question import question_text
from paddock.cli.exec_summary import SHOWN, summary_lines
from paddock.model.decision import Action, Decision, Origin, RuleMatch
from paddock.model.execution_note import ExecutionNote, ExecutionSummary
from paddock.model.verdict import Verdict
from paddock.protocol.question import ExecApprovalParams, MatchedRule

TOUCH = "/usr/bin/touch"


def reason(*words: str, action: Action = Action.PROMPT) -> str:
    match = RuleMatch(("touch",), action, Origin("/team.rules", 3), "ask first", TOUCH)
    return Decision(action, (TOUCH, *words), (match,)).reason


def question(*words: str, name: str = "touch", rules: int = 1) -> str:
    matched = MatchedRule(
        prefix=["touch"], action=Action.PROMPT, path="/team.rules", line=3, justification="ask first"
    )
    return question_text(
        ExecApprovalParams(
            question_id="q",
            process_id="p",
            exec_id="1",
            program=TOUCH,
            argv=[name, *words],
            cwd="/w",
            matches=[matched] * rules,
            reason=reason(*words),
        )
    )


def test_a_question_says_each_thing_once() -> None:
    assert question("a b") == (
        "paddock run: /usr/bin/touch 'a b'\n  in /w\n  requires approval by /team.rules:3: ask first\n"
    )


def test_a_question_shows_another_name_and_further_rules() -> None:
    assert "\n  called ls\n" in question("x", name="ls")
    assert question("x", rules=2).count("\n  prompt by /team.rules:3: ask first") == 2


def test_what_a_command_chose_can_not_look_like_a_line_of_the_question() -> None:
    shown = question("x\n  in /elsewhere")
    assert shown.count("\n  in ") == 1


def note(verdict: Verdict, *words: str) -> ExecutionNote:
    return ExecutionNote("1", TOUCH, ("touch", *words), "/w", verdict, reason(*words))


def summary(*notes: ExecutionNote) -> list[str]:
    counts = {verdict: sum(note.verdict is verdict for note in notes) for verdict in Verdict}
    return list(summary_lines(ExecutionSummary(tuple(notes), len(notes), counts)))


def test_the_end_sums_up_what_happened_often_in_one_line() -> None:
    why = "(requires approval by /team.rules:3: ask first)"
    denied, escalated = note(Verdict.DENY, "a"), note(Verdict.ESCALATE, "b")
    assert summary(denied, escalated, denied, note(Verdict.RUN, "c")) == [
        f"escalated /usr/bin/touch b {why}",
        f"denied 2 times /usr/bin/touch a {why}",
    ]


def test_the_end_names_so_many_commands_and_counts_the_others() -> None:
    lines = summary(*[note(Verdict.DENY, str(number)) for number in range(SHOWN + 5)])
    assert len(lines) == SHOWN + 1
    assert lines[-1] == "denied 5 more"
