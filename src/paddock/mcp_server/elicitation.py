"""Words a question as an MCP elicitation, and interprets the client's answer. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

import mcp_types as types
from msgspec import Struct

from paddock.agent.approval import Approval, ApprovalDecision, ApprovalRequest
from paddock.agent.question_text import question_lines
from paddock.printable import printable
from paddock.quotation import in_ascii, is_long, quoted, quoted_words

DECLINED: Final = "User declined execution"
CANCELLED: Final = "User cancelled execution"

TITLE: Final = "Execution Permission Request"

ONCE: Final = "once"
SESSION: Final = "session"
ALWAYS: Final = "always"
DECLINE: Final = "decline"

Action = Literal["accept", "decline", "cancel"]

REASON_LIMIT: Final = 2000
"""Characters of a reason that reach the model."""


class ApprovalPrompt(Struct, frozen=True):
    """Asks for an approval, as a form."""

    approval: ApprovalRequest
    result_type: type[types.ElicitResult] = types.ElicitResult

    @property
    def id(self) -> str:
        """Return the id that an answer names."""
        return self.approval.approval_id

    @property
    def request(self) -> types.ElicitRequest:
        """Return the question and its form."""
        form = types.ElicitRequestFormParams(
            message=message(self.approval), requested_schema=schema(self.approval)
        )
        return types.ElicitRequest(params=form)

    def read(self, answer: types.InputResponse) -> ApprovalDecision | None:
        """Return the decision in an answer; None if it does not answer a form."""
        if not isinstance(answer, types.ElicitResult):
            return None
        return decision_of(self.approval, answer.action, answer.content)

    def unasked(self, reason: str) -> ApprovalDecision:
        """Return the refusal of a client that could not ask."""
        return ApprovalDecision(Approval.DENIED, f"the client could not ask: {reason}")


def message(request: ApprovalRequest) -> str:
    """Return the question. Text from a command or a model can't look like another line of it."""
    if request.tool == "shell":
        return "\n".join(_shell_lines(request))
    return "\n".join(question_lines(request))


def _shell_lines(request: ApprovalRequest) -> Iterator[str]:
    command = quoted_words(request.command)
    called = "" if request.called is None else f", called `{quoted(request.called)}`,"
    beware = "" if request.is_exact else " Some of it can't be shown; \ufffd stands for other characters."
    question = f"Allow agent to run `{command}`{called} in `{quoted(request.cwd)}`?{beware}"
    if is_long((question,)):
        yield f"The question has {len(question)} characters: read it to its end."
    yield question
    called_words = () if request.called is None else (request.called,)
    if (written_out := in_ascii([*request.command, *called_words, request.cwd])) is not None:
        yield f"All that in ASCII: {written_out}"


def schema(request: ApprovalRequest) -> dict[str, Any]:
    """Return the form: flat, with strings alone, as every client can show it."""
    choices = {ONCE: "this time"}
    if request.is_exact:
        choices[SESSION] = "and the same until the session ends"
    if request.proposed_prefix:
        prefix = quoted_words(request.proposed_prefix)
        written_out = in_ascii(request.proposed_prefix)
        in_other_words = "" if written_out is None else f" (in ASCII: {written_out})"
        choices[ALWAYS] = f"and a rule allows `{prefix} …`{in_other_words} from now on"
    choices[DECLINE] = "do not allow it"
    meaning = "; ".join(f"{word}: {sense}" for word, sense in choices.items())
    return {
        "type": "object",
        "title": TITLE,
        "properties": {
            "decision": {
                "type": "string",
                "title": "Decision",
                "description": f"{_why(request)} {meaning}.",
                "enum": list(choices),
                "default": ONCE,
            },
            "reason": {
                "type": "string",
                "description": "Optional reason for allowing or denying execution",
            },
        },
    }


def decision_of(
    request: ApprovalRequest, action: Action, content: Mapping[str, Any] | None
) -> ApprovalDecision:
    """Return the decision in an answer. Treat anything that is not understood as a refusal."""
    given = content or {}
    reason = str(given.get("reason") or "").strip()[:REASON_LIMIT] or None
    if action == "cancel":
        return ApprovalDecision(Approval.ABORT, CANCELLED)
    if action == "decline":
        return ApprovalDecision(Approval.DENIED, _declined(reason))
    match given.get("decision", ONCE):
        case "once":
            return ApprovalDecision(Approval.APPROVED)
        case "session" if request.is_exact:
            return ApprovalDecision(Approval.APPROVED_FOR_SESSION)
        case "always" if request.proposed_prefix:
            return ApprovalDecision(Approval.APPROVED_ALWAYS, prefix=request.proposed_prefix)
        case "decline":
            return ApprovalDecision(Approval.DENIED, _declined(reason))
        case other:
            return ApprovalDecision(Approval.DENIED, f"the client's answer {other!r} is not valid here")


def _declined(reason: str | None) -> str:
    return DECLINED if reason is None else f"{DECLINED}: {reason}"


def _why(request: ApprovalRequest) -> str:
    rule = "" if request.rule is None else f" ({request.rule})"
    why = "" if request.tool != "shell" or request.justification is None else f" {request.justification}."
    text = f"Asked because {request.reason}{rule}.{why} {' '.join(request.changes)}"
    written_out = in_ascii((text,))
    return printable(text) if written_out is None else f"{printable(text)} All that in ASCII: {written_out}."
