"""What becomes of an execution, by rules, answers and terms."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.intercept.execution import ScriptLine
from paddock.intercept.verdict import (
    Answer,
    Approval,
    ExecVerdict,
    Ground,
    NoAnswer,
    escalation_refused,
    judge,
    settle,
)
from paddock.model.decision import Action, Origin
from paddock.model.verdict import Verdict
from paddock.rules.policy import Problem
from tests.unit.intercept.cases import GIVEN, execution, in_work, policy, rule, terms

ALLOW, PROMPT, FORBIDDEN = Action.ALLOW, Action.PROMPT, Action.FORBIDDEN
GIT = "/usr/bin/git"


def verdict(found: ExecVerdict | Approval) -> ExecVerdict:
    assert isinstance(found, ExecVerdict)
    return found


def approval(found: ExecVerdict | Approval) -> Approval:
    assert isinstance(found, Approval)
    return found


# --- by rules ---------------------------------------------------------------


def test_a_program_without_a_rule_runs_and_nobody_hears_of_it() -> None:
    found = verdict(judge(execution(GIT, "status"), policy(rule(FORBIDDEN, "rm")).decide, terms()))
    assert (found.verdict, found.ground, found.is_plain) == (Verdict.RUN, Ground.NO_RULE, True)


def test_the_command_itself_is_not_asked_about() -> None:
    rules = policy(rule(FORBIDDEN, "git"))
    found = verdict(judge(execution(GIT, is_first=True), rules.decide, terms()))
    assert (found.verdict, found.ground, found.is_plain) == (Verdict.RUN, Ground.START, True)


def test_an_allowed_program_is_escalated_with_the_rule_that_says_so() -> None:
    rules = policy(rule(ALLOW, "git", "status", line=3, justification="only looks"))
    found = verdict(judge(execution(GIT, "status", "-s"), rules.decide, terms()))
    assert (found.verdict, found.ground, found.is_plain) == (Verdict.ESCALATE, Ground.RULE, False)
    assert (found.origin, found.justification) == (Origin("/etc/x.rules", 3), "only looks")
    assert [match.prefix for match in found.matches] == [("git", "status")]
    assert found.environment is not None
    assert found.environment.variables == GIVEN


def test_a_forbidden_program_is_denied_with_reason_and_justification() -> None:
    rules = policy(rule(FORBIDDEN, "git", "push", line=9, justification="ask in the channel"))
    found = verdict(judge(execution(GIT, "push"), rules.decide, terms()))
    assert found.verdict is Verdict.DENY
    assert found.origin == Origin("/etc/x.rules", 9)
    assert found.message == (
        "Execution denied: Execution forbidden by policy: "
        "`/usr/bin/git push` is forbidden by /etc/x.rules:9: ask in the channel\n"
    )


def test_a_prompt_is_asked_and_where_nobody_is_asked_denied() -> None:
    rules = policy(rule(PROMPT, "git", "push"))
    asked = approval(judge(execution(GIT, "push"), rules.decide, terms()))
    assert asked.reason == "`/usr/bin/git push` requires approval by /etc/x.rules:1"
    denied = verdict(judge(execution(GIT, "push"), rules.decide, terms(asks=False)))
    assert denied.verdict is Verdict.DENY
    assert "nobody is asked" in denied.reason


def test_rules_that_could_not_be_loaded_leave_everything_open() -> None:
    rules = policy(rule(FORBIDDEN, "rm"), problems=[Problem("/etc/broken.rules", "bad")])
    assert "broken.rules" in approval(judge(execution(GIT), rules.decide, terms())).reason
    assert verdict(judge(execution("/bin/rm"), rules.decide, terms())).verdict is Verdict.DENY
    linked = execution("/usr/bin/mawk", called="/usr/bin/awk")
    assert "broken.rules" in approval(judge(linked, rules.decide, terms())).reason


# --- what is matched --------------------------------------------------------


def test_the_name_that_the_caller_chose_is_not_the_programs() -> None:
    rules = policy(rule(ALLOW, "git"), rule(FORBIDDEN, "rm", line=2))
    evil = execution("/work/evil", arg0="git")
    assert verdict(judge(evil, rules.decide, terms())).is_plain
    disguised = execution("/bin/rm", "-rf", arg0="git")
    assert verdict(judge(disguised, rules.decide, terms())).verdict is Verdict.DENY


@pytest.mark.parametrize(
    ("words", "arg0", "is_escalated"),
    [
        (["ls"], "ls", True),
        (["ls"], "/bin/ls", True),
        (["ls"], "rm", False),
        (["ls"], "busybox", False),
        (["ls"], "", False),
        (["busybox"], "busybox", True),
        (["busybox"], "ls", False),
    ],
)
def test_a_program_of_many_names_is_escalated_only_under_the_name_that_is_allowed(
    words: list[str], arg0: str, is_escalated: bool
) -> None:
    rules = policy(rule(ALLOW, *words))
    found = verdict(
        judge(execution("/bin/busybox", "-l", called="/bin/ls", arg0=arg0), rules.decide, terms())
    )
    assert (found.verdict is Verdict.ESCALATE) == is_escalated
    assert is_escalated or "calls it" in (found.not_escalated or "")


def test_a_name_in_a_safe_place_counts_and_the_strictest_of_both_decides() -> None:
    linked = execution("/usr/bin/mawk", "x", called="/usr/bin/awk")
    assert verdict(judge(linked, policy(rule(FORBIDDEN, "awk")).decide, terms())).verdict is Verdict.DENY
    assert verdict(judge(linked, policy(rule(FORBIDDEN, "mawk")).decide, terms())).verdict is Verdict.DENY
    rules = policy(rule(ALLOW, "awk"), rule(PROMPT, "mawk", line=2))
    asked = approval(judge(linked, rules.decide, terms()))
    assert [str(match.origin) for match in asked.decision.matches] == ["/etc/x.rules:2", "/etc/x.rules:1"]
    assert asked.decision.command == ("/usr/bin/mawk", "x")
    assert verdict(judge(linked, policy(rule(ALLOW, "awk")).decide, terms())).verdict is Verdict.ESCALATE


@pytest.mark.parametrize("arg0", ["/work/git", "./git", "bin/git", "/usr/../work/git", "../usr/bin/git"])
def test_a_program_that_is_called_by_a_path_in_the_sandbox_stays_there(arg0: str) -> None:
    """Some look beside that path for what they load."""
    called = execution("/usr/bin/git", "push", arg0=arg0)
    found = judge(called, policy(rule(Action.ALLOW, "git")).decide, terms())
    assert isinstance(found, ExecVerdict)
    assert found.verdict is Verdict.RUN
    assert f"calls it {arg0}" in str(found.not_escalated)
    asked = judge(called, policy(rule(Action.PROMPT, "git")).decide, terms())
    assert isinstance(asked, Approval)
    assert f"calls it {arg0}" in asked.reason
    answered = settle(called, asked, Answer(Verdict.ESCALATE, "the client"), terms())
    assert answered.verdict is Verdict.RUN


@pytest.mark.parametrize("called", ["/work/git", "/usr/../work/git", "/usr/bin/./git"])
def test_a_link_that_the_sandbox_made_gives_a_program_no_name(called: str) -> None:
    linked = execution("/usr/bin/python3", "evil.py", called=called)
    assert verdict(judge(linked, policy(rule(ALLOW, "git")).decide, terms())).is_plain


def test_a_host_executable_keeps_a_name_to_its_paths() -> None:
    rules = policy(rule(ALLOW, "git"), host_executables={"git": ("/opt/git",)})
    assert verdict(judge(execution(GIT), rules.decide, terms())).is_plain
    assert verdict(judge(execution("/opt/git"), rules.decide, terms())).verdict is Verdict.ESCALATE


# --- what is not let out ----------------------------------------------------


def line(interpreter: str, argument: str | None = None, found: str | None = None) -> dict[str, Any]:
    """Return the facts of a script with this first line."""
    return {
        "interpreters": (found or f"/usr/bin/{interpreter.rpartition('/')[2]}",),
        "script_lines": (ScriptLine(interpreter, argument),),
    }


@pytest.mark.parametrize(
    ("interpreter", "argument"),
    [
        ("/usr/bin/perl", None),
        ("/usr/bin/perl", "-w -T"),
        ("/usr/bin/env", "perl"),
        ("/usr/bin/env", "/usr/bin/perl"),
    ],
)
def test_script_that_the_sandbox_can_not_lead_elsewhere_is_let_out(
    interpreter: str, argument: str | None
) -> None:
    facts = line(interpreter, argument)
    found = verdict(judge(execution(GIT, **facts), policy(rule(ALLOW, "git")).decide, terms()))
    assert found.verdict is Verdict.ESCALATE


@pytest.mark.parametrize(
    ("facts", "changes", "reason"),
    [
        ({}, {"no_escalation": "the server says no"}, "the server says no"),
        ({"is_genuine": False}, {}, "not the file that would be executed"),
        ({"program": "/work/git"}, {}, "can write /work/git"),
        ({"program": "/work/a/git"}, {"is_writable": lambda path: path == "/work"}, "can write /work, which"),
        (
            {"program": "/a/git", "is_executable": False},
            {},
            "/a/git is not something that the kernel executes",
        ),
        ({"program": "/a/git"}, {"is_writable": lambda path: path == "/"}, "can write /, which"),
        ({"interpreters": ("/work/sh",)}, {}, "its interpreter /work/sh"),
        ({"interpreters": ("/usr/bin/perl", "/work/sh")}, {}, "its interpreter /work/sh"),
        (line("/work/link"), {}, "where its interpreter /work/link leads"),
        (line("perl"), {}, "where its interpreter perl leads"),
        (line("/usr/bin/../bin/perl"), {}, "where its interpreter /usr/bin/../bin/perl leads"),
        (line("/usr/bin/perl", "/work/x"), {}, "which may run anything"),
        (line("/usr/bin/perl", "-w x"), {}, "which may run anything"),
        (line("/usr/bin/perl", "-I/work"), {}, "which may run anything"),
        (line("/usr/bin/env", "-S -u FOO /work/sh"), {}, "which may run anything"),
        (line("/usr/bin/env", "PATH=/work sh"), {}, "which may run anything"),
        (line("/opt/e", "-Ssh", found="/usr/bin/env"), {}, "which may run anything"),
        (line("/usr/bin/env", "/work/sh"), {}, "runs /work/sh, which the sandbox can change"),
        (line("/usr/bin/env", "./sh"), {}, "runs ./sh, which the sandbox can change"),
        ({"environment": GIVEN | {"LD_PRELOAD": "/work/x.so"}}, {}, "LD_PRELOAD"),
        ({"environment": GIVEN | {"GIT_SSH_COMMAND": "evil"}}, {}, "GIT_SSH_COMMAND"),
        ({"environment": GIVEN | {"HOME": "/work"}}, {}, "HOME"),
    ],
)
def test_what_may_not_be_let_out_runs_in_the_sandbox_and_says_why(
    facts: dict[str, Any], changes: dict[str, Any], reason: str
) -> None:
    facts = {"program": GIT} | facts
    program = facts.pop("program")
    found = verdict(judge(execution(program, **facts), policy(rule(ALLOW, "git")).decide, terms(**changes)))
    assert (found.verdict, found.ground, found.is_plain) == (Verdict.RUN, Ground.RULE, False)
    assert reason in (found.not_escalated or "")
    assert reason in found.reason
    assert found.environment is None


def test_a_server_says_why_it_lets_nothing_out() -> None:
    fine: dict[str, Any] = {
        "is_allowed": True,
        "requires_sandbox": False,
        "cap": None,
        "denies_reads": False,
    }
    assert escalation_refused(**fine) is None
    changes: tuple[tuple[dict[str, Any], str], ...] = (
        ({"is_allowed": False}, "allow_escalation"),
        ({"requires_sandbox": True}, "require_sandbox"),
        ({"cap": "dev"}, "max_profile"),
        ({"denies_reads": True}, "denies reads"),
    )
    for change, setting in changes:
        assert setting in (escalation_refused(**(fine | change)) or "")


# --- answers ----------------------------------------------------------------


def asked_about(**facts: Any) -> tuple[Any, Approval]:
    rules = policy(rule(PROMPT, "git", "push", line=4, justification="it is public"))
    wanted = execution(GIT, "push", **facts)
    return wanted, approval(judge(wanted, rules.decide, terms()))


@pytest.mark.parametrize("said", list(Verdict))
def test_an_answer_decides_and_its_reason_is_told(said: Verdict) -> None:
    wanted, question = asked_about()
    found = settle(wanted, question, Answer(said, "the client", "because"), terms())
    assert (found.verdict, found.ground) == (said, Ground.ANSWER)
    assert found.reason.endswith(": because")
    assert (found.origin, found.justification) == (Origin("/etc/x.rules", 4), "it is public")
    assert not found.is_plain


def test_no_answer_in_time_is_denied_and_not_called_a_refusal() -> None:
    wanted, question = asked_about()
    found = settle(wanted, question, NoAnswer("timed out: nobody answered within 5 s"), terms())
    assert (found.verdict, found.ground) == (Verdict.DENY, Ground.NO_ANSWER)
    assert "timed out" in found.message
    assert "refused" not in found.message


def test_an_answer_lets_nothing_out_that_may_not_be() -> None:
    wanted, question = asked_about()
    found = settle(wanted, question, Answer(Verdict.ESCALATE, "an operator"), terms(no_escalation="never"))
    assert (found.verdict, found.not_escalated) == (Verdict.RUN, "never")


def test_an_answer_lets_a_program_out_without_the_variables_of_the_sandbox() -> None:
    environment = GIVEN | {"LD_PRELOAD": "/work/x.so", "PAGER": "evil", "LC_ALL": "C"}
    wanted, question = asked_about(environment=environment)
    found = settle(wanted, question, Answer(Verdict.ESCALATE, "the client"), terms())
    assert found.verdict is Verdict.ESCALATE
    assert found.environment is not None
    assert found.environment.variables == GIVEN | {"LC_ALL": "C"}
    assert found.environment.dropped == ("LD_PRELOAD", "PAGER")


def test_whoever_is_asked_hears_that_a_program_can_not_be_let_out() -> None:
    wanted = execution("/work/git", "push")
    question = approval(judge(wanted, policy(rule(PROMPT, "git")).decide, terms()))
    assert "can't be let out of the sandbox: the sandbox can write /work/git" in question.reason


# --- in general -------------------------------------------------------------

PATHS = st.sampled_from(["/usr/bin/git", "/work/git", "/work/bin/sh", "/bin/sh", "/bin/busybox"])
NAMES = st.sampled_from(["git", "sh", "busybox", "/work/git", "/usr/bin/git"])
VARIABLES = st.dictionaries(
    st.sampled_from(["LD_PRELOAD", "PATH", "HOME", "GIT_DIR", "LANG", "EDITOR"]),
    st.sampled_from(["/work/x", "/usr/bin:/work", "/home/user", "", "."]),
)


@given(
    program=PATHS,
    called=PATHS,
    arg0=NAMES,
    rules=st.lists(st.builds(rule, st.sampled_from(Action), NAMES), max_size=4),
    environment=VARIABLES,
    interpreters=st.lists(PATHS, max_size=2),
    is_genuine=st.booleans(),
    said=st.sampled_from(Verdict),
    no_escalation=st.none() | st.just("no"),
)
def test_nothing_that_the_sandbox_can_write_is_ever_let_out(
    program: str,
    called: str,
    arg0: str,
    rules: list[Any],
    environment: dict[str, str],
    interpreters: list[str],
    is_genuine: bool,
    said: Verdict,
    no_escalation: str | None,
) -> None:
    wanted = execution(
        program,
        called=called,
        arg0=arg0,
        environment=environment,
        interpreters=tuple(interpreters),
        is_genuine=is_genuine,
    )
    held = terms(no_escalation=no_escalation)
    found = judge(wanted, policy(*rules).decide, held)
    if isinstance(found, Approval):
        found = settle(wanted, found, Answer(said, "somebody"), held)
    if found.verdict is not Verdict.ESCALATE:
        return
    assert no_escalation is None
    assert is_genuine
    assert not any(map(in_work, (program, *interpreters)))
    assert found.environment is not None
    variables = found.environment.variables
    assert all(
        value in ("", GIVEN.get(name)) or name in ("LANG", "PATH") for name, value in variables.items()
    )
    assert all(entry and not in_work(entry) for entry in variables.get("PATH", "/bin").split(":"))
