"""What a patched Bash executes is run, let out or denied, as rules and answers say."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import paddock
from paddock.protocol.question import ExecApprovalParams, ExecApprovalResult
from tests.interop.wrapper_programs import needs_patched_bash
from tests.sandbox.identity import PYTHON, directory_of
from tests.sandbox.intercepted import denied, rule, rules, run, told
from tests.sandbox.job_control import require_job_control
from tests.sandbox.user_server import user_server

pytestmark = needs_patched_bash

CLONE = Path(__file__).parents[2]
NO_UNAME = rule("forbidden", "uname", justification="it is nobody's business")
REASON = "`/usr/bin/uname` is forbidden by /etc/test.rules:7: it is nobody's business"
MESSAGE = f"Execution denied: Execution forbidden by policy: {REASON}\n".encode()
OUT = ("id", "env", "sh", "touch", "sleep", "cat")
RULES = rules(NO_UNAME, *(rule("allow", name) for name in OUT))


@pytest.fixture(scope="module")
def url(user: int, ground: Path) -> Iterator[str]:
    """A server of that user."""
    with user_server(user, ground, interception="wrapper", allow_escalation=True) as url:
        yield url


@pytest.fixture(name="workspace")
def workspace_of_the_user(ground: Path, user: int) -> Iterator[Path]:
    with directory_of(user, ground) as directory:
        yield directory


@pytest.fixture
def outside(ground: Path, user: int) -> Iterator[Path]:
    """A directory of the user that the sandbox can't write."""
    with directory_of(user, ground) as directory:
        yield directory


async def bash(
    url: str, workspace: Path, script: str, intercept: paddock.InterceptParams | None = RULES, **more: Any
) -> paddock.CompletedProcess[bytes]:
    return await run(url, ["bash", "-c", script], workspace, intercept, **more)


async def test_a_program_is_denied_or_let_out_and_all_others_run(
    url: str, workspace: Path, outside: Path
) -> None:
    script = (
        f"uname; echo $?; touch {outside}/let-out; mkdir {outside}/inside || echo no; sh -c 'exit 7'; echo $?"
    )
    done = await bash(url, workspace, script)
    assert done.stdout == b"1\nno\n7\n"
    assert done.stderr.startswith(MESSAGE)
    assert sorted(os.listdir(outside)) == ["let-out"]
    assert (denied(done), told(done, paddock.Verdict.ESCALATE)) == (["uname"], ["touch", "dash"])
    assert done.ending.execs is not None
    assert done.ending.execs.counts[paddock.Verdict.RUN] == 1
    without = await bash(url, workspace, f"uname; touch {outside}/x || echo no", None)
    assert without.stdout == b"Linux\nno\n"


async def test_what_goes_out_has_streams_directory_name_variables_and_limits(
    url: str, workspace: Path
) -> None:
    script = """
    umask 027; ulimit -n 77; export C=c
    show='cat; pwd; umask; ulimit -n; printf "%s|" "$B" "$C" $0; env | grep -c ESCALATE'
    echo input | (exec -a sh sh -c "$show")
    """
    done = await bash(url, workspace, script, extra_env={"B": "b"})
    # What the sandbox has set does not go out.
    assert done.stdout == f"input\n{workspace}\n0027\n77\nb||sh|0\n".encode()
    inside = await bash(url, workspace, "printenv | grep -c ESCALATE", rules())
    assert inside.stdout == b"2\n"


async def test_a_signal_that_ends_a_program_outside_is_told_as_a_shell_does(
    url: str, workspace: Path
) -> None:
    done = await bash(url, workspace, "sh -c 'kill -9 $$'; echo $?; sh -c 'kill -TERM $$'; echo $?")
    assert done.stdout == f"{128 + signal.SIGKILL}\n{128 + signal.SIGTERM}\n".encode()


async def test_a_shell_stops_and_continues_a_program_outside_on_a_terminal(url: str, workspace: Path) -> None:
    await require_job_control(url, workspace, RULES)


async def test_signals_from_within_reach_a_program_outside(url: str, workspace: Path) -> None:
    script = """
    mkfifo f; sh -c 'trap "echo told; exit 9" TERM; sleep 600 & echo >f; wait' &
    read -r _ <f; kill -TERM $!; wait $!; echo $?
    """
    done = await bash(url, workspace, script)
    assert done.stdout == b"told\n9\n"


OUTLIVING = "mkfifo f; sh -c 'exec >f; echo $$; exec sleep 600' & exec 4<f; read -r pid <&4; "
"""A program outside, which alone has the other end of a pipe."""


