"""Answers to a task that wants to execute a program. Values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from paddock.sandbox.denial.exec_call import ExecCall


class Run(Struct, frozen=True):
    """Execute it, in the sandbox."""


class Deny(Struct, frozen=True):
    """Do not execute it: the caller becomes a program that says so and ends with status 1."""

    message: str
    """The text of the message, with the newline."""


Outcome = Callable[[str | None], None]
"""Called once with the outcome of an escalation: None if the program was started outside, otherwise why not.
The call comes from the thread that reads calls, or from one that answers too late."""


class Escalate(Struct, frozen=True):
    """Execute it outside of the sandbox, with these variables, each as `NAME=VALUE`."""

    environment: tuple[bytes, ...]
    outcome: Outcome


ExecAnswer = Run | Deny | Escalate

NOT_BEGUN: Final = "its caller ended, or executed something else, before it was started"


def leave(answer: ExecAnswer) -> None:
    """Say that an answer came too late to be carried out."""
    if isinstance(answer, Escalate):
        answer.outcome(NOT_BEGUN)


Settle = Callable[[ExecAnswer], None]
"""Answers a call later, from any thread. Only the first answer counts, and none if the task has ended."""

Withdraw = Callable[[], None]
"""Says that nobody needs the answer any more."""

OnExec = Callable[[ExecCall, Settle], ExecAnswer | Withdraw]
"""Decides on a call, in the thread that reads all calls of the command. A slow decision returns at once,
settles later, and must not use the call any more. An exception denies."""


class ExecPolicy(Struct, frozen=True):
    """Who decides on a command's executions, and how an allowed program runs."""

    on_exec: OnExec
    is_strict: bool = False
    """Whether an allowed program runs with the copy of path and arguments that the decision was about."""
    can_escalate: bool = False
    """Whether an answer may be `Escalate`."""
