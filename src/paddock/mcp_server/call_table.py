"""The calls of one session: attended by a request, or kept for a client that may come back."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import Final

from paddock.errors import CallRejected
from paddock.mcp_server.pending_call import PendingCall

CALL_LIMIT: Final = 256
"""Calls of one session at the same time."""


class CallTable:
    """Every call is attended by a request or kept for a while; then it ends. `aclose` ends all."""

    def __init__(self) -> None:
        self._calls: dict[str, PendingCall] = {}
        self._kept: dict[str, asyncio.TimerHandle] = {}
        self._asked: dict[str, Hashable] = {}

    def admit(self) -> None:
        """Raise CallRejected if there are as many calls as there may be."""
        if len(self._calls) >= CALL_LIMIT:
            raise CallRejected(f"{CALL_LIMIT} calls are under way already")

    def add(self, call: PendingCall) -> None:
        """Take a call whose request attends it."""
        self._calls[call.id] = call

    def find(self, call_id: str) -> PendingCall | None:
        """Return a call, whichever request attends it; None if it is over."""
        return self._calls.get(call_id)

    def keep(self, call: PendingCall, duration_s: float, asked: Hashable = None) -> None:
        """Keep a call that no request attends, and its outcome, until the time is over.

        `asked` names the request that was answered with a question of the call; its client may cancel it.
        """
        self._release(call.id)
        timer = asyncio.get_running_loop().call_later(duration_s, self.end, call)
        self._kept[call.id] = timer
        if asked is not None:
            self._asked[call.id] = asked

    def cancel(self, asked: Hashable) -> None:
        """End the call that waits for the answer to the question with which this request was answered.

        If several wait, the name was not the client's own: none of them ends.
        """
        waiting = [call_id for call_id, name in self._asked.items() if name == asked]
        if len(waiting) == 1:
            self.end(self._calls[waiting[0]])

    def kept(self, call_id: str) -> PendingCall | None:
        """Return a call that no request attends; None if there is none, or no more."""
        return self._calls.get(call_id) if call_id in self._kept else None

    def resume(self, call_id: str) -> PendingCall | None:
        """Return a kept call, which the caller attends from now on."""
        return self._calls.get(call_id) if self._release(call_id) else None

    def end(self, call: PendingCall) -> None:
        """Drop a call whose outcome was fetched or is no longer wanted, and cancel what still runs."""
        call.cancel()
        self._calls.pop(call.id, None)
        self._release(call.id)

    def aclose(self) -> None:
        """End all calls."""
        for call in list(self._calls.values()):
            self.end(call)

    def _release(self, call_id: str) -> bool:
        timer = self._kept.pop(call_id, None)
        if timer is None:
            return False
        timer.cancel()
        self._asked.pop(call_id, None)
        return True
