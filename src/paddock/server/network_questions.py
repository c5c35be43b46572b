"""Asks a client about hosts that the policy of a process leaves open. An answer may stand for later ones.

Without an answer a host is not reached. Connections to the same host that come at the same time are one
question.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from msgspec.structs import replace

from paddock.errors import QuestionError, RulesError
from paddock.journal import Journal
from paddock.model.decision import Action, Origin
from paddock.model.endpoint import Endpoint
from paddock.model.verdict import HostRemember
from paddock.network.policy import Decision, Reason, Ruling
from paddock.protocol.network import (
    POLICY_REQUEST,
    AllowDecision,
    PolicyRequest,
    PolicyRequestParams,
    PolicyRequestResult,
)
from paddock.server.questions import Answer, new_question_id

journal = Journal(logging.getLogger(__name__))

REMEMBERED_LIMIT: Final = 1024
"""How many answers a process or session remembers for later questions; it remembers no more than that."""

AddRule = Callable[[Endpoint, Action, str | None], Awaitable[Origin]]
"""Decides on a host permanently, with an optional reason. Raises RulesError."""

Key = tuple[str, int]
Remembered = dict[Key, Ruling]


class Ask(Protocol):
    """Puts a question to the client of a session."""

    def __call__(
        self, method: str, params: PolicyRequestParams, timeout_s: float | None
    ) -> Awaitable[Answer]:
        """Ask, and wait for an answer. Raises QuestionError."""


class NetworkQuestions:
    """The questions of one process; `session` has the answers that apply to its whole session.

    `add_rule` writes down permanent answers.
    """

    def __init__(
        self, process_id: str, ask: Ask, session: Remembered, timeout_s: float, add_rule: AddRule
    ) -> None:
        self._add_rule = add_rule
        self._process_id = process_id
        self._ask = ask
        self._own: Remembered = {}
        self._session = session
        self._timeout_s = timeout_s
        self._open: dict[Key, asyncio.Future[Ruling]] = {}

    async def decide(self, endpoint: Endpoint, ruling: Ruling) -> Ruling:
        """Decide on a host in place of the policy, whose `ruling` stands if nobody answers."""
        key = endpoint.host, endpoint.port
        known = self._own.get(key) or self._session.get(key)
        if known is not None:
            return known
        open_ = self._open.get(key)
        if open_ is None:
            open_ = asyncio.ensure_future(self._asked(key, endpoint, ruling))
            self._open[key] = open_
            open_.add_done_callback(lambda _: self._open.pop(key))
        # A connection that gives up leaves the question to the others that wait for its answer.
        return await asyncio.shield(open_)

    def close(self) -> None:
        """Give up every question that is open."""
        for open_ in self._open.values():
            open_.cancel()

    async def _asked(self, key: Key, endpoint: Endpoint, ruling: Ruling) -> Ruling:
        params = PolicyRequestParams(
            question_id=new_question_id(),
            process_id=self._process_id,
            request=PolicyRequest(protocol=endpoint.protocol, host=endpoint.host, port=endpoint.port),
        )
        try:
            answer = await self._ask(POLICY_REQUEST, params, self._timeout_s)
        except QuestionError as error:
            told = f"asked, without an answer: {error}"
            return Ruling(Decision.DENY, Reason.POLICY_DENIED, ruling.rule, told)
        result = answer.result
        assert isinstance(result, PolicyRequestResult)
        if isinstance(result.decision, AllowDecision):
            decided = Ruling(Decision.ALLOW, Reason.ANSWERED, f"the {answer.by} has allowed it")
        else:
            decided = Ruling(Decision.DENY, Reason.POLICY_DENIED, ruling.rule, result.decision.reason)
        match result.remember:
            case HostRemember.PROCESS:
                self._remember(self._own, key, decided)
            case HostRemember.SESSION:
                self._remember(self._session, key, decided)
            case HostRemember.RULE:
                decided = await self._as_rule(endpoint, decided)
                # The rule itself is for what starts from now on.
                self._remember(self._session, key, decided)
        return decided

    async def _as_rule(self, endpoint: Endpoint, decided: Ruling) -> Ruling:
        """Write an answer down as a rule. Return the answer, which holds in any case, with where it is
        written or why it is not."""
        action = Action.ALLOW if decided.is_allowed else Action.FORBIDDEN
        try:
            origin = await self._add_rule(endpoint, action, decided.message)
        except RulesError as error:
            journal.warning("an answer about a host is not remembered", host=endpoint.host, reason=str(error))
            return replace(decided, rule=f"{decided.rule}; not remembered as a rule: {error}")
        return replace(decided, rule=f"{decided.rule}; remembered as a rule at {origin}")

    def _remember(self, answers: Remembered, key: Key, ruling: Ruling) -> None:
        if len(answers) < REMEMBERED_LIMIT:
            answers[key] = ruling
