"""`paddock questions` and `paddock answer`, beside a real server that asks."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from paddock.cli.question_selection import Candidate, select, short_names
from paddock.config import Settings
from paddock.errors import SelectionError
from paddock.model.endpoint import NetworkProtocol
from paddock.model.verdict import HostRemember, Remember, Verdict
from paddock.protocol.control import OpenQuestion
from paddock.protocol.network import (
    POLICY_REQUEST,
    AllowDecision,
    PolicyRequest,
    PolicyRequestParams,
    PolicyRequestResult,
)
from paddock.protocol.question import EXEC_APPROVAL, ExecApprovalParams, ExecApprovalResult
from paddock.server.app import serve
from paddock.server.questions import Answer, new_question_id
from tests.operators import Operator, new_operator
from tests.wire import attach


class Asking:
    """A server with one open question, and `paddock` beside it."""

    def __init__(self, operator: Operator, question_id: str, answer: asyncio.Task[Answer]) -> None:
        self._operator = operator
        self.id = question_id
        self.answer = answer

    async def paddock(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        return await asyncio.to_thread(self._operator.paddock, *arguments)


EXECUTION = ExecApprovalParams(
    question_id=new_question_id(),
    process_id="build",
    exec_id="1",
    program="/usr/bin/git",
    argv=["git", "push", "\x1b[2J"],
    cwd="/work",
    matches=[],
    reason="why",
)
HOST = PolicyRequestParams(
    question_id=new_question_id(),
    process_id="build",
    request=PolicyRequest(protocol=NetworkProtocol.HTTPS_CONNECT, host="a.test", port=443),
)


@asynccontextmanager
async def asking(
    method: str = EXEC_APPROVAL, params: ExecApprovalParams | PolicyRequestParams = EXECUTION
) -> AsyncIterator[Asking]:
    with new_operator() as operator:
        control = operator.runtime / f"{os.getpid()}-00000000.sock"
        async with serve(Settings(control_socket=str(control))) as server:
            client = attach(server)
            session_id = (await client.initialize(clientName="agent"))["sessionId"]
            task = asyncio.ensure_future(server.ask(session_id, method, params, 3600))
            await client.call("environment/status")
            yield Asking(operator, params.question_id, task)
            task.cancel()


async def test_open_questions_are_listed_and_nothing_in_them_reaches_the_terminal_raw() -> None:
    async with asking() as case:
        done = await case.paddock("questions")
        assert (done.returncode, done.stderr) == (0, b"")
        header, line = done.stdout.decode().splitlines()
        assert header.split()[:3] == ["ID", "METHOD", "PROCESS"]
        assert line.split()[:5] == [case.id[:8], EXEC_APPROVAL, "build", "agent", "nobody"]
        assert "git push" in line
        assert "\x1b" not in line
        told = json.loads((await case.paddock("questions", "--json")).stdout)
        (question,) = told["questions"]
        assert (question["questionId"], question["serverPid"]) == (case.id, os.getpid())
        assert question["params"]["argv"] == ["git", "push", "\x1b[2J"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["run"], ExecApprovalResult(verdict=Verdict.RUN)),
        (
            ["deny", "--reason", "no", "--remember", "session"],
            ExecApprovalResult(verdict=Verdict.DENY, reason="no", remember=Remember.SESSION),
        ),
        (
            ['{"verdict": "escalate", "reason": "ok"}'],
            ExecApprovalResult(verdict=Verdict.ESCALATE, reason="ok"),
        ),
    ],
)
async def test_an_operator_answers_by_the_beginning_of_an_id(
    arguments: list[str], expected: ExecApprovalResult
) -> None:
    async with asking() as case:
        done = await case.paddock("answer", case.id[:8], *arguments)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        assert (await case.answer).result == expected
        late = await case.paddock("answer", case.id[:8], "run")
        assert (late.returncode, late.stdout) == (1, b"")
        assert b"no open question" in late.stderr


async def test_an_operator_decides_on_a_host_for_ever() -> None:
    async with asking(POLICY_REQUEST, HOST) as case:
        assert b"reach a.test:443 (https_connect)" in (await case.paddock("questions")).stdout
        wrong = await case.paddock("answer", case.id, "escalate")
        assert (wrong.returncode, b"allow, deny" in wrong.stderr) == (1, True)
        done = await case.paddock("answer", case.id[:8], "allow", "--remember", "rule")
        assert (done.returncode, done.stderr) == (0, b"")
        expected = PolicyRequestResult(decision=AllowDecision(), remember=HostRemember.RULE)
        assert (await case.answer).result == expected


async def test_an_answer_that_means_nothing_is_refused_and_the_question_stays_open() -> None:
    async with asking() as case:
        for status, *arguments in (
            (2, "perhaps"),
            (2, "[]"),
            (2, '{"verdict": "run"}', "--reason", "no"),
            (1, '{"verdict": "perhaps"}'),
            (1, "allow"),
            (1, "run", "--remember", "rule"),
            (1, "{}"),
        ):
            done = await case.paddock("answer", case.id, *arguments)
            assert done.returncode == status, done.stderr
        assert not case.answer.done()


def candidate(question_id: str, **params: object) -> Candidate:
    question = OpenQuestion(
        question_id=question_id,
        session_id="s",
        client_name="c",
        process_id=None,
        method="other/question",
        params=dict(params),
        sent=False,
        waited_ms=0,
        time_left_ms=None,
    )
    return Candidate(Path("/c"), 1, question)


def test_what_fits_more_than_one_question_is_refused_and_an_exact_id_never() -> None:
    known = [candidate("aaaaaaaa-1"), candidate("aaaaaaaa-12"), candidate("bbbbbbbb-1")]
    assert short_names(known) == ["aaaaaaaa-1", "aaaaaaaa-12", "bbbbbbbb"]
    assert select(known, "aaaaaaaa-1") is known[0]
    assert select(known, "b") is known[2]
    for wanted in ("aaaa", "", "c"):
        with pytest.raises(SelectionError):
            select(known, wanted)


def test_a_question_of_another_kind_is_shown_as_it_is() -> None:
    assert candidate("a", host="x", port=1).summary == '{"host": "x", "port": 1}'
