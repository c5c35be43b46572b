"""A server's question about one program, as the question of an agent. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Hashable
from typing import Final

from paddock.agent.approval import ApprovalRequest
from paddock.protocol.question import ExecApprovalParams

REPLACED: Final = "\ufffd"
"""Stands for bytes that are not UTF-8, and for itself."""

_CHANGES = (
    "This one program runs outside of the sandbox, with all of the user's rights, if the server lets it out.",
    "If not, it runs in the sandbox, as everything else that the command executes.",
)


def program_question(call_id: str, justification: str | None, params: ExecApprovalParams) -> ApprovalRequest:
    """Return the question whether a program may run. A rule wants it asked, so no rule is proposed."""
    asking = next((match for match in params.matches if match.action == "prompt"), None)
    return ApprovalRequest(
        approval_id=params.question_id,
        call_id=call_id,
        tool="exec_command",
        command=(params.program, *params.argv[1:]),
        cwd=params.cwd,
        reason=params.reason,
        changes=_CHANGES,
        rule=None if asking is None else f"{asking.path}:{asking.line}",
        justification=justification,
        is_unsandboxed=True,
        is_program=True,
        called=called_name(params),
        is_exact=is_exact(params),
    )


def program_key(params: ExecApprovalParams) -> Hashable:
    """Return what an answer about a program holds for: all of its words, its own name among them."""
    return (params.program, tuple(params.argv), params.cwd)


def called_name(params: ExecApprovalParams) -> str | None:
    """Return the name that the program would see, if it is another than that of its file."""
    name = params.argv[0] if params.argv else ""
    return None if name in (params.program, posixpath.basename(params.program)) else name


def is_exact(params: ExecApprovalParams) -> bool:
    """Return whether the question has the bytes of the program's words, and not what stands for others."""
    return not any(REPLACED in word for word in (params.program, *params.argv, params.cwd))
