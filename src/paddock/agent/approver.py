"""Approvers that are ready to use."""

from __future__ import annotations

import asyncio
import os
import sys
import termios
from collections.abc import Iterable, Sequence
from typing import Final, TextIO

from paddock.agent.approval import (
    WITHDRAWN,
    Answered,
    Approval,
    ApprovalDecision,
    ApprovalRequest,
    Approver,
    answered_outcome,
    decision_of,
    outcome_of,
)
from paddock.agent.question_text import question_lines
from paddock.rules.plain_line import plain_commands

ANSWER_LIMIT_BYTES: Final = 4096
"""Size of one answer at most; a terminal's lines are no longer."""


async def deny_all(request: ApprovalRequest) -> Answered:
    """Approve nothing."""
    return ApprovalDecision(Approval.DENIED, "there is nobody to approve it")


def allow_list(commands: Iterable[Sequence[str]]) -> Approver:
    """Approve exactly these commands, each as it would be typed, and nothing else.

    Give each command as its words. A request is approved if the line for the executor's own shell consists of
    just these words, with nothing before or after them. A command with input, or one that the model may type
    to, is not approved, because its words do not say what it will do. The executor decides where its shell
    finds the program.
    """
    allowed = frozenset(tuple(words) for words in commands)

    async def decide(request: ApprovalRequest) -> Answered:
        commands = None if request.line is None else plain_commands(request.line)
        has_input = request.stdin is not None or request.is_terminal
        if not has_input and commands is not None and len(commands) == 1 and commands[0] in allowed:
            return Approval.APPROVED
        return ApprovalDecision(Approval.DENIED, "it is not on the list of allowed commands")

    return decide


class TerminalApprover:
    """Asks in the terminal, one question at a time. Anything but a clear yes is a no."""

    def __init__(self, answers: TextIO | None = None, questions: TextIO | None = None) -> None:
        self._answers = answers or sys.stdin
        self._questions = questions or sys.stderr
        self._turn = asyncio.Lock()
        self._unread = b""

    async def __call__(self, request: ApprovalRequest) -> Answered:
        """Ask, and wait for a line. The end of the input is a no."""
        async with self._turn:
            for line in question_lines(request):
                print(line, file=self._questions)
            always = ", a = always" if request.proposed_prefix else ""
            session = ", s = for this session" if request.is_exact else ""
            choice = f"y = once{session}{always}, n = no [n]: "
            print(choice, end="", file=self._questions, flush=True)
            self._forget_input()
            try:
                line = await self._line()
            except asyncio.CancelledError as ended:
                # The person at the terminal must not answer a question that is over.
                print(f"\nThe question is over: {outcome_of(ended)}.\n", file=self._questions, flush=True)
                raise
        return _decision(line, request)

    def _forget_input(self) -> None:
        """Drop what was typed before the question could be read: it was not meant for it."""
        if self._answers.isatty():
            self._unread = b""
            termios.tcflush(self._answers.fileno(), termios.TCIFLUSH)

    async def _line(self) -> str:
        """Return the next line, or what there is before the end. Cancelling it loses nothing."""
        while b"\n" not in self._unread and len(self._unread) < ANSWER_LIMIT_BYTES:
            await _readable(self._answers.fileno())
            data = os.read(self._answers.fileno(), ANSWER_LIMIT_BYTES)
            if not data:
                break
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode("utf-8", "replace")


def _decision(line: str, request: ApprovalRequest) -> ApprovalDecision:
    word, _, reason = line.strip().partition(" ")
    match word.lower():
        case "y" | "yes":
            return ApprovalDecision(Approval.APPROVED)
        case "s" | "session" if request.is_exact:
            return ApprovalDecision(Approval.APPROVED_FOR_SESSION)
        case "a" | "always" if request.proposed_prefix:
            return ApprovalDecision(Approval.APPROVED_ALWAYS, prefix=request.proposed_prefix)
        case _:
            return ApprovalDecision(Approval.DENIED, reason.strip() or "the user said no")


async def _readable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    try:
        loop.add_reader(fd, readable.set)
    except PermissionError:
        # A regular file, or /dev/null: epoll_ctl(2) refuses what is always readable.
        return
    try:
        await readable.wait()
    finally:
        loop.remove_reader(fd)


def first_of(*approvers: Approver) -> Approver:
    """Ask all of them at once: the first answer counts, and the others are cancelled.

    The message of their `CancelledError` is the answer; the ready-made approvers show it. One that fails does
    not count; if all fail, the last failure is raised.
    """

    async def decide(request: ApprovalRequest) -> Answered:
        asked = {asyncio.ensure_future(_asked(approver, request)) for approver in approvers}
        outcome = WITHDRAWN
        try:
            failure: BaseException | None = None
            waiting = set(asked)
            while waiting:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    failure = task.exception()
                    if failure is None:
                        outcome = answered_outcome(decision_of(task.result()))
                        return task.result()
            assert failure is not None
            raise failure
        finally:
            for task in asked:
                task.cancel(outcome)
            await asyncio.gather(*asked, return_exceptions=True)

    return decide


async def _asked(approver: Approver, request: ApprovalRequest) -> Answered:
    return await approver(request)
