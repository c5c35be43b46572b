"""Questions as requests on the wire: ids, answers that mean nothing, clients that are never asked."""

from __future__ import annotations

from typing import Any

import pytest

from paddock.errors import (
    AnswerFailed,
    QuestionTimedOut,
)
from paddock.protocol.question import EXEC_APPROVAL
from tests.interaction.questions import (
    ASKABLE,
    DENY,
    RUN,
    asking,
    is_question,
    wire_client,
)
from tests.wire import WireError, attach, served, start_params

# --- the wire ---------------------------------------------------------------


async def test_answers_to_stale_requests_are_ignored_and_to_unknown_ones_end_the_connection() -> None:
    async with served() as server:
        client, session_id = await wire_client(server)
        task = asking(server, session_id)
        request = await client.take(is_question)
        yes = {"id": request["id"], "result": {"verdict": "run"}}
        client.send(yes)
        assert (await task).result == RUN
        # Twice, and with an error.
        client.send(yes)
        client.send({"id": request["id"], "error": {"code": -1, "message": "no"}})
        assert await client.call("environment/status") == {"status": "ready"}
        client.send({"id": request["id"] + 1, "result": {"verdict": "run"}})
        await client.closed()


async def test_a_request_id_of_one_link_answers_nothing_on_the_next() -> None:
    async with served() as server:
        client, session_id = await wire_client(server)
        task = asking(server, session_id)
        old = await client.take(is_question)
        client.link.abort()
        await client.closed()
        again = attach(server)
        await again.initialize(capabilities=ASKABLE, resumeSessionId=session_id)
        new = await again.take(is_question)
        assert new["params"] == old["params"]
        assert new["id"] != old["id"]
        again.send({"id": old["id"], "result": {"verdict": "run"}})
        assert await again.call("environment/status") == {"status": "ready"}
        assert not task.done()
        again.send({"id": new["id"], "result": {"verdict": "deny", "reason": "no"}})
        assert (await task).result == DENY


@pytest.mark.parametrize(
    "result",
    [
        None,
        True,
        "run",
        [],
        ["run"],
        {},
        {"verdict": None},
        {"verdict": "RUN"},
        {"verdict": "run", "reason": 1},
        {"verdict": "run", "remember": "always"},
        {"verdict": "run", "sudo": True},
        {"verdict": {"run": {}}},
    ],
)
async def test_an_answer_that_means_nothing_fails_the_question_and_not_the_connection(result: Any) -> None:
    async with served() as server:
        client, session_id = await wire_client(server)
        task = asking(server, session_id)
        request = await client.take(is_question)
        client.send({"id": request["id"], "result": result})
        with pytest.raises(AnswerFailed, match="is invalid"):
            await task
        assert await client.call("environment/status") == {"status": "ready"}


@pytest.mark.parametrize(
    "capabilities",
    [
        None,
        {},
        {"extensions": True},
        {"extensions": True, "requests": ["process/other"]},
        {"extensions": False, "requests": [EXEC_APPROVAL], "notifications": ["question/closed"]},
    ],
)
async def test_a_client_that_did_not_declare_it_is_never_asked(capabilities: Any) -> None:
    async with served() as server:
        client = attach(server)
        session_id = (await client.initialize(capabilities=capabilities))["sessionId"]
        with pytest.raises(QuestionTimedOut):
            await asking(server, session_id, timeout_s=0.01)
        assert await client.call("environment/status") == {"status": "ready"}
        assert list(client.unread) == []
        for wanted in ({}, {"onPrompt": "ask"}):
            with pytest.raises(WireError, match=r"capabilities\.requests") as refused:
                await client.call("process/start", start_params("p", "/bin/true", intercept=wanted))
            assert refused.value.code == -32602
        # The answer to nothing is what it always was.
        client.send({"id": 1, "result": {"verdict": "run"}})
        await client.closed()


async def test_interception_that_can_not_be_had_is_refused_and_never_ignored() -> None:
    async with served() as server:
        client, _ = await wire_client(server)
        rule = {"pattern": [["git"], ["push"]], "action": "prompt", "path": "/r", "line": 1}
        for wanted in ({}, {"onPrompt": "deny"}, {"rules": [rule]}, {"rules": [rule | {"then": 1}]}):
            with pytest.raises(WireError, match="intercept") as refused:
                await client.call("process/start", start_params("p", "/bin/true", intercept=wanted))
            assert refused.value.code == -32602
        assert (await client.call("process/list"))["processes"] == []


async def test_nothing_is_asked_before_the_handshake_is_complete() -> None:
    async with served() as server:
        client = attach(server)
        greeting = await client.call("initialize", {"clientName": "test", "capabilities": ASKABLE})
        task = asking(server, greeting["sessionId"])
        with pytest.raises(WireError):
            await client.call("environment/status")
        assert list(client.unread) == []
        client.send({"method": "initialized"})
        request = await client.take(is_question)
        # A second `initialized` is no reason to ask twice.
        client.send({"method": "initialized"})
        assert await client.call("environment/status") == {"status": "ready"}
        assert list(client.unread) == []
        client.send({"id": request["id"], "result": {"verdict": "run"}})
        assert (await task).result == RUN
