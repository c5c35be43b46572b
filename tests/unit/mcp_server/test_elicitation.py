"""Questions in the words of MCP, and what answers to them mean."""

from __future__ import annotations

from msgspec.structs import replace

from paddock.agent.approval import Approval, ApprovalRequest
from paddock.mcp_server.elicitation import decision_of, message, schema

REQUEST = ApprovalRequest(
    approval_id="a",
    call_id="c",
    tool="shell",
    command=("/usr/bin/git", "init"),
    cwd="/work",
    reason="a rule wants it",
    changes=("It runs.",),
)
UNCLEAR = replace(REQUEST, command=("/usr/bin/touch", "\ufffd"), is_exact=False)


def choices(request: ApprovalRequest) -> list[str]:
    found: list[str] = schema(request)["properties"]["decision"]["enum"]
    return found


def test_question_has_the_name_of_a_program_that_is_not_its_own() -> None:
    assert message(REQUEST) == "Allow agent to run `/usr/bin/git init` in `/work`?"
    named = message(replace(REQUEST, called="rm\n"))
    assert named == "Allow agent to run `/usr/bin/git init`, called `$'rm\\n'`, in `/work`?"


def test_answer_to_a_question_that_is_not_exact_holds_once() -> None:
    assert "session" in choices(REQUEST)
    assert decision_of(REQUEST, "accept", {"decision": "session"}).approval is Approval.APPROVED_FOR_SESSION
    assert "can't be shown" in message(UNCLEAR)
    assert choices(UNCLEAR) == ["once", "decline"]
    assert decision_of(UNCLEAR, "accept", {"decision": "session"}).approval is Approval.DENIED
    assert decision_of(UNCLEAR, "accept", {"decision": "once"}).approval is Approval.APPROVED


def test_form_writes_out_what_is_not_in_ascii() -> None:
    lookalike = "d\u0430ta"
    plain = schema(REQUEST)["properties"]["decision"]["description"]
    assert "ASCII" not in plain
    for request in (
        replace(REQUEST, changes=(f"It may write /{lookalike}.",)),
        replace(REQUEST, reason=lookalike),
        replace(REQUEST, justification=lookalike),
        replace(REQUEST, proposed_prefix=(lookalike,)),
    ):
        assert "d\\u0430ta" in schema(request)["properties"]["decision"]["description"]
