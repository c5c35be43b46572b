"""Verdicts about executions, with the rules and the answers of a real client over a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import paddock
from paddock.errors import InvalidParams
from paddock.intercept.approvals import RememberedAnswers
from paddock.intercept.verdict import Ground
from paddock.model.decision import Action
from paddock.model.verdict import Remember, Verdict
from paddock.protocol.bound import MAX_RULE_PROGRAMS, MAX_RULE_WORDS
from paddock.protocol.codec import convert_params
from paddock.protocol.intercept import InterceptParams
from paddock.protocol.question import EXEC_APPROVAL, ExecApprovalParams, ExecApprovalResult
from paddock.rules.loader import load_sound_policy
from paddock.server.app import Server, serve
from paddock.server.interception import Interception, check_rules, policy_of
from tests.unit.intercept.cases import execution, terms

GIT = "/usr/bin/git"
RULES: list[dict[str, Any]] = [
    {"pattern": [["git"], ["status", "log"]], "action": "allow", "path": "/etc/git.rules", "line": 1},
    {
        "pattern": [["git"], ["push"]],
        "action": "prompt",
        "path": "/etc/git.rules",
        "line": 2,
        "justification": "it is public",
    },
    {"pattern": [["rm", "shred"]], "action": "forbidden", "path": "/etc/rm.rules", "line": 9},
]


def intercept(**changes: Any) -> InterceptParams:
    return convert_params({"rules": RULES} | changes, InterceptParams)


class Client:
    """Answers every question alike, when it is let, and counts them."""

    def __init__(self, answer: ExecApprovalResult) -> None:
        self.answer = answer
        self.asked: list[ExecApprovalParams] = []
        self.was_asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.was_cancelled = asyncio.Event()

    async def __call__(self, params: ExecApprovalParams) -> ExecApprovalResult:
        self.asked.append(params)
        self.was_asked.set()
        try:
            await self.may_answer.wait()
        except asyncio.CancelledError:
            self.was_cancelled.set()
            raise
        return self.answer


class Case:
    """A session whose processes are intercepted."""

    def __init__(self, server: Server, client: Client, session_id: str) -> None:
        self.client = client
        self._ask = partial(server.ask, session_id)
        self._remembered = RememberedAnswers()

    def interception(self, **changes: Any) -> Interception:
        return Interception("p", intercept(**changes), terms, self._remembered, self._ask)


@asynccontextmanager
async def case(
    verdict: Verdict = Verdict.RUN, *, is_patient: bool = False, **said: Any
) -> AsyncIterator[Case]:
    client = Client(ExecApprovalResult(verdict=verdict, **said))
    if not is_patient:
        client.may_answer.set()
    async with (
        serve() as server,
        paddock.connect(server.url, on_request={EXEC_APPROVAL: client}) as box,
    ):
        yield Case(server, client, box.session_id)


async def test_rules_of_the_client_decide_and_what_they_leave_open_is_asked() -> None:
    async with case(Verdict.ESCALATE, reason="go on") as held:
        process = held.interception()
        found = [
            await process.decide(execution(program, *arguments))
            for program, *arguments in (
                ("/bin/true",),
                (GIT, "status"),
                ("/bin/shred", "x"),
                (GIT, "push", "\udcff"),
            )
        ]
        assert [one.verdict for one in found] == [
            Verdict.RUN,
            Verdict.ESCALATE,
            Verdict.DENY,
            Verdict.ESCALATE,
        ]
        assert str(found[2].origin) == "/etc/rm.rules:9"
        assert found[3].reason.endswith("the client lets it out of the sandbox: go on")
        (asked,) = held.client.asked
        assert (asked.process_id, asked.program, asked.argv) == ("p", GIT, [GIT, "push", "\ufffd"])
        (match,) = asked.matches
        assert (match.action, match.path, match.line) == (Action.PROMPT, "/etc/git.rules", 2)
        assert match.justification == "it is public"
        assert (process.history.total, len(process.history.entries)) == (3, 3)


async def test_identical_executions_that_wait_are_asked_about_once() -> None:
    async with case(is_patient=True) as held:
        process = held.interception()
        waiting = [
            asyncio.create_task(process.decide(execution(GIT, "push", id=str(number))))
            for number in range(50)
        ]
        other = asyncio.create_task(process.decide(execution(GIT, "push", "-f")))
        await held.client.was_asked.wait()
        held.client.may_answer.set()
        assert {(await task).verdict for task in (*waiting, other)} == {Verdict.RUN}
        assert [len(asked.argv) for asked in held.client.asked] == [2, 3]
        # What was answered once is asked again, unless it is to be remembered.
        await process.decide(execution(GIT, "push"))
        assert len(held.client.asked) == 3


@pytest.mark.parametrize(
    ("remember", "in_process", "in_session"), [(Remember.PROCESS, 1, 2), (Remember.SESSION, 1, 1)]
)
async def test_an_answer_is_remembered_as_it_says(
    remember: Remember, in_process: int, in_session: int
) -> None:
    async with case(Verdict.DENY, remember=remember) as held:
        process = held.interception()
        for _ in range(3):
            found = await process.decide(execution(GIT, "push"))
            assert (found.verdict, found.ground) == (Verdict.DENY, Ground.ANSWER)
        assert len(held.client.asked) == in_process
        await held.interception().decide(execution(GIT, "push"))
        assert len(held.client.asked) == in_session


async def test_no_answer_in_time_is_denied_and_says_so() -> None:
    async with case(is_patient=True) as held:
        found = await held.interception(promptTimeoutMs=20).decide(execution(GIT, "push"))
        assert (found.verdict, found.ground) == (Verdict.DENY, Ground.NO_ANSWER)
        assert "timed out" in found.message
        assert "refused" not in found.message
        await held.client.was_cancelled.wait()


async def test_where_nobody_is_to_be_asked_a_prompt_is_denied() -> None:
    async with case() as held:
        found = await held.interception(onPrompt="deny").decide(execution(GIT, "push"))
        assert (found.verdict, held.client.asked) == (Verdict.DENY, [])


async def test_an_execution_that_is_over_is_not_asked_about_any_more() -> None:
    async with case(is_patient=True) as held:
        process = held.interception()
        first, second = (
            asyncio.create_task(process.decide(execution(GIT, "push", id=str(number)))) for number in range(2)
        )
        await held.client.was_asked.wait()
        first.cancel()
        await asyncio.wait([first])
        assert not held.client.was_cancelled.is_set()
        second.cancel()
        await held.client.was_cancelled.wait()
        held.client.may_answer.set()
        assert (await process.decide(execution(GIT, "push"))).verdict is Verdict.RUN
        assert len(held.client.asked) == 2


async def test_the_end_of_the_process_denies_what_waits() -> None:
    async with case(is_patient=True) as held:
        process = held.interception()
        waiting = asyncio.create_task(process.decide(execution(GIT, "push")))
        await held.client.was_asked.wait()
        await process.aclose()
        assert (await waiting).verdict is Verdict.DENY
        await held.client.was_cancelled.wait()


async def test_what_is_too_large_to_be_shown_whole_is_denied() -> None:
    async with case() as held:
        found = await held.interception().decide(execution(GIT, "push", *["x" * 100_000] * 11))
        assert (found.verdict, found.ground) == (Verdict.DENY, Ground.NO_ANSWER)
        assert "limited to 1048576 bytes" in found.reason
        assert held.client.asked == []


async def test_a_client_that_fails_to_answer_lets_nothing_happen() -> None:
    async with (
        serve() as server,
        paddock.connect(server.url, on_request={EXEC_APPROVAL: lambda _: None}) as box,
    ):
        process = Interception(
            "p", intercept(), terms, RememberedAnswers(), partial(server.ask, box.session_id)
        )
        found = await process.decide(execution(GIT, "push"))
        assert (found.verdict, found.ground) == (Verdict.DENY, Ground.NO_ANSWER)


# --- rules of the wire ------------------------------------------------------


def test_rules_of_the_wire_are_the_rules_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "x.rules"
    file.write_text(
        'prefix_rule(["git", ["push", "pull"]], decision="prompt", justification="why")\n'
        'prefix_rule([["rm", "shred"], "-f"], decision="forbidden", unless=[["rm", "-f", "x"]],\n'
        "    flags_anywhere=True)\n"
        'host_executable("git", ["/usr/bin/git"])\n'
    )
    loaded = load_sound_policy([file])
    sent = [
        {
            "pattern": [list(place) for place in rule.pattern],
            "action": rule.action,
            "path": rule.origin.path,
            "line": rule.origin.line,
            "justification": rule.justification,
            "unless": [[list(place) for place in pattern] for pattern in rule.unless],
            "freeFlags": rule.has_free_flags,
        }
        for rule in loaded.rules
    ]
    received = policy_of(
        convert_params(
            msgspec.to_builtins({"rules": sent, "hostExecutables": loaded.host_executables}), InterceptParams
        )
    )
    assert received.rules == loaded.rules
    assert received.host_executables == loaded.host_executables


def test_several_programs_in_the_first_place_are_a_rule_each() -> None:
    assert [rule.program for rule in policy_of(intercept()).rules] == ["git", "git", "rm", "shred"]


def test_files_that_are_broken_leave_open_what_no_rule_is_about() -> None:
    policy = policy_of(intercept(brokenFiles=["/etc/b.rules"]))
    assert policy.decide(["/bin/ls"]).action is Action.PROMPT
    assert policy.decide(["/bin/rm"]).action is Action.FORBIDDEN


@pytest.mark.parametrize(
    "change",
    [
        {"pattern": []},
        {"pattern": [[]]},
        {"pattern": [["git"], []]},
        {"action": "run"},
        {"line": -1},
        {"then": 1},
        {"unless": [[]]},
    ],
)
def test_a_rule_that_means_nothing_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidParams):
        intercept(rules=[RULES[0] | change])


def test_flags_and_words_in_one_place_are_refused_where_flags_may_stand_anywhere() -> None:
    mixed = RULES[0] | {"pattern": [["git"], ["-f", "push"]]}
    check_rules(intercept(rules=[mixed]))
    with pytest.raises(InvalidParams, match="all flags or all words"):
        check_rules(intercept(rules=[mixed | {"freeFlags": True}]))


@pytest.mark.parametrize("path", ["", "bin", "./bin", "/b\0in"])
def test_distrusted_path_that_is_none_is_refused(path: str) -> None:
    check_rules(intercept(distrustedPaths=["/bin"]))
    with pytest.raises(InvalidParams, match="is not an absolute path"):
        check_rules(intercept(distrustedPaths=["/bin", path]))


def test_rules_that_name_too_many_programs_are_refused() -> None:
    programs = [f"p{number}" for number in range(MAX_RULE_WORDS)]
    many = [RULES[0] | {"pattern": [programs]}] * (MAX_RULE_PROGRAMS // MAX_RULE_WORDS)
    check_rules(intercept(rules=many))
    with pytest.raises(InvalidParams, match=f"name {MAX_RULE_PROGRAMS + 2} programs"):
        check_rules(intercept(rules=[*many, RULES[0] | {"pattern": [["git", "hg"]]}]))


def test_words_of_rules_are_not_multiplied() -> None:
    words = [f"w{number}" for number in range(MAX_RULE_WORDS)]
    policy = policy_of(intercept(rules=[RULES[0] | {"pattern": [words, words], "action": "forbidden"}] * 16))
    assert sum(len(rules._by_second_word or ()) for rules in policy._of_program.values()) == 0
    assert policy.decide(["w7", "w8"]).action is Action.FORBIDDEN
    assert policy.decide(["w7", "other"]).action is None
    assert sum(len(rules._by_second_word or ()) for rules in policy._of_program.values()) == len(words)


@given(st.recursive(st.none() | st.text() | st.integers(), lambda inner: st.lists(inner)))
def test_nothing_but_rules_is_taken_for_rules(value: Any) -> None:
    try:
        params = convert_params({"rules": value}, InterceptParams)
    except InvalidParams:
        return
    assert params.rules == []
