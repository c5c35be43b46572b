"""Questions in the middle of calls, and calls that are cancelled, before the SDK's client in both eras."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from mcp_types import ElicitRequestParams, ElicitResult

from paddock.agent.command_rules import CommandRules
from paddock.mcp_server import service as service_module
from paddock.rules.loader import load_sound_policy
from tests.life_line import LifeLine
from tests.mcp_client import (
    ERAS,
    RULES,
    Answers,
    RawStdio,
    accept,
    each_era,
    fields,
    in_process,
    rules_file,
)


class Silent:
    """Is asked, and does not answer."""

    def __init__(self) -> None:
        self.was_asked = asyncio.Event()

    async def __call__(self, params: ElicitRequestParams) -> ElicitResult:
        self.was_asked.set()
        await asyncio.Event().wait()
        raise AssertionError


def call(command: str, workspace: Path, **more: object) -> dict[str, Any]:
    return {"command": command, "workdir": str(workspace), "login": False, **more}


INIT = "git init -q {}; echo rc=$?"


@each_era
async def test_reason_of_a_refusal_reaches_the_model(
    era: str, url: str, workspace: Path, tmp_path: Path
) -> None:
    answers = Answers(
        accept("decline", "use a branch"),
        ElicitResult(action="decline"),
        ElicitResult(action="cancel"),
        accept("nonsense"),
    )
    async with in_process(url, workspace, era, rules=rules_file(tmp_path), answer=answers) as client:
        told = [
            fields(await client.call_tool("shell", call(INIT.format(n), workspace)))["output"]
            for n in range(4)
        ]
    for output, reason in zip(
        told,
        (
            "User declined execution: use a branch",
            "User declined execution",
            "User cancelled execution",
            "is not valid here",
        ),
        strict=True,
    ):
        assert "Execution denied: " in output
        assert reason in output
        assert output.endswith("rc=1\n")
    assert len(answers.questions) == 4


@each_era
async def test_answer_for_the_session_is_not_asked_for_again(
    era: str, url: str, workspace: Path, tmp_path: Path
) -> None:
    answers = Answers(accept("session"), accept("once"))
    async with in_process(url, workspace, era, rules=rules_file(tmp_path), answer=answers) as client:
        for name in ("x", "x", "other"):
            told = fields(await client.call_tool("shell", call(INIT.format(name), workspace)))
            assert told["output"] == "rc=0\n"
    assert len(answers.questions) == 2


@each_era
async def test_always_allows_the_prefix_from_now_on(
    era: str, url: str, workspace: Path, tmp_path: Path
) -> None:
    answers = Answers(accept("always"))
    async with in_process(url, workspace, era, rules=rules_file(tmp_path), answer=answers) as client:
        for name in ("x", "y"):
            told = fields(await client.call_tool("shell", call(INIT.format(name), workspace)))
            assert (told["output"], told["verdicts"][0]["verdict"]) == ("rc=0\n", "escalate")
    [question] = answers.questions
    assert "/usr/bin/git init …" in str(question.model_dump())


def test_always_is_a_line_of_the_users_rules(tmp_path: Path) -> None:
    rules = rules_file(tmp_path)
    amended = tmp_path / "default.rules"
    CommandRules(load_sound_policy([rules]), amended).allow(["/usr/bin/git", "init"])
    decided = load_sound_policy([rules, amended]).decide(["/usr/bin/git", "init", "x"])
    assert str(decided.action) == "allow"


@each_era
async def test_question_that_nobody_answers_is_a_denial_that_says_so(
    era: str, url: str, workspace: Path, tmp_path: Path
) -> None:
    silent = Silent()
    async with in_process(
        url, workspace, era, rules=rules_file(tmp_path), answer=silent, prompt_timeout_s=0.3
    ) as client:
        asking = asyncio.create_task(client.call_tool("shell", call(INIT.format("x"), workspace)))
        if era == "legacy":
            told = fields(await asking)
            assert "timed out" in told["output"]
            assert told["output"].endswith("rc=1\n")
        else:
            # A stateless client that never comes back: what it did not answer is denied meanwhile.
            await silent.was_asked.wait()
            asking.cancel()
            await asyncio.wait((asking,))
    assert not (workspace / "x").exists()


@each_era
async def test_clock_of_a_command_stands_still_during_a_question(
    era: str, url: str, workspace: Path, tmp_path: Path
) -> None:
    async def slowly(params: ElicitRequestParams) -> ElicitResult:
        # Longer than the command has, which is the point: time is what is measured here.
        await asyncio.sleep(3.2)
        return accept()

    async with in_process(url, workspace, era, rules=rules_file(tmp_path), answer=slowly) as client:
        told = fields(
            await client.call_tool(
                "shell", call(INIT.format("x") + "; echo done", workspace, timeout_ms=3000)
            )
        )
    assert (told["timed_out"], told["output"]) == (False, "rc=0\ndone\n")
    assert told["duration"]["secs"] >= 3


@each_era
async def test_dangerous_command_without_a_rule_is_asked_about_and_stays_in_the_sandbox(
    era: str, url: str, workspace: Path
) -> None:
    answers = Answers(accept())
    async with in_process(url, workspace, era, answer=answers) as client:
        told = fields(await client.call_tool("shell", call("mkdir zz; rm -rf zz; echo rc=$?", workspace)))
    [question] = answers.questions
    assert "/rm -rf zz`" in question.message
    assert told["output"] == "rc=0\n"
    assert "verdicts" not in told


@pytest.mark.parametrize(("login", "option"), [(True, "-lc"), (False, "-c")])
async def test_question_about_a_line_without_a_sandbox_names_the_shell_that_runs_it(
    url: str, workspace: Path, login: bool, option: str
) -> None:
    answers = Answers(accept())
    async with in_process(url, workspace, profile=":danger-full-access", answer=answers) as client:
        line = "mkdir zz; rm -rf zz; shopt -q login_shell; echo $?"
        told = fields(await client.call_tool("shell", call(line, workspace, login=login)))
    [question] = answers.questions
    assert f"/bash {option} " in question.message
    assert told["output"] == ("0\n" if option == "-lc" else "1\n")


@each_era
async def test_cancelled_call_leaves_nothing_running(
    era: str, url: str, workspace: Path, tmp_path: Path, life_line: LifeLine
) -> None:
    rules = rules_file(tmp_path, 'prefix_rule(pattern=["sleep"], decision="allow")\n')
    async with in_process(url, workspace, era, rules=rules) as client:
        command = f"{life_line.hold} sleep 600 & sleep 600"
        calling = asyncio.create_task(client.call_tool("shell", call(command, workspace, timeout_ms=600_000)))
        await life_line.held()
        calling.cancel()
        await life_line.cut()


async def test_call_cancelled_during_a_question_leaves_nothing_running(
    url: str, workspace: Path, tmp_path: Path, life_line: LifeLine
) -> None:
    silent = Silent()
    async with in_process(url, workspace, ERAS[0], rules=rules_file(tmp_path), answer=silent) as client:
        command = f"{life_line.hold} {INIT.format('x')}"
        calling = asyncio.create_task(client.call_tool("shell", call(command, workspace)))
        await life_line.held()
        await silent.was_asked.wait()
        calling.cancel()
        await life_line.cut()
    assert not (workspace / "x").exists()


async def test_question_that_a_stateless_client_abandons_is_denied_and_the_command_ends(
    url: str, workspace: Path, tmp_path: Path, life_line: LifeLine
) -> None:
    silent = Silent()
    async with in_process(
        url, workspace, ERAS[1], rules=rules_file(tmp_path), answer=silent, prompt_timeout_s=0.3
    ) as client:
        command = f"{life_line.hold} {INIT.format('x')}"
        calling = asyncio.create_task(client.call_tool("shell", call(command, workspace)))
        await silent.was_asked.wait()
        calling.cancel()
        # The SDK's client says nothing: no request is open that it could cancel.
        await life_line.cut()
    assert not (workspace / "x").exists()


async def test_stateless_client_cancels_a_call_that_waits_for_its_answer(
    workspace: Path, tmp_path: Path, life_line: LifeLine
) -> None:
    arguments = call(f"{life_line.hold} {INIT.format('x')}; sleep 600", workspace, timeout_ms=600_000)
    async with RawStdio("--workspace", workspace, "--rules", rules_file(tmp_path)) as client:
        asked = await client.ask(7, "tools/call", name="shell", arguments=arguments)
        assert asked["result"]["resultType"] == "input_required"
        await client.send(method="notifications/cancelled", params={"requestId": 7})
        await life_line.cut()
        [key] = asked["result"]["inputRequests"]
        late = await client.ask(
            8,
            "tools/call",
            name="shell",
            arguments=arguments,
            requestState=asked["result"]["requestState"],
            inputResponses={key: {"action": "accept", "content": {}}},
        )
    assert "call again" in late["error"]["message"]
    assert not (workspace / "x").exists()


@each_era
async def test_command_of_exec_command_outlives_its_cancelled_call(
    era: str, url: str, workspace: Path, life_line: LifeLine
) -> None:
    async with in_process(url, workspace, era) as client:
        command = f"{life_line.hold} read -r line < gate; echo went on"
        os.mkfifo(workspace / "gate")
        calling = asyncio.create_task(
            client.call_tool("exec_command", {"cmd": command, "yield_time_ms": 30_000})
        )
        await life_line.held()
        calling.cancel()
        await asyncio.wait((calling,))
        await asyncio.to_thread((workspace / "gate").write_text, "go\n")
        await life_line.cut()


@each_era
async def test_client_that_wants_progress_is_told_of_it(
    era: str, url: str, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_module, "PROGRESS_S", 0.05)
    told: list[float] = []
    enough = asyncio.Event()

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        told.append(progress)
        if len(told) >= 2 and not enough.is_set():
            enough.set()
            await asyncio.to_thread((workspace / "gate").write_text, "go\n")

    os.mkfifo(workspace / "gate")
    async with in_process(url, workspace, era) as client:
        result = await client.call_tool(
            "shell",
            call("cat gate", workspace, timeout_ms=60_000),
            progress_callback=progressed,
        )
    assert fields(result)["output"] == "go\n"
    assert told == sorted(told)


def test_rules_of_these_tests_are_sound(tmp_path: Path) -> None:
    assert len(load_sound_policy([rules_file(tmp_path, RULES)]).rules) == 3
