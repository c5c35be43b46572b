"""What becomes of a program that removes files by force, where a rule allows it."""

from __future__ import annotations

import pytest

from paddock.agent.command_rules import CommandRules
from paddock.agent.yield_clock import YieldClock
from paddock.mcp_server.pending_call import PendingCall
from paddock.mcp_server.question_asker import QuestionAsker
from paddock.mcp_server.shell_questions import BUILT_IN, ExecQuestions, ShellQuestions
from paddock.model.decision import Action
from paddock.model.verdict import Verdict
from paddock.protocol.question import ExecApprovalParams, MatchedRule
from paddock.rules.policy import Policy

ALLOWING = MatchedRule(prefix=["rm", "-rf", "build"], action=Action.ALLOW, path="user.rules", line=1)
ASKING = MatchedRule(prefix=["rm", "-rf"], action=Action.PROMPT, path=BUILT_IN, line=1)


def removal(name: str) -> ExecApprovalParams:
    """Return the question about busybox, which is called by a link, with the name that its caller chose."""
    return ExecApprovalParams(
        question_id="q",
        process_id="shell-1",
        exec_id="1",
        program="/bin/busybox",
        argv=[name, "-rf", "build"],
        cwd="/work",
        matches=[ALLOWING, ASKING],
        reason="it removes files by force",
    )


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("rm", Verdict.ESCALATE),
        ("/bin/rm", Verdict.ESCALATE),
        # It would be a shell, and the rule does not say so.
        ("sh", Verdict.DENY),
        ("/bin/sh", Verdict.DENY),
        ("", Verdict.DENY),
    ],
)
async def test_rule_lets_out_what_is_called_by_the_name_that_it_allows(name: str, verdict: Verdict) -> None:
    questions, call = ExecQuestions(), PendingCall("shell", no_prompt="nobody can be asked")
    shell = ShellQuestions(questions, QuestionAsker(60), CommandRules(Policy()))
    with shell.asked_for("shell-1", call, YieldClock()):
        assert (await questions(removal(name))).verdict is verdict
