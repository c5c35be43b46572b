"""Those who ask and answer in the tests of questions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import paddock
import paddock.sync
from paddock.client.operator import ServerControl, operate
from paddock.config import Settings
from paddock.protocol.question import EXEC_APPROVAL, ExecApprovalParams, ExecApprovalResult
from paddock.server.app import Server, serve
from paddock.server.questions import Answer, new_question_id
from tests.wire import WireClient, attach

AT_ONCE = paddock.ReconnectPolicy(min_delay_s=0, max_delay_s=0, attached_delay_s=0.001)
ASKABLE = {"extensions": True, "requests": [EXEC_APPROVAL], "notifications": ["question/closed"]}
RUN = ExecApprovalResult(verdict=paddock.Verdict.RUN)
DENY = ExecApprovalResult(verdict=paddock.Verdict.DENY, reason="no")

Handler = Callable[[ExecApprovalParams], Awaitable[ExecApprovalResult]]


def question(number: int = 0, process_id: str = "p", reason: str = "why") -> ExecApprovalParams:
    return ExecApprovalParams(
        question_id=new_question_id(),
        process_id=process_id,
        exec_id=str(number),
        program="/usr/bin/git",
        argv=["git", "push", str(number)],
        cwd="/work",
        matches=[],
        reason=reason,
    )


def asking(
    server: Server, session_id: str, params: ExecApprovalParams | None = None, timeout_s: float | None = None
) -> asyncio.Task[Answer]:
    return asyncio.ensure_future(server.ask(session_id, EXEC_APPROVAL, params or question(), timeout_s))


class Person:
    """Answers when told to, and remembers what was asked and what became of it."""

    def __init__(self) -> None:
        self.asked: list[ExecApprovalParams] = []
        self.cancelled: list[str] = []
        self.decision: asyncio.Future[ExecApprovalResult] = asyncio.get_running_loop().create_future()
        self.news = asyncio.Condition()

    async def __call__(self, params: ExecApprovalParams) -> ExecApprovalResult:
        self.asked.append(params)
        await self._tell()
        try:
            return await asyncio.shield(self.decision)
        except asyncio.CancelledError:
            self.cancelled.append(params.question_id)
            await self._tell()
            raise

    async def _tell(self) -> None:
        async with self.news:
            self.news.notify_all()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with self.news:
            await self.news.wait_for(condition)

    async def was_asked(self, count: int = 1) -> None:
        await self.until(lambda: len(self.asked) >= count)


@asynccontextmanager
async def operated(tmp_path: Path, **settings: Any) -> AsyncIterator[tuple[Server, ServerControl]]:
    path = tmp_path / "control"
    async with (
        serve(Settings(control_socket=str(path), **settings)) as server,
        await operate(path, "test") as control,
    ):
        yield server, control


async def wire_client(server: Server, **capabilities: Any) -> tuple[WireClient, str]:
    client = attach(server)
    greeting = await client.initialize(capabilities=ASKABLE | capabilities)
    return client, greeting["sessionId"]


def is_question(message: dict[str, Any]) -> bool:
    return message.get("method") == EXEC_APPROVAL


async def until_detached(control: ServerControl, session_id: str) -> None:
    while any(
        session.attached for session in (await control.status()).sessions if session.session_id == session_id
    ):
        pass
