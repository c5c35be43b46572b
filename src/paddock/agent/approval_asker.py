"""Asks an agent's questions: never again for what was answered for the session, and with an event for
each."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Hashable

from paddock.agent.approval import (
    Approval,
    ApprovalDecision,
    ApprovalRequest,
    Approver,
    SessionApprovals,
    decision_of,
)
from paddock.agent.command_rules import CommandRules
from paddock.agent.event import ApprovalAnswered, ApprovalAsked, EventHub
from paddock.errors import ApprovalFailed, RulesError


class ApprovalAsker:
    """Asks for one agent. `timeout_s` is how long a question may stay open; None means for ever."""

    def __init__(
        self,
        approver: Approver,
        events: EventHub,
        environment_id: str,
        *,
        rules: CommandRules | None = None,
        timeout_s: float | None = None,
    ) -> None:
        self._approver = approver
        self._events = events
        self._environment_id = environment_id
        self._rules = rules
        self._timeout_s = timeout_s
        self._approvals = SessionApprovals()

    async def ask(self, request: ApprovalRequest, key: Hashable) -> ApprovalDecision:
        """Return the answer; `key` is all that it depends on. Raises ApprovalFailed if there is none."""
        if request.is_exact and self._approvals.has(key):
            return ApprovalDecision(Approval.APPROVED_FOR_SESSION)
        self._tell(request)
        decision = ApprovalDecision(Approval.ABORT)
        try:
            decision = await self._answer(request)
        finally:
            self._events.emit(
                ApprovalAnswered(
                    call_id=request.call_id,
                    approval_id=request.approval_id,
                    decision=decision.approval,
                    reason=decision.reason,
                )
            )
        if decision.approval is Approval.APPROVED_FOR_SESSION and request.is_exact:
            self._approvals.remember(key)
        elif decision.approval is Approval.APPROVED_ALWAYS:
            await self._allow(request, decision)
        return decision

    def _tell(self, request: ApprovalRequest) -> None:
        self._events.emit(
            ApprovalAsked(
                call_id=request.call_id,
                approval_id=request.approval_id,
                started_at_ms=round(time.time() * 1000),
                command=request.command,
                cwd=request.cwd,
                reason=request.reason,
                changes=request.changes,
                environment_id=self._environment_id,
                additional_permissions=request.permissions,
                proposed_execpolicy_amendment=request.proposed_prefix or None,
                available_decisions=tuple(request.available),
            )
        )

    async def _answer(self, request: ApprovalRequest) -> ApprovalDecision:
        timer = asyncio.timeout(self._timeout_s)
        try:
            async with timer:
                return decision_of(await self._approver(request))
        except TimeoutError:
            if not timer.expired():
                raise ApprovalFailed("it timed out by itself") from None
            return ApprovalDecision(Approval.TIMED_OUT)
        except Exception as error:
            raise ApprovalFailed(str(error) or type(error).__name__) from error

    async def _allow(self, request: ApprovalRequest, decision: ApprovalDecision) -> None:
        prefix = decision.prefix or request.proposed_prefix
        if self._rules is None or not prefix:
            raise ApprovalFailed("it wants a rule, and there are no rules to add one to")
        try:
            # The amendment waits for others of the same file.
            await asyncio.to_thread(self._rules.allow, prefix)
        except RulesError as error:
            raise ApprovalFailed(str(error)) from error
