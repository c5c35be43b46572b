"""Where the kernel can't be asked about executions, the probe says so and the wrapper takes over."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import paddock
from paddock.sandbox.enforce.wrapped_command import SHELL
from tests.interop.wrapper_programs import needs_patched_bash
from tests.sandbox.intercepted import rule, rules, run
from tests.sandbox.user_server import APART, user_server

DENIED = (
    "Execution denied: Execution forbidden by policy: `/usr/bin/uname` is forbidden by /etc/test.rules:7\n"
)
REFUSED = pytest.mark.parametrize("refused", ["ptrace", "listener"])


def python(module: str, *arguments: str, refused: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a module, perhaps under a filter that refuses something."""
    words = [sys.executable, "-m", "tests.sandbox.refusing", refused] if refused is not None else []
    command = [*words, sys.executable, "-m", module, *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, cwd=Path(__file__).parents[2]
    )


def told(*arguments: str, refused: str | None = None) -> dict[str, Any]:
    done = python("tests.sandbox.told_interceptor", *arguments, refused=refused)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@needs_patched_bash
@REFUSED
def test_the_wrapper_takes_over_where_the_kernel_can_not_be_asked(refused: str) -> None:
    expected = {"status": 1, "stderr": DENIED}
    assert told("bash", refused=refused) == {"interceptor": "wrapper", **expected}
    assert told("bash") == {"interceptor": "notify", **expected}


@needs_patched_bash
@REFUSED
async def test_it_takes_over_for_every_user(user: int, ground: Path, refused: str) -> None:
    filtered = (*APART, sys.executable, "-m", "tests.sandbox.refusing", refused)
    forbidden = rules(rule("forbidden", "uname"))
    with user_server(user, ground, filtered) as url:
        done = await run(url, ["bash", "-c", "uname"], ground, forbidden, profile=":read-only")
        assert (done.returncode, done.stdout, done.stderr.decode()) == (1, b"", DENIED)
        assert (await run(url, ["bash", "-c", "uname"], ground, rules())).stdout == b"Linux\n"
        with pytest.raises(paddock.PaddockError, match="'dash' is not Bash"):
            await run(url, ["dash", "-c", "uname"], ground, forbidden)


@needs_patched_bash
@REFUSED
def test_doctor_says_which_back_end_there_is_and_why(refused: str) -> None:
    findings = python("paddock", "doctor", refused=refused).stdout
    line = next(line for line in findings.splitlines() if "interception " in line)
    assert "wrapper: only commands of Bash" in line
    assert {"ptrace": "ptrace is refused here (Operation not permitted)", "listener": "trace: "}[
        refused
    ] in line
    assert "notify: the kernel asks about everything" in python("paddock", "doctor").stdout


@needs_patched_bash
def test_a_command_that_is_not_bash_is_refused_and_not_run_unasked() -> None:
    answer = told("dash", refused="ptrace")
    assert "'dash' is not Bash" in answer["error"]
    assert told("dash")["stderr"] == DENIED


def test_without_any_back_end_the_start_is_refused_with_both_reasons(tmp_path: Path) -> None:
    settings = json.dumps({"interception_shell": str(tmp_path / "nothing")})
    answer = told("bash", settings, refused="ptrace")
    assert "ptrace is refused here" in answer["error"]
    assert "nothing does not run" in answer["error"]


def test_a_bash_without_the_patch_is_not_taken_for_one() -> None:
    settings = {"interception": "wrapper", "interception_shell": "/bin/bash"}
    assert "/bin/bash is a Bash without the patch" in told("bash", json.dumps(settings))["error"]


@needs_patched_bash
def test_one_that_is_asked_for_is_the_only_one() -> None:
    assert told("bash", json.dumps({"interception": "wrapper"}))["interceptor"] == "wrapper"
    answer = told("bash", json.dumps({"interception": "notify"}), refused="ptrace")
    assert "ptrace is refused here" in answer["error"]


@needs_patched_bash
def test_a_profile_that_hides_the_shell_or_lets_it_be_written_is_refused(tmp_path: Path) -> None:
    shell = tmp_path / "bash"
    shell.write_bytes(Path(SHELL).read_bytes())
    shell.chmod(0o755)
    settings = {
        "interception": "wrapper",
        "interception_shell": str(shell),
        "permissions": {
            access: {"filesystem": {":root": "read", str(tmp_path): access}}
            for access in ("deny", "write", "read")
        },
    }
    answers = {access: told("bash", json.dumps(settings), access) for access in ("deny", "write", "read")}
    assert f"the profile hides {shell}" in answers["deny"]["error"]
    assert f"lets the command write {shell}" in answers["write"]["error"]
    assert answers["read"] == {"interceptor": "wrapper", "status": 1, "stderr": DENIED}
