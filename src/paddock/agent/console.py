"""An approver that another process answers over a socket, such as `paddock approve`.

The socket is private to the user, in the runtime directory, which no sandbox shows: a confined command can't
answer its own questions. The first answer counts, and senders of later ones learn what it was.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final

import msgspec
from msgspec import Struct

from paddock.agent.approval import WITHDRAWN, ApprovalDecision, ApprovalRequest, answered_outcome, outcome_of
from paddock.agent.console_message import (
    Accepted,
    AnswerQuestion,
    ClosedApproval,
    ConsoleReply,
    ConsoleRequest,
    ListQuestions,
    OpenApproval,
    Questions,
    Refused,
)
from paddock.errors import ConnectError, ConnectionLost
from paddock.transport import runtime_directory, unix
from paddock.transport.limits import MIB, TransportLimits
from paddock.transport.link import Link, Received
from paddock.transport.listener import Listener

LIMITS: Final = TransportLimits(max_message_bytes=MIB, max_connections=32)
CLIENT_LIMITS: Final = TransportLimits(max_message_bytes=64 * MIB)
"""A command may have a megabyte, and the agent may ask about several at once."""

REMEMBERED: Final = 64
"""How many answers to remember for senders that answer late."""

TIMEOUT_S: Final = 5.0
"""Time to answer, for an agent of the same user on the same host."""


class _Open(Struct, frozen=True):
    request: ApprovalRequest
    since: float
    answer: asyncio.Future[ApprovalDecision]


class ConsoleApprover:
    """Opens a socket for the duration of an `async with` block, and waits for answers there.

        async with paddock.ConsoleApprover() as ask, paddock.Agent(approver=ask) as tools:
            ...

    Raises ListenError if it finds no place for the socket.
    """

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}
        self._closed: OrderedDict[str, str] = OrderedDict()
        self._listener: Listener | None = None

    async def __aenter__(self) -> ConsoleApprover:
        uid = os.geteuid()
        directory = runtime_directory.provide(runtime_directory.candidates(os.environ, uid), uid)
        path = runtime_directory.new_console_path(Path(directory))
        self._listener = await unix.listen(path, self._accept, LIMITS)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._listener is not None:
            await self._listener.aclose()

    async def __call__(self, request: ApprovalRequest) -> ApprovalDecision:
        """Wait for an answer. When cancelled, the question is withdrawn."""
        answer: asyncio.Future[ApprovalDecision] = asyncio.get_running_loop().create_future()
        self._open[request.approval_id] = _Open(request, time.monotonic(), answer)
        outcome = WITHDRAWN
        try:
            decision = await answer
            outcome = answered_outcome(decision)
            return decision
        except asyncio.CancelledError as ended:
            outcome = outcome_of(ended)
            raise
        finally:
            del self._open[request.approval_id]
            self._close(request.approval_id, outcome)

    def _close(self, approval_id: str, outcome: str) -> None:
        self._closed[approval_id] = outcome
        while len(self._closed) > REMEMBERED:
            self._closed.popitem(last=False)

    def _accept(self, link: Link) -> _Peer:
        return _Peer(link, self._reply)

    def _reply(self, message: bytes) -> ConsoleReply:
        try:
            request: ConsoleRequest = msgspec.json.decode(message, type=ConsoleRequest)
        except msgspec.DecodeError as error:
            return Refused(problem=f"the message is invalid: {error}")
        match request:
            case ListQuestions():
                now = time.monotonic()
                questions = [
                    OpenApproval(request=each.request, waited_s=now - each.since)
                    for each in self._open.values()
                ]
                closed = [ClosedApproval(approval_id=each, outcome=why) for each, why in self._closed.items()]
                return Questions(pid=os.getpid(), questions=questions, closed=closed)
            case AnswerQuestion():
                return self._answered(request)

    def _answered(self, given: AnswerQuestion) -> ConsoleReply:
        question = self._open.get(given.approval_id)
        if question is None:
            return Refused(problem=self._closed.get(given.approval_id, "there is no such question"))
        if question.answer.done():
            return Refused(problem=answered_outcome(question.answer.result()))
        if given.approval not in question.request.available:
            return Refused(problem=f"{given.approval} is not an answer to this question")
        question.answer.set_result(ApprovalDecision(given.approval, given.reason))
        return Accepted()


class _Peer:
    """One connection to the socket: every message gets one reply."""

    def __init__(self, link: Link, reply: Callable[[bytes], ConsoleReply]) -> None:
        self._link = link
        self._reply = reply

    def message_received(self, message: Received) -> None:
        self._link.send(msgspec.json.encode(self._reply(bytes(message))))

    def writing_paused(self) -> None:
        # A peer that asks and does not read gets nothing more.
        self._link.abort()

    def writing_resumed(self) -> None:
        pass

    def link_closed(self, error: Exception | None) -> None:
        pass


# --- the other end ---------------------------------------------------------------


async def ask_console(path: Path, request: ConsoleRequest) -> ConsoleReply:
    """Send one message to an agent's socket. Raises ConnectError, whose cause shows whether an agent
    listens."""
    answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    link = await unix.connect(path, lambda _: _Asker(answer), CLIENT_LIMITS, timeout_s=TIMEOUT_S)
    try:
        link.send(msgspec.json.encode(request))
        async with asyncio.timeout(TIMEOUT_S):
            reply: ConsoleReply = msgspec.json.decode(await answer, type=ConsoleReply)
            return reply
    except (TimeoutError, ConnectionLost, msgspec.DecodeError) as error:
        raise ConnectError(f"unix://{path}", "the agent there does not answer") from error
    finally:
        link.close()


class _Asker:
    """Waits for one message."""

    def __init__(self, answer: asyncio.Future[bytes]) -> None:
        self._answer = answer

    def message_received(self, message: Received) -> None:
        if not self._answer.done():
            self._answer.set_result(bytes(message))

    def writing_paused(self) -> None:
        pass

    def writing_resumed(self) -> None:
        pass

    def link_closed(self, error: Exception | None) -> None:
        if not self._answer.done():
            self._answer.set_exception(ConnectionLost("the agent closed the connection"))
