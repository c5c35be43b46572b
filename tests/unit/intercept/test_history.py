"""The verdicts of a process, as its end tells them."""

from __future__ import annotations

from paddock.intercept.history import MAX_ARGUMENTS, MAX_WORD_CHARS, History, shown
from paddock.intercept.verdict import ExecVerdict, Ground
from paddock.model.verdict import Verdict
from tests.unit.intercept.cases import execution

PLAIN = ExecVerdict(Verdict.RUN, Ground.NO_RULE, "no rule")
DENIED = ExecVerdict(Verdict.DENY, Ground.RULE, "forbidden")


def test_plain_runs_are_counted_and_the_first_of_the_others_kept() -> None:
    history = History(max_entries=2)
    for number in range(5):
        history.add(execution("/bin/true"), PLAIN)
        history.add(execution("/bin/rm", id=str(number)), DENIED)
    assert history.counts == {Verdict.RUN: 5, Verdict.ESCALATE: 0, Verdict.DENY: 5}
    assert history.total == 5
    assert [(entry.exec_id, entry.program) for entry in history.entries] == [
        ("0", "/bin/rm"),
        ("1", "/bin/rm"),
    ]


def test_long_arguments_are_cut_and_say_so() -> None:
    assert shown(("a", "b")) == ("a", "b")
    cut = shown(("x" * 5000, *("y" for _ in range(100))))
    assert (len(cut), cut[-1]) == (MAX_ARGUMENTS + 1, "…")
    assert cut[0] == "x" * MAX_WORD_CHARS + "…"
