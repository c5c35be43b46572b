"""Collects the questions of this user's agents and servers in one shape: found, shown and answered alike."""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from paddock.agent.approval import Approval
from paddock.agent.console import ask_console
from paddock.agent.console_message import AnswerQuestion, ListQuestions, OpenApproval, Questions, Refused
from paddock.agent.program_question import program_question
from paddock.agent.question_text import question_lines
from paddock.cli.message import tell
from paddock.cli.question_selection import SHORT_ID_CHARS, Candidate
from paddock.cli.question_survey import open_questions
from paddock.client.operator import operate
from paddock.errors import ConnectError, SelectionError
from paddock.printable import printable
from paddock.protocol.question import EXEC_APPROVAL, ExecApprovalParams
from paddock.quotation import quoted, quoted_words
from paddock.transport import runtime_directory

CLIENT_NAME: Final = "paddock-approve"

WATCH_INTERVAL_S: Final = 1.0
"""The time between two looks: agents come and go, and no socket announces another."""


class Question(ABC):
    """An open question of an agent or a server."""

    id: str
    asker: str
    summary: str
    """One printable line."""
    lines: Sequence[str]
    """All of it, printable."""
    has_always: bool = False
    """Whether a rule may be added."""

    @property
    def short_id(self) -> str:
        """Return the beginning of the id."""
        return self.id[:SHORT_ID_CHARS]

    @abstractmethod
    async def answer(self, approval: Approval, reason: str | None) -> None:
        """Answer it. Raises PaddockError if the answer does not count."""


class AgentQuestion(Question):
    """A question of an agent in another process."""

    def __init__(self, path: Path, pid: int, question: OpenApproval) -> None:
        request = question.request
        self._path = path
        self.id = request.approval_id
        self.asker = f"an agent, pid {pid}"
        self.summary = f"{quoted_words(request.command)} in {quoted(request.cwd)}"
        self.lines = list(question_lines(request))
        self.has_always = Approval.APPROVED_ALWAYS in request.available

    async def answer(self, approval: Approval, reason: str | None) -> None:
        """Send the answer to the agent's socket."""
        message = AnswerQuestion(approval_id=self.id, approval=approval, reason=reason)
        reply = await ask_console(self._path, message)
        if isinstance(reply, Refused):
            raise SelectionError(f"the answer does not count: {reply.problem}")


class ServerQuestion(Question):
    """A question of a server, about a program that a command wants to execute."""

    def __init__(self, candidate: Candidate) -> None:
        self._control = candidate.control
        self.id = candidate.question.question_id
        self.asker = f"a server, pid {candidate.server_pid}"
        self.summary = printable(candidate.summary)
        self.lines = _server_lines(candidate)
        self._method = candidate.question.method

    async def answer(self, approval: Approval, reason: str | None) -> None:
        """Answer as an operator: a yes runs the program where its caller is, in the sandbox."""
        if self._method != EXEC_APPROVAL:
            raise SelectionError(f"{self._method} is not a question of yes or no; use `paddock answer`")
        if approval is Approval.APPROVED_ALWAYS:
            raise SelectionError("a server adds no rules; use --session, or `paddock rules add`")
        result: dict[str, str] = {"verdict": "run" if approval.is_yes else "deny"}
        if reason is not None:
            result["reason"] = reason
        if approval is Approval.APPROVED_FOR_SESSION:
            result["remember"] = "session"
        async with await operate(self._control, CLIENT_NAME) as control:
            await control.answer(self.id, result)


def _server_lines(candidate: Candidate) -> list[str]:
    """Return a server's question in full, as an agent's is shown."""
    try:
        params = msgspec.convert(candidate.question.params, type=ExecApprovalParams)
    except msgspec.ValidationError:
        # Another kind of question, or one of a newer server.
        return [printable(candidate.summary)]
    request = program_question("", None, params)
    return list(question_lines(replace(request, changes=(_RUNS,))))


_RUNS: Final = "It runs in the sandbox, where its caller is."


class Survey(Struct, frozen=True):
    """The open questions, and the outcome of the agents' last ones."""

    questions: list[Question]
    """Open, those of agents first."""
    closed: dict[str, str]
    """Closed questions by id, with the reason why they no longer need an answer."""


async def survey() -> Survey:
    """Ask all agents and servers of this user. Report on stderr those that do not answer."""
    found, of_servers = await asyncio.gather(_of_agents(), open_questions(None, CLIENT_NAME))
    asked = [AgentQuestion(path, each.pid, question) for path, each in found for question in each.questions]
    closed = {each.approval_id: each.outcome for _, told in found for each in told.closed}
    # An agent that a server asks about a program asks the same in its own words.
    known = {question.id for question in asked}
    others = [ServerQuestion(each) for each in of_servers if each.question.question_id not in known]
    return Survey([*asked, *others], closed)


async def _of_agents() -> list[tuple[Path, Questions]]:
    uid = os.geteuid()
    directories = runtime_directory.trusted(runtime_directory.candidates(os.environ, uid), uid)
    paths = [path for directory in directories for path in runtime_directory.console_paths(directory)]
    found = await asyncio.gather(*map(_of_agent, paths))
    return [(path, told) for path, told in zip(paths, found, strict=True) if told is not None]


async def _of_agent(path: Path) -> Questions | None:
    try:
        reply = await ask_console(path, ListQuestions())
    except ConnectError as error:
        if isinstance(error.__cause__, ConnectionRefusedError):
            runtime_directory.discard(path)
        elif not isinstance(error.__cause__, FileNotFoundError):
            tell(str(error))
        return None
    return reply if isinstance(reply, Questions) else None


def find(found: Survey, wanted: str) -> Question:
    """Return the one question whose id is, or begins with, the given text. Raises SelectionError."""
    fitting = [question for question in found.questions if wanted and question.id.startswith(wanted)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        names = [question.id for question in fitting]
        raise SelectionError(f"{wanted!r} fits {len(fitting)} questions; name one of", names)
    closed = [outcome for name, outcome in found.closed.items() if wanted and name.startswith(wanted)]
    if len(closed) == 1:
        raise SelectionError(f"question {wanted!r} is no longer open: {closed[0]}")
    raise SelectionError(f"no open question {wanted!r}; `paddock approve` lists them")
