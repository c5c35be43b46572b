"""Asks for approvals, and decides whether to ask the client of a call or the console of its user.

It asks two equal questions that are open at the same time once, and the answer counts for both. It does not
ask again for what was approved for the session. No answer in time is no approval, but differs from a refusal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable

from paddock.agent.approval import (
    Approval,
    ApprovalDecision,
    ApprovalRequest,
    Approver,
    SessionApprovals,
    decision_of,
)
from paddock.mcp_server.elicitation import ApprovalPrompt
from paddock.mcp_server.pending_call import PendingCall

NO_PROMPT = (
    "this client can't be asked (it lacks elicitation); a rule can allow it, or start `paddock mcp --ask "
    "console` and answer with `paddock approve`"
)


class QuestionAsker:
    """The questions of one session. `console` answers in place of the client, if there is one."""

    def __init__(self, timeout_s: float, console: Approver | None = None) -> None:
        self._timeout_s = timeout_s
        self._console = console
        self._asking: dict[Hashable, asyncio.Future[ApprovalDecision]] = {}
        self._approvals = SessionApprovals()

    def is_approved(self, key: Hashable) -> bool:
        """Return whether the same was approved for the session."""
        return self._approvals.has(key)

    def remember(self, key: Hashable) -> None:
        """Remember not to ask this again."""
        self._approvals.remember(key)

    async def ask(self, call: PendingCall, request: ApprovalRequest) -> ApprovalDecision:
        """Return the decision on a request, perhaps that on an equal one that is already open."""
        key = _subject(request)
        while (leading := self._asking.get(key)) is not None:
            # The call that asked may be cancelled before there is an answer; then this call asks.
            await asyncio.wait((leading,))
            if not leading.cancelled():
                return leading.result()
        leading = self._asking[key] = asyncio.get_running_loop().create_future()
        try:
            decision = await self._asked(call, request)
            leading.set_result(decision)
            return decision
        finally:
            del self._asking[key]
            leading.cancel()

    async def _asked(self, call: PendingCall, request: ApprovalRequest) -> ApprovalDecision:
        if self._console is None and call.no_prompt is not None:
            return ApprovalDecision(Approval.DENIED, call.no_prompt)
        timer = asyncio.timeout(self._timeout_s)
        try:
            async with timer:
                if self._console is not None:
                    return decision_of(await self._console(request))
                return await call.ask(ApprovalPrompt(request))
        except TimeoutError:
            if not timer.expired():
                raise
            return ApprovalDecision(
                Approval.TIMED_OUT, f"timed out: nobody answered in {self._timeout_s:g} s"
            )


def _subject(request: ApprovalRequest) -> Hashable:
    """Return everything that an answer depends on, without the ids and words of one call."""
    if not request.is_exact:
        # Others may look like it.
        return request.approval_id
    return (
        request.tool,
        request.command,
        request.cwd,
        request.reason,
        request.changes,
        request.rule,
        request.denials,
        request.is_retry,
        request.is_unsandboxed,
        request.permissions,
        request.called,
        request.stdin,
        request.patch,
        request.is_terminal,
        # The console's "always" means the words of the question that it has shown.
        request.proposed_prefix,
    )
