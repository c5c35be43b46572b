"""A call of a tool that is under way: its work, and the questions that it waits for.

The work runs in a task of its own. So a request may end with a question, as the stateless revision of MCP
wants it, and another request continues the same work. The request that attends a call waits for
`settled_or_asking`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Mapping
from typing import Any, Protocol, TypeVar
from uuid import uuid4

import mcp_types as types
from msgspec import Struct

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Prompt(Protocol[T_co]):
    """A question that a call has for its client: the request, and how to interpret the answer."""

    @property
    def id(self) -> str:
        """Return the id that an answer names; it is never used twice in a session."""

    @property
    def request(self) -> types.InputRequest:
        """Return the question in the words of MCP."""

    @property
    def result_type(self) -> type[types.ElicitResult | types.CreateMessageResult | types.ListRootsResult]:
        """Return the type of the client's answer."""

    def read(self, answer: types.InputResponse) -> T_co | None:
        """Return the decision in an answer; None if it does not answer this question."""

    def unasked(self, reason: str) -> T_co:
        """Return the decision that applies if the client could not ask."""


class Question(Struct, frozen=True):
    """A question to the client that has no answer yet."""

    prompt: Prompt[Any]
    answer: asyncio.Future[Any]

    @property
    def id(self) -> str:
        """Return the id that an answer names."""
        return self.prompt.id


class PendingCall:
    """One call. `begin` its work, and `cancel` it if nobody wants the result any more.

    `no_prompt` says why the client can't be asked; None if it can.
    """

    def __init__(self, tool: str, *, no_prompt: str | None) -> None:
        self.id = uuid4().hex
        self.created_at = self.changed_at = time.time()
        self.tool = tool
        self.no_prompt = no_prompt
        self._questions: dict[str, Question] = {}
        self._stirred = asyncio.Event()
        self._task: asyncio.Task[types.CallToolResult] | None = None

    def begin(self, work: Coroutine[Any, Any, types.CallToolResult]) -> asyncio.Task[types.CallToolResult]:
        """Start the work; what it returns or raises is the outcome of the call."""
        self._task = asyncio.create_task(work)
        self._task.add_done_callback(self._ended)
        return self._task

    @property
    def is_over(self) -> bool:
        """Return whether the work has ended."""
        return self._task is not None and self._task.done()

    @property
    def is_cancelled(self) -> bool:
        """Return whether somebody has ended the call before there was an outcome."""
        return self._task is not None and self._task.cancelled()

    @property
    def questions(self) -> list[Question]:
        """Return the questions that nobody has answered, the oldest first."""
        return [each for each in self._questions.values() if not each.answer.done()]

    def outcome(self) -> types.CallToolResult:
        """Return the result of the work, once it is over. Raises the error that the work raised."""
        assert self._task is not None
        return self._task.result()

    def cancel(self) -> None:
        """End the work, as far as its tool ends it."""
        if self._task is not None:
            self._task.cancel()

    async def settled_or_asking(self, known: frozenset[str] = frozenset()) -> list[Question]:
        """Wait until the work is over or has new questions; return those questions.

        Cancelling it leaves the work alone.
        """
        while not self.is_over and not self._fresh(known):
            self._stirred.clear()
            await self._stirred.wait()
        return self._fresh(known)

    async def ask(self, prompt: Prompt[T]) -> T:
        """Put a question to the client and wait for the answer; the work calls it."""
        question = Question(prompt, asyncio.get_running_loop().create_future())
        self._questions[question.id] = question
        self._stir()
        try:
            answer: T = await question.answer
            return answer
        finally:
            del self._questions[question.id]
            self._stir()

    def answer(self, question_id: str, decision: Any) -> bool:
        """Answer a question; return whether it waited for that."""
        question = self._questions.get(question_id)
        if question is None or question.answer.done():
            return False
        question.answer.set_result(decision)
        return True

    def deliver(self, answers: Mapping[str, types.InputResponse]) -> None:
        """Take a client's answers by the ids of their questions. Ignore answers to no open question."""
        for question in self.questions:
            answer = answers.get(question.id)
            meaning = None if answer is None else question.prompt.read(answer)
            if meaning is not None:
                self.answer(question.id, meaning)

    def _fresh(self, known: frozenset[str]) -> list[Question]:
        return [each for each in self.questions if each.id not in known]

    def _ended(self, task: asyncio.Task[types.CallToolResult]) -> None:
        if not task.cancelled():
            # Retrieve the outcome here, so that the interpreter does not report one that nobody fetches.
            task.exception()
        self._stir()

    def _stir(self) -> None:
        self.changed_at = time.time()
        self._stirred.set()
