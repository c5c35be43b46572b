"""The open questions of the servers of this user."""

from __future__ import annotations

import asyncio

from paddock.cli.message import tell
from paddock.cli.question_selection import Candidate
from paddock.cli.survey import Answer, survey
from paddock.client.operator import operate
from paddock.errors import MethodNotFound, PaddockError


async def open_questions(server: str | None, client_name: str) -> list[Candidate]:
    """Ask all servers of this user, or one: a pid, or the path of a control socket.

    Reports on stderr servers that do not answer. Raises SelectionError and ConnectError as `survey` does.
    """
    found = await survey(server, client_name)
    found.warn()
    outcomes = await asyncio.gather(*(_questions(answer, client_name) for answer in found.answers))
    return [candidate for outcome in outcomes for candidate in outcome]


async def _questions(answer: Answer, client_name: str) -> list[Candidate]:
    pid = answer.status.server.pid
    try:
        async with await operate(answer.control, client_name) as control:
            told = await control.questions()
    except MethodNotFound:
        # An older server, which asks nothing.
        return []
    except PaddockError as error:
        tell(str(error))
        return []
    if told.omitted:
        tell(f"server {pid} has {told.omitted} more open questions")
    return [Candidate(answer.control, pid, question) for question in told.questions]
