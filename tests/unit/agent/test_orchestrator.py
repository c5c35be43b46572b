"""Who is asked what, and what is tried how, on a fake executor."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import paddock
from paddock.agent.executor import Command, FileAccess, PreparedExecSpec
from paddock.agent.fake_executor import FakeExecutor
from paddock.agent.proposal import INPUT_LIMIT
from paddock.agent.question_text import question_lines
from paddock.agent.unified_exec import ENVIRONMENT
from paddock.client.confinement import Sandbox
from paddock.client.ending import Ending
from paddock.model.decision import Action, Origin
from paddock.model.denial import NOT_NAMED, OWN, Denial, DenialKind
from paddock.model.endpoint import Endpoint, NetworkProtocol
from paddock.rules.policy import Policy
from paddock.rules.rule import PrefixRule
from tests.unit.agent.scene import Answers, called, saying, write_denied


def rules(**actions: Action) -> Policy:
    made = (PrefixRule(((name,),), action, Origin("test.rules", 1)) for name, action in actions.items())
    return Policy(made)


def profiles(executor: FakeExecutor) -> list[object]:
    return [
        None if started.command.sandbox is None else started.command.sandbox.profile
        for started in executor.started
    ]


# --- before the first attempt ---------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "action", "questions", "attempts"),
    [
        ("untrusted", None, 1, 1),
        ("untrusted", Action.ALLOW, 0, 1),
        ("untrusted", Action.PROMPT, 1, 1),
        ("untrusted", Action.FORBIDDEN, 0, 0),
        ("on-request", None, 0, 1),
        ("on-request", Action.PROMPT, 1, 1),
        ("on-request", Action.FORBIDDEN, 0, 0),
        ("on-failure", None, 0, 1),
        ("on-failure", Action.PROMPT, 1, 1),
        ("never", None, 0, 1),
        ("never", Action.PROMPT, 0, 0),
        ("never", Action.FORBIDDEN, 0, 0),
        (paddock.Granular(sandbox_approval=True, rules=True), None, 0, 1),
        (paddock.Granular(sandbox_approval=True, rules=True), Action.PROMPT, 1, 1),
        (paddock.Granular(sandbox_approval=True, rules=False), Action.PROMPT, 0, 0),
    ],
)
async def test_rules_and_policy_decide_who_is_asked(
    policy: str | paddock.Granular, action: Action | None, questions: int, attempts: int
) -> None:
    executor, answers = FakeExecutor(saying(0)), Answers("approved")
    policy_rules = rules() if action is None else rules(make=action)
    async with paddock.Agent(executor, rules=policy_rules, approver=answers, approval_policy=policy) as tools:
        reply = await tools.call("exec_command", {"cmd": "make test"})
    assert (len(answers.requests), len(executor.started)) == (questions, attempts)
    assert reply.is_error == (attempts == 0)
    # An approval of a question that changes nothing leaves the sandbox as it is.
    assert profiles(executor) == [":workspace"] * attempts


@pytest.mark.parametrize("cmd", ["make; rm x", "echo $(rm x)", "env rm x | make", "bash -c 'rm x'"])
async def test_forbidden_command_is_found_anywhere_in_a_line(cmd: str) -> None:
    executor = FakeExecutor(saying(0))
    # What a launcher starts is not seen in a line; that rule is about the launcher.
    policy = rules(rm=Action.FORBIDDEN, env=Action.FORBIDDEN, make=Action.ALLOW)
    async with paddock.Agent(executor, rules=policy) as tools:
        reply = await tools.call("exec_command", {"cmd": cmd})
    assert reply.is_error
    assert "test.rules:1" in reply.text
    assert executor.started == []


@pytest.mark.parametrize(
    "cmd",
    ["make > /etc/passwd", "make $X", "make & other", "make `id`", "X=1 make", "make; other", "make <(id)"],
)
async def test_line_with_more_than_allowed_commands_is_not_allowed_as_a_whole(cmd: str) -> None:
    executor, answers = FakeExecutor(saying(0)), Answers("denied")
    async with paddock.Agent(
        executor, rules=rules(make=Action.ALLOW), approver=answers, approval_policy="untrusted"
    ) as tools:
        reply = await tools.call("exec_command", {"cmd": cmd})
    assert reply.is_error
    assert len(answers.requests) == 1
    assert executor.started == []


async def test_escalation_is_asked_for_and_runs_without_the_sandbox() -> None:
    executor, answers = FakeExecutor(saying(0)), Answers("approved", "denied")
    async with paddock.Agent(executor, approver=answers) as tools:
        arguments = {"cmd": "make", "sandbox_permissions": "require_escalated", "justification": "May I?"}
        await called(tools, "exec_command", **arguments)
        refused = await tools.call("exec_command", arguments)
    assert profiles(executor) == [None]
    assert refused.is_error
    assert answers.requests[0].justification == "May I?"
    assert "without a sandbox" in answers.requests[0].changes[0]


async def test_escalation_is_refused_without_a_question_where_nobody_may_be_asked() -> None:
    for policy in ("never", paddock.Granular(sandbox_approval=False, rules=True)):
        executor, answers = FakeExecutor(saying(0)), Answers()
        async with paddock.Agent(executor, approver=answers, approval_policy=policy) as tools:
            reply = await tools.call(
                "exec_command", {"cmd": "make", "sandbox_permissions": "require_escalated"}
            )
        assert reply.is_error
        assert executor.started == []


@pytest.mark.parametrize(
    ("policy", "escalates", "widens"),
    [
        ("untrusted", True, True),
        ("on-request", True, True),
        ("on-failure", True, True),
        ("never", False, False),
        (paddock.Granular(sandbox_approval=True, rules=False), True, False),
        (paddock.Granular(sandbox_approval=False, rules=True), False, False),
        (paddock.Granular(sandbox_approval=False, rules=False, request_permissions=True), False, True),
    ],
)
async def test_policy_decides_what_a_model_may_ask_for(
    policy: str | paddock.Granular, escalates: bool, widens: bool
) -> None:
    wider = {
        "sandbox_permissions": "with_additional_permissions",
        "additional_permissions": {"network": {"enabled": True}},
    }
    for wish, is_asked in (({"sandbox_permissions": "require_escalated"}, escalates), (wider, widens)):
        executor, answers = FakeExecutor(saying(0)), Answers("approved")
        async with paddock.Agent(executor, approver=answers, approval_policy=policy) as tools:
            reply = await tools.call("exec_command", {"cmd": "make", **wish})
        assert (len(answers.requests), len(executor.started)) == (is_asked, is_asked)
        assert reply.is_error != is_asked


# --- after a denial -------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "attempts"),
    [
        ("untrusted", 2),
        ("on-failure", 2),
        ("on-request", 1),
        ("never", 1),
        (paddock.Granular(sandbox_approval=True, rules=True), 2),
        (paddock.Granular(sandbox_approval=False, rules=True), 1),
    ],
)
async def test_policy_decides_whether_a_denial_leads_to_a_retry(
    policy: str | paddock.Granular, attempts: int
) -> None:
    executor = FakeExecutor(saying(write_denied("/work/README"), 0))
    async with paddock.Agent(
        executor, approver=Answers("approved", "approved"), approval_policy=policy, profile=":read-only"
    ) as tools:
        reply = await called(tools, "exec_command", cmd="make")
    assert len(executor.started) == attempts
    assert reply.exit_code == (0 if attempts == 2 else 1)
    assert any("/work/README" in note for note in reply.notes)


async def test_retry_has_just_the_permission_that_was_missing() -> None:
    network = Denial(DenialKind.NETWORK, "example.org:443", "network = restricted", True)
    write = Denial(DenialKind.WRITE, "/work/README", "root = read", True)
    executor = FakeExecutor(saying(Ending(1, denials=(network, write)), 0))
    answers = Answers("approved")
    async with paddock.Agent(
        executor, approver=answers, approval_policy="on-failure", profile=":read-only"
    ) as tools:
        await called(tools, "exec_command", cmd="make")
    assert profiles(executor) == [
        ":read-only",
        {
            "type": "managed",
            "file_system": {
                "type": "restricted",
                "entries": [
                    {"path": {"type": "special", "value": {"kind": "root"}}, "access": "read"},
                    {"path": {"type": "path", "path": "/work/README"}, "access": "write"},
                ],
            },
            "network": "enabled",
        },
    ]
    [request] = answers.requests
    assert request.denials == (network, write)
    assert request.changes == (
        "It may write /work/README.",
        "It may use the network of the host.",
        "Everything else stays as the profile says.",
    )


PROXIED: dict[str, object] = {
    "type": "managed",
    "file_system": {
        "type": "restricted",
        "entries": [{"path": {"type": "special", "value": {"kind": "root"}}, "access": "read"}],
    },
    "network": {"type": "proxied", "allow": ["good.test"]},
}


def host_denied(rule: str) -> Denial:
    endpoint = Endpoint("other.test", 443, NetworkProtocol.HTTPS_CONNECT)
    return Denial(DenialKind.NETWORK, str(endpoint), rule, True, endpoint)


async def test_retry_may_reach_just_the_host_that_was_denied() -> None:
    executor = FakeExecutor(saying(Ending(22, denials=(host_denied(NOT_NAMED),)), 0))
    answers = Answers("approved")
    async with paddock.Agent(
        executor, approver=answers, approval_policy="on-failure", profile=PROXIED
    ) as tools:
        await called(tools, "exec_command", cmd="curl https://other.test")
    [request] = answers.requests
    assert request.changes == (
        "It may reach other.test:443.",
        "Everything else stays as the profile says.",
    )
    assert request.permissions == paddock.Permissions(hosts=("other.test:443",))
    wider = PROXIED | {"network": {"type": "proxied", "allow": ["good.test", "other.test:443"]}}
    assert profiles(executor) == [PROXIED, wider]


@pytest.mark.parametrize(
    "rule", ["network.deny = other.test", "network.allowLocal is not set for the private address 10.0.0.1"]
)
async def test_host_that_is_kept_away_on_purpose_is_not_asked_for(rule: str) -> None:
    executor = FakeExecutor(saying(Ending(22, denials=(host_denied(rule),))))
    async with paddock.Agent(
        executor, approver=Answers(), approval_policy="on-failure", profile=PROXIED
    ) as tools:
        reply = await called(tools, "exec_command", cmd="curl https://other.test")
    assert profiles(executor) == [PROXIED]
    assert any("protected on purpose" in note for note in reply.notes)


@pytest.mark.parametrize(
    "denial",
    [
        Denial(DenialKind.WRITE, "README", None, False),
        Denial(DenialKind.WRITE, None, None, True),
        Denial(DenialKind.SYSCALL, "mount", "system calls = restricted", True),
    ],
)
async def test_retry_without_the_sandbox_where_it_is_not_known_what_was_missing(denial: Denial) -> None:
    executor = FakeExecutor(saying(Ending(1, sandbox_denied=True, denials=(denial,)), 0))
    async with paddock.Agent(executor, approver=Answers("approved"), approval_policy="on-failure") as tools:
        await called(tools, "exec_command", cmd="make")
    assert profiles(executor) == [":workspace", None]


@pytest.mark.parametrize("rule", [f"{OWN} = read", "/work/secret = deny", "**/*.env = deny"])
async def test_what_is_protected_on_purpose_is_not_asked_for(rule: str) -> None:
    executor = FakeExecutor(saying(write_denied("/work/secret", rule=rule)))
    async with paddock.Agent(executor, approver=Answers(), approval_policy="on-failure") as tools:
        reply = await called(tools, "exec_command", cmd="make")
    assert len(executor.started) == 1
    assert any("protected on purpose" in note for note in reply.notes)


@pytest.mark.parametrize(
    "entry",
    [
        {"path": {"type": "path", "path": "/work/secret"}, "access": "deny"},
        {"path": {"type": "glob_pattern", "pattern": "**/*.env"}, "access": "deny"},
        None,
    ],
)
async def test_profile_that_hides_something_is_never_left(entry: dict[str, object] | None) -> None:
    shown = {"kind": "root"} if entry is not None else {"kind": "minimal"}
    entries: list[object] = [{"path": {"type": "special", "value": shown}, "access": "read"}]
    if entry is not None:
        entries.append(entry)
    profile = {"type": "managed", "file_system": {"type": "restricted", "entries": entries}}
    executor = FakeExecutor(saying(write_denied(is_certain=False)))
    async with paddock.Agent(
        executor, profile=profile, approver=Answers(), approval_policy="on-failure"
    ) as tools:
        await called(tools, "exec_command", cmd="make")
        asked = await tools.call("exec_command", {"cmd": "make", "sandbox_permissions": "require_escalated"})
    assert len(executor.started) == 1
    assert asked.is_error


async def test_profile_that_only_the_server_knows_is_never_left() -> None:
    executor = FakeExecutor(saying(write_denied("/work/README")))
    async with paddock.Agent(
        executor, profile="dev", approver=Answers(), approval_policy="on-failure"
    ) as tools:
        await called(tools, "exec_command", cmd="make")
    assert profiles(executor) == ["dev"]


# --- answers --------------------------------------------------------------------


async def test_answer_for_the_session_counts_for_exactly_the_same_question() -> None:
    executor = FakeExecutor(saying(0))
    answers = Answers("approved_for_session", "approved", "approved", "approved")
    async with paddock.Agent(executor, approver=answers, approval_policy="untrusted") as tools:
        for arguments in (
            {"cmd": "make"},
            {"cmd": "make"},
            {"cmd": "make "},
            {"cmd": "make", "workdir": "sub"},
            {"cmd": "make", "sandbox_permissions": "require_escalated"},
        ):
            await called(tools, "exec_command", **arguments)
    assert len(answers.requests) == 4


async def test_answer_for_always_adds_a_rule(tmp_path: Path) -> None:
    executor, answers = FakeExecutor(saying(0)), Answers("approved_execpolicy_amendment")
    file = tmp_path / "amended.rules"
    async with paddock.Agent(
        executor, rules=rules(), amended_file=file, approver=answers, approval_policy="untrusted"
    ) as tools:
        await called(tools, "exec_command", cmd="git status -s")
        await called(tools, "exec_command", cmd="git status --long")
    assert answers.requests[0].proposed_prefix == ("git", "status")
    assert len(answers.requests) == 1
    assert file.read_text() == 'prefix_rule(pattern=["git", "status"], decision="allow")\n'


async def test_rule_for_a_shell_is_never_proposed() -> None:
    lines = ("bash script.sh", "/bin/sh x", "python3.12 x.py", "sudo ls", "git status; ls", "git status > x")
    executor, answers = FakeExecutor(saying(0)), Answers(*["approved"] * 7)
    async with paddock.Agent(executor, rules=rules(), approver=answers, approval_policy="untrusted") as tools:
        for cmd in lines:
            await called(tools, "exec_command", cmd=cmd)
        await called(tools, "exec_command", cmd="x", prefix_rule=["bash", "x.sh"])
    assert [request.proposed_prefix for request in answers.requests] == [()] * 7


async def test_rule_is_not_proposed_where_it_would_change_nothing() -> None:
    # The strictest rule decides: beside one that prompts, one that allows is worth nothing.
    executor, answers = FakeExecutor(saying(0)), Answers("approved")
    async with paddock.Agent(executor, rules=rules(git=Action.PROMPT), approver=answers) as tools:
        await called(tools, "exec_command", cmd="git status")
    assert answers.requests[0].proposed_prefix == ()


async def test_prefix_of_the_model_must_be_that_of_its_command() -> None:
    executor, answers = FakeExecutor(saying(0)), Answers(*["approved"] * 3)
    arguments = {"sandbox_permissions": "require_escalated", "prefix_rule": ["git", "pull"]}
    async with paddock.Agent(executor, rules=rules(), approver=answers) as tools:
        for cmd in ("git pull --rebase", "curl x", "git pull; curl x"):
            await called(tools, "exec_command", cmd=cmd, **arguments)
    assert [request.proposed_prefix for request in answers.requests] == [("git", "pull"), (), ()]


@pytest.mark.parametrize("policy", ["on-failure", "on-request", "never"])
async def test_allowed_command_that_is_denied_is_retried_without_a_question(policy: str) -> None:
    executor = FakeExecutor(saying(write_denied("/work/README"), 0))
    async with paddock.Agent(
        executor,
        rules=rules(make=Action.ALLOW),
        approver=Answers(),
        approval_policy=policy,
        profile=":read-only",
    ) as tools:
        reply = await called(tools, "exec_command", cmd="make test")
    assert reply.exit_code == 0
    assert any("A rule allows it: It may write /work/README." in note for note in reply.notes)


async def test_answer_for_always_to_a_retry_counts_for_the_next_one() -> None:
    executor = FakeExecutor(saying(write_denied("/work/README"), 0, write_denied("/work/README"), 0))
    answers = Answers("approved_execpolicy_amendment")
    async with paddock.Agent(
        executor, rules=rules(), approver=answers, approval_policy="on-failure", profile=":read-only"
    ) as tools:
        for _ in range(2):
            assert (await called(tools, "exec_command", cmd="make test")).exit_code == 0
    assert len(answers.requests) == 1


@pytest.mark.parametrize("takes_prepared", [True, False])
async def test_approved_command_is_started_without_the_sandbox_as_it_was_shown(takes_prepared: bool) -> None:
    vague = Ending(1, sandbox_denied=True)
    executor, answers = FakeExecutor(saying(vague, 0)), Answers("approved")
    executor.takes_prepared = takes_prepared
    async with paddock.Agent(executor, approver=answers, approval_policy="on-failure") as tools:
        await called(tools, "exec_command", cmd="make")
    confined, free = (started.command for started in executor.started)
    assert confined.prepared is None
    assert (free.prepared is not None) == takes_prepared
    [request] = answers.requests
    assert request.is_unsandboxed
    assert request.command == free.argv == (("/real" if takes_prepared else "") + "/bin/sh", "-c", "make")
    if free.prepared is not None:
        assert (free.prepared.argv, free.prepared.arg0, free.prepared.cwd) == (free.argv, "/bin/sh", "/work")
        assert free.prepared.env == {"HOME": "/", **ENVIRONMENT, "BASH_ENV": ""}


@pytest.mark.parametrize(
    ("shell", "options"),
    [
        *(("zsh-static", ("-f",)), ("zsh5-static", ("-f",)), ("bash-5.2-static", ("--norc",))),
        *(("dash", ()), ("ksh93", ()), ("bsd-csh", ("-f",)), ("elvish", None), ("zsh-mine", None)),
    ],
)
async def test_question_says_that_a_shell_may_read_files_if_nothing_is_known_that_keeps_it_from_that(
    shell: str, options: tuple[str, ...] | None
) -> None:
    executor, answers = FakeExecutor(saying(0)), Answers("approved")
    path = f"/usr/bin/{shell}"
    executor.contents[path] = b""
    async with paddock.Agent(executor, approver=answers) as tools:
        free = {"cmd": "make", "shell": path, "sandbox_permissions": "require_escalated"}
        await tools.call("exec_command", free)
    assert [started.command.argv for started in executor.started] == [(path, *(options or ()), "-c", "make")]
    [request] = answers.requests
    reading = [change for change in request.changes if "may read files of its user's" in change]
    assert len(reading) == (options is None)


@pytest.mark.parametrize("shell", ["rzsh", "/usr/bin/rzsh", "bin/rzsh"])
async def test_shell_reads_no_files_outside_of_the_sandbox_whatever_name_leads_to_it(shell: str) -> None:
    executor, answers = FakeExecutor(saying(0)), Answers("approved")
    executor.contents["/usr/bin/zsh-5.9"] = b""
    executor.links |= {"/usr/bin/rzsh": "zsh-5.9", "/work/bin": "/usr/bin"}
    async with paddock.Agent(executor, approver=answers) as tools:
        free = {"cmd": "make", "shell": shell, "sandbox_permissions": "require_escalated"}
        await tools.call("exec_command", free)
    assert [started.command.argv for started in executor.started] == [(shell, "-f", "-c", "make")]


async def test_question_has_the_name_by_which_a_program_is_called() -> None:
    """Python loads what lies beside that name, and other programs do other things under other names."""

    class OneProgram(FakeExecutor):
        async def prepare(self, command: Command, sandbox: Sandbox | None) -> PreparedExecSpec | None:
            argv = ("/usr/bin/python3.12", *command.argv[1:])
            return PreparedExecSpec(argv, command.argv[0], command.cwd, command.env)

    executor, answers = OneProgram(saying(0)), Answers("approved_for_session", "denied")
    names = ("/usr/bin/python3.12", "/work/venv/bin/python")
    async with paddock.Agent(executor, approver=answers) as tools:
        for name in (names[0], *names):
            free = {"cmd": "print(1)", "shell": name, "sandbox_permissions": "require_escalated"}
            reply = await tools.call("exec_command", free)
            assert reply.is_error == (name == names[1])
    assert len(executor.started) == 2
    assert [request.called for request in answers.requests] == [None, names[1]]
    assert answers.requests[0].command == answers.requests[1].command


async def test_question_that_nobody_answers_is_not_a_refusal() -> None:
    async def silent(request: paddock.ApprovalRequest) -> str:
        await asyncio.Event().wait()
        return "approved"

    executor = FakeExecutor(saying(0))
    async with paddock.Agent(
        executor, approver=silent, approval_policy="untrusted", approval_timeout_s=0.01
    ) as tools:
        events = tools.events()
        reply = await tools.call("exec_command", {"cmd": "make"})
    assert executor.started == []
    assert reply.is_error
    assert "not a refusal" in reply.text
    assert [getattr(event, "decision", None) for event in [event async for event in events]] == [
        None,
        "timed_out",
    ]


@pytest.mark.parametrize("answer", ["yes", "", "approved_execpolicy_amendment"])
async def test_answer_without_a_meaning_approves_nothing(answer: str) -> None:
    executor = FakeExecutor(saying(0))
    async with paddock.Agent(executor, approver=Answers(answer), approval_policy="untrusted") as tools:
        reply = await tools.call("exec_command", {"cmd": "make"})
    assert executor.started == []
    assert "the approver failed" in reply.text


async def test_reason_of_a_refusal_reaches_the_model() -> None:
    decision = paddock.ApprovalDecision(paddock.Approval.DENIED, "not on a Friday")
    async with paddock.Agent(
        FakeExecutor(saying(0)), approver=Answers(decision), approval_policy="untrusted"
    ) as tools:
        reply = await tools.call("exec_command", {"cmd": "make"})
    assert "not on a Friday" in reply.text


async def test_nothing_is_approved_without_an_approver() -> None:
    executor = FakeExecutor(saying(0))
    async with paddock.Agent(executor, approval_policy="untrusted") as tools:
        reply = await tools.call("exec_command", {"cmd": "make"})
    assert reply.is_error
    assert executor.started == []


async def test_approver_that_fails_after_a_denial_does_not_hide_the_first_attempt() -> None:
    executor = FakeExecutor(saying(write_denied("/work/README"), output=b"half done\n"))
    async with paddock.Agent(executor, approver=Answers("what?"), approval_policy="on-failure") as tools:
        reply = await called(tools, "exec_command", cmd="make")
    assert (reply.exit_code, reply.output) == (1, "half done\n")
    assert any("the approver failed" in note for note in reply.notes)


async def test_what_is_wrong_with_an_agent_is_told_before_it_is_open(tmp_path: Path) -> None:
    broken = tmp_path / "broken.rules"
    broken.write_text("prefix_rule(")
    with pytest.raises(paddock.RulesError, match=r"broken\.rules"):
        async with paddock.Agent(FakeExecutor(), rules=[broken]):
            pass
    with pytest.raises(paddock.RulesError, match=r"missing\.rules"):
        async with paddock.Agent(FakeExecutor(), rules=[tmp_path / "missing.rules"]):
            pass
    with pytest.raises(ValueError, match="there are untrusted, on-request, on-failure, never"):
        paddock.Agent(approval_policy="sometimes")
    with pytest.raises(ValueError, match="max_output_tokens is 0"):
        paddock.Agent(max_output_tokens=0)


async def test_rules_are_read_from_files(tmp_path: Path) -> None:
    file = tmp_path / "own.rules"
    file.write_text('prefix_rule(pattern=["make"], decision="forbidden", justification="no builds here")\n')
    executor = FakeExecutor(saying(0))
    async with paddock.Agent(executor, rules=[file]) as tools:
        refused = await tools.call("exec_command", {"cmd": "make"})
        await called(tools, "exec_command", cmd="ls")
    assert "no builds here" in refused.text
    assert len(executor.started) == 1


# --- input ----------------------------------------------------------------------


async def test_answer_for_the_session_holds_for_the_same_input_alone() -> None:
    executor, answers = FakeExecutor(saying(0)), Answers(*["approved_for_session"] * 3)
    async with paddock.Agent(executor, approver=answers) as tools:
        for stdin in ("ls\n", "ls\n", "rm x\n", None):
            given = {} if stdin is None else {"stdin": stdin}
            await called(tools, "exec_command", cmd="sh", sandbox_permissions="require_escalated", **given)
    assert [request.stdin for request in answers.requests] == ["ls\n", "rm x\n", None]


async def test_input_that_is_too_long_to_be_shown_is_not_asked_about() -> None:
    executor, answers = FakeExecutor(saying(0)), Answers()
    arguments = {"cmd": "sh", "stdin": "x" * (INPUT_LIMIT + 1)}
    async with paddock.Agent(executor, approver=answers) as tools:
        refused = await tools.call("exec_command", {**arguments, "sandbox_permissions": "require_escalated"})
        await called(tools, "exec_command", **arguments)
    assert refused.is_error
    assert "too many to show" in refused.text
    assert profiles(executor) == [":workspace"]


async def test_retry_with_input_that_can_not_be_shown_is_not_asked_about() -> None:
    executor, answers = FakeExecutor(saying(Ending(1, sandbox_denied=True))), Answers()
    async with paddock.Agent(executor, approver=answers, approval_policy="on-failure") as tools:
        reply = await called(tools, "exec_command", cmd="sh", stdin="x" * (INPUT_LIMIT + 1))
    assert any("too many to show" in note for note in reply.notes)
    assert len(executor.started) == 1


# --- changes of files -------------------------------------------------------------


def patch_of(*lines: str) -> dict[str, object]:
    return {"input": "\n".join(("*** Begin Patch", *lines, "*** End Patch"))}


async def test_answer_for_the_session_holds_for_the_same_change_of_a_file_alone() -> None:
    executor, answers = FakeExecutor(saying(0)), Answers(*["approved_for_session"] * 4)
    executor.contents["/etc/x"] = b"old\n"
    update = patch_of("*** Update File: /etc/x", "@@", "-old", "+new")
    calls: list[tuple[str, dict[str, object]]] = [
        ("apply_patch", update),
        ("apply_patch", patch_of("*** Update File: /etc/x", "@@", "-new", "+old")),
        ("apply_patch", update),
        ("edit_file", {"path": "/etc/x", "old": "new", "new": "newer"}),
        ("apply_patch", patch_of("*** Delete File: /etc/x")),
    ]
    async with paddock.Agent(executor, approver=answers) as tools:
        for name, arguments in calls:
            reply = await tools.call(name, arguments)
            assert not reply.is_error, reply.text
    shown = ["\n".join(question_lines(request)) for request in answers.requests]
    # The third is the first again.
    assert len(shown) == 4
    for text, expected in zip(
        shown, ("| +new", "| +old", "| +newer", "| *** Delete File: /etc/x"), strict=True
    ):
        assert expected in text
    assert "/etc/x" not in executor.contents


async def test_change_that_is_too_long_to_be_shown_is_not_asked_about() -> None:
    executor, answers = FakeExecutor(saying(0)), Answers()
    executor.contents["/etc/x"] = b"old\n"
    long = "x" * INPUT_LIMIT
    async with paddock.Agent(executor, approver=answers) as tools:
        refused = await tools.call("apply_patch", patch_of("*** Add File: /etc/x", f"+{long}"))
        done = await tools.call("apply_patch", patch_of("*** Add File: new", f"+{long}"))
    assert "too many to show" in refused.text
    assert executor.contents["/etc/x"] == b"old\n"
    assert not done.is_error


def added(path: str) -> tuple[str, str]:
    return f"*** Add File: {path}", "+new"


async def test_each_file_of_a_patch_is_changed_in_a_sandbox_that_is_wider_for_it_alone() -> None:
    writes: list[tuple[str, str | None, bool]] = []

    class Watched(FakeExecutor):
        def files(self, sandbox: Sandbox | None, *, without_links: bool = False) -> FileAccess:
            files = super().files(sandbox, without_links=without_links)
            write = files.write_file

            async def write_file(path: str, data: bytes, *, atomic: bool = False) -> None:
                assert sandbox is not None
                profile = sandbox.profile
                assert isinstance(profile, str | dict)
                granted = profile if isinstance(profile, str) else str(profile["file_system"]["entries"][-1])
                writes.append((path, granted, without_links))
                await write(path, data, atomic=atomic)

            files.write_file = write_file  # type: ignore[method-assign]
            return files

    executor, answers = Watched(), Answers("approved")
    executor.directories |= {"/one", "/two"}
    async with paddock.Agent(executor, approver=answers) as tools:
        patch = patch_of(*added("/one/a"), *added("own"), *added("/two/b"))
        reply = await tools.call("apply_patch", patch)
    assert not reply.is_error, reply.text
    assert writes == [
        ("/one/a", str({"path": {"type": "path", "path": "/one"}, "access": "write"}), True),
        ("/work/own", ":workspace", False),
        ("/two/b", str({"path": {"type": "path", "path": "/two"}, "access": "write"}), True),
    ]


async def test_answer_for_the_session_does_not_hold_for_a_patch_that_a_link_leads_elsewhere() -> None:
    executor, answers = FakeExecutor(), Answers("approved_for_session", "denied")
    executor.directories |= {"/home", "/secret", "/work/docs"}
    patch = patch_of(*added("/home/notes"), *added("docs/keys"))
    async with paddock.Agent(executor, approver=answers) as tools:
        for _ in range(2):
            done = await tools.call("apply_patch", patch)
            assert not done.is_error, done.text
        assert len(answers.requests) == 1
        del executor.contents["/work/docs/keys"]
        executor.directories.discard("/work/docs")
        executor.links["/work/docs"] = "/secret"
        refused = await tools.call("apply_patch", patch)
    assert refused.is_error
    assert len(answers.requests) == 2
    assert "It may write /secret/keys, which is where /work/docs/keys leads" in answers.requests[1].changes[1]
    assert "/secret/keys" not in executor.contents


@pytest.mark.parametrize("exchanged", ["/home", "/work/docs"])
async def test_change_of_files_that_lead_elsewhere_after_the_question_is_not_made(exchanged: str) -> None:
    executor = FakeExecutor()
    executor.directories |= {"/home", "/secret", "/work/docs"}

    async def exchange(_: paddock.ApprovalRequest) -> str:
        executor.directories.discard(exchanged)
        executor.links[exchanged] = "/secret"
        return "approved"

    before = dict(executor.contents)
    async with paddock.Agent(executor, approver=exchange) as tools:
        reply = await tools.call("apply_patch", patch_of(*added("/home/notes"), *added("docs/keys")))
    assert "when somebody was asked" in reply.text
    assert executor.contents == before


async def test_change_is_made_though_its_directory_was_made_after_the_question() -> None:
    executor = FakeExecutor(saying(0))

    async def make(_: paddock.ApprovalRequest) -> str:
        executor.directories.add("/home/new")
        return "approved"

    async with paddock.Agent(executor, approver=make) as tools:
        reply = await tools.call("apply_patch", patch_of(*added("/home/new/file")))
        assert not reply.is_error, reply.text
        asked = {
            "sandbox_permissions": "with_additional_permissions",
            "additional_permissions": {"file_system": {"write": ["/home/new/other/file"]}},
        }
        await called(tools, "exec_command", cmd="make", **asked)
    assert executor.contents["/home/new/file"] == b"new\n"
    assert len(executor.started) == 1


async def test_permission_for_a_path_that_leads_elsewhere_after_the_question_is_not_given() -> None:
    executor = FakeExecutor(saying(0))
    executor.directories |= {"/home", "/secret"}

    async def exchange(_: paddock.ApprovalRequest) -> str:
        executor.directories.discard("/home")
        executor.links["/home"] = "/secret"
        return "approved"

    asked = {
        "sandbox_permissions": "with_additional_permissions",
        "additional_permissions": {"file_system": {"write": ["/home"]}},
    }
    async with paddock.Agent(executor, approver=exchange) as tools:
        reply = await tools.call("exec_command", {"cmd": "make", **asked})
    assert "its paths lead elsewhere than when somebody was asked (It may write /home.)" in reply.text
    assert executor.started == []

    executor = FakeExecutor(saying(write_denied("/home"), 0))
    executor.directories |= {"/home", "/secret"}
    async with paddock.Agent(executor, approver=exchange, approval_policy="on-failure") as tools:
        retried = await called(tools, "exec_command", cmd="make")
    assert any("There was no retry: its paths lead elsewhere" in note for note in retried.notes)
    assert len(executor.started) == 1


async def test_link_is_removed_by_a_patch_only_where_that_needs_no_approval() -> None:
    executor, answers = FakeExecutor(), Answers("approved")
    executor.contents |= {"/home/file": b"1\n", "/work/mine": b"2\n"}
    executor.links |= {"/home/link": "/home/file"}
    async with paddock.Agent(executor, approver=answers) as tools:
        refused = await tools.call("apply_patch", patch_of("*** Delete File: /home/link"))
        done = await tools.call("apply_patch", patch_of("*** Delete File: mine"))
    assert "/home/link is a link to /home/file; remove it with exec_command" in refused.text
    assert not done.is_error, done.text
    assert ("/home/file" in executor.contents, "/work/mine" in executor.contents) == (True, False)


async def test_question_about_a_patch_shows_the_directory_from_which_its_paths_count() -> None:
    executor, answers = FakeExecutor(saying(0)), Answers("approved")
    executor.contents["/other/notes"] = b"old\n"
    line = "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: notes\n@@\n-old\n+new\n*** End Patch\nEOF"
    async with paddock.Agent(executor, approver=answers) as tools:
        await tools.call("exec_command", {"cmd": line, "workdir": "/other"})
    [request] = answers.requests
    assert "  directory: /other" in question_lines(request)
    assert executor.contents["/other/notes"] == b"new\n"
