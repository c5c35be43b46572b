"""An agent on a fake executor, and an approver that answers from a list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import paddock
from paddock.agent.fake_executor import FakeCommand
from paddock.agent.reply import ExecReply
from paddock.client.ending import Ending
from paddock.model.denial import Denial, DenialKind


class Answers:
    """Gives one answer after the other, and keeps the questions."""

    def __init__(self, *answers: str | paddock.ApprovalDecision) -> None:
        self.requests: list[paddock.ApprovalRequest] = []
        self._answers = list(answers)

    async def __call__(self, request: paddock.ApprovalRequest) -> str | paddock.ApprovalDecision:
        self.requests.append(request)
        return self._answers.pop(0)


def saying(*endings: Ending | int, output: bytes = b"") -> Callable[[FakeCommand], None]:
    """Commands that write the same and end one after the other as said."""
    left = list(endings)

    def behave(command: FakeCommand) -> None:
        if output:
            command.say(output)
        command.end(left.pop(0) if len(left) > 1 else left[0])

    return behave


def write_denied(
    path: str = "/etc/x", *, rule: str | None = "root = read", is_certain: bool = True
) -> Ending:
    """The end of a command that could not write a file."""
    denial = Denial(DenialKind.WRITE, path, rule, is_certain)
    return Ending(1, sandbox_denied=True, denials=(denial,))


async def called(tools: paddock.Tools, name: str, **arguments: Any) -> ExecReply:
    """The reply of a call that is not refused."""
    reply = await tools.call(name, arguments)
    assert isinstance(reply, ExecReply), reply.text
    return reply