async def test_a_program_outside_ends_with_its_wrapper(url: str, workspace: Path) -> None:
    done = await bash(
        url, workspace, OUTLIVING + "kill -9 $!; read -r more <&4 || echo gone; wait $!; echo $?"
    )
    assert done.stdout == b"gone\n137\n"


async def test_a_program_outside_ends_with_the_command(url: str, workspace: Path) -> None:
    done = await bash(url, workspace, OUTLIVING + "grep -q sleep /proc/$pid/comm; echo $pid; exit 3")
    assert done.returncode == 3
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)


async def test_a_planted_name_is_not_let_out(url: str, workspace: Path, user: int) -> None:
    planted = workspace / "id"
    planted.write_text("#!/bin/sh\ngrep NoNewPrivs /proc/self/status\n")
    planted.chmod(0o755)
    os.chown(planted, user, user)
    done = await bash(url, workspace, "./id; PATH=$PWD:$PATH; id; (exec -a id ./id); /usr/bin/id -u")
    assert done.stdout == b"NoNewPrivs:\t1\n" * 3 + f"{user}\n".encode()
    assert told(done, paddock.Verdict.ESCALATE) == ["id"]


async def test_variables_of_the_sandbox_keep_a_program_in_it(url: str, workspace: Path) -> None:
    done = await bash(url, workspace, "LD_PRELOAD=$PWD/x.so /usr/bin/id -u 2>/dev/null")
    assert done.ending.execs is not None
    assert "LD_PRELOAD" in (done.ending.execs.notes[0].not_escalated or "")


async def test_somebody_is_asked_about_what_needs_an_answer(url: str, workspace: Path) -> None:
    asked = []

    def answer(question: ExecApprovalParams) -> ExecApprovalResult:
        asked.append(question.argv)
        return ExecApprovalResult(
            verdict=paddock.Verdict.DENY if "-s" in question.argv else paddock.Verdict.RUN, reason="so"
        )

    wanted = rules(rule("prompt", "uname"), on_prompt="ask")
    done = await bash(url, workspace, "uname; uname -s", wanted, answer=answer)
    assert (done.returncode, done.stdout, asked) == (1, b"Linux\n", [["uname"], ["uname", "-s"]])
    assert done.stderr.startswith(b"Execution denied: so (")


async def test_many_wrappers_are_served_at_once(url: str, workspace: Path, user: int) -> None:
    done = await bash(url, workspace, "for i in {1..40}; do { id -u; uname; ls -d /; } 2>&1 & done; wait")
    assert Counter(done.stdout.splitlines(keepends=True)) == {
        f"{user}\n".encode(): 40,
        MESSAGE: 40,
        b"/\n": 40,
    }


async def test_what_does_not_keep_to_the_protocol_runs_nothing_and_harms_nobody(
    url: str, workspace: Path
) -> None:
    client = f"PYTHONPATH={CLONE} PYTHONDONTWRITEBYTECODE=1 {PYTHON} -m tests.sandbox.rude_wrapper"
    done = await bash(url, workspace, f"{client}; uname")
    said = done.stdout.decode().splitlines()
    assert said[:5] == ["b''"] * 4 + ["reset"], done.stderr
    reason = MESSAGE.decode().removeprefix("Execution denied: ").strip()
    elsewhere = "it can't be let out of the sandbox: / on the host is a different file"
    assert said[5:] == [
        str({"Deny": {"reason": reason}}),
        "('Run', None)",
        "('Run', None)",
        str({"Deny": {"reason": elsewhere}}),
        "('Escalate', 0)",
    ]
    assert done.stderr == MESSAGE


async def test_a_command_can_be_traced_as_well(url: str, workspace: Path) -> None:
    sandbox = paddock.Sandbox(":workspace", trace=True)
    async with paddock.connect(url) as box:
        done = await box.run(
            ["bash", "-c", "uname; mkdir /etc/x"],
            cwd=workspace,
            sandbox=sandbox,
            intercept=RULES,
            timeout_s=60,
        )
    assert done.stderr.startswith(MESSAGE)
    assert [denial.target for denial in done.ending.denials] == ["/etc/x"]


async def test_a_script_that_another_shell_runs_is_not_asked_about(url: str, workspace: Path) -> None:
    """As the original: only Bash asks, and only about what it executes itself."""
    done = await bash(
        url, workspace, "dash -c 'uname'; env -u BASH_EXEC_WRAPPER bash -c 'uname'", rules(NO_UNAME)
    )
    assert done.stdout == b"Linux\nLinux\n"
