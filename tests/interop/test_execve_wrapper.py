"""Our Bash and our wrapper ask whoever speaks the escalation protocol, and do as they are told."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.escalation_reference import Action, Decider
from tests.interop.wrapper_programs import WRAPPER, needs_patched_bash, patched_bash

pytestmark = needs_patched_bash


def decide(request: dict[str, Any]) -> Action:
    """Let `id` out, deny `uname`, and run everything else."""
    match os.path.basename(request["file"]):
        case "uname":
            return {"Deny": {"reason": "it is nobody's business: é 😀 \udcff"}}
        case "arch":
            return {"Deny": {"reason": None}}
        case "id" | "sh":
            return "Escalate"
        case _:
            return "Run"


@pytest.fixture(params=[socket.SOCK_DGRAM, socket.SOCK_SEQPACKET], ids=["datagram", "packet"])
def decider(request: pytest.FixtureRequest) -> Iterator[Decider]:
    decider = Decider(decide, request.param)
    yield decider
    decider.close()
    assert decider.errors == []


def run(decider: Decider, script: str, **env: str) -> subprocess.CompletedProcess[bytes]:
    return decider.run(patched_bash(), WRAPPER, script, {"PADDOCK_EXEC_SHELL": str(patched_bash()), **env})


def asked(decider: Decider) -> list[str]:
    return [os.path.basename(request["file"]) for request in decider.requests]


def test_each_program_is_asked_about_and_run_denied_or_let_out(decider: Decider, tmp_path: Path) -> None:
    done = run(
        decider, f"cd {tmp_path}; echo one; uname; echo $?; arch; echo $?; id -u; /bin/true && sh -c 'exit 7'"
    )
    assert (done.returncode, done.stdout) == (7, f"one\n1\n1\n{os.getuid()}\n".encode())
    denied = "Execution denied: it is nobody's business: é 😀 ".encode() + b"\xff\nExecution denied\n"
    assert done.stderr == denied
    assert asked(decider) == ["uname", "arch", "id", "true", "sh"]
    assert decider.requests[2]["argv"] == ["id", "-u"]
    assert decider.requests[2]["workdir"] == str(tmp_path)


def test_no_script_can_switch_it_off(decider: Decider) -> None:
    script = """
    unset BASH_EXEC_WRAPPER CODEX_ESCALATE_SOCKET PADDOCK_EXEC_SHELL; uname
    BASH_EXEC_WRAPPER= uname
    export BASH_EXEC_WRAPPER=/bin/true CODEX_ESCALATE_SOCKET=0; uname
    readonly BASH_EXEC_WRAPPER=; (exec -c uname)
    """
    done = run(decider, script)
    assert (done.stdout, done.stderr.count(b"Execution denied")) == (b"", 4)
    without = subprocess.run([patched_bash(), "-c", "uname"], capture_output=True, check=True)
    assert without.stdout == b"Linux\n"


def test_a_wrapper_without_a_path_runs_nothing() -> None:
    environment = {"PATH": os.defpath, "BASH_EXEC_WRAPPER": "paddock-execve-wrapper"}
    done = subprocess.run([patched_bash(), "-c", "uname"], env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (126, b"")


def test_a_wrapper_that_is_no_program_does_not_make_the_shell_read_the_file_itself(tmp_path: Path) -> None:
    broken, script = tmp_path / "wrapper", tmp_path / "script"
    for file in (broken, script):
        file.write_text("echo executed\n")
        file.chmod(0o755)
    environment = {"PATH": os.defpath, "BASH_EXEC_WRAPPER": str(broken)}
    done = subprocess.run([patched_bash(), "-c", script], env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (126, b"")
    plain = subprocess.run([patched_bash(), "-c", script], capture_output=True, check=True)
    assert plain.stdout == b"executed\n"


def test_a_program_gets_the_name_and_arguments_that_its_caller_chose(decider: Decider) -> None:
    show = "cat /proc/self/cmdline"
    done = run(decider, f"(exec -a zed {show}); (exec -l {show}); exec -a '' {show}")
    names = [b"zed", b"-cat", b""]
    assert done.stdout == b"".join(name + b"\0/proc/self/cmdline\0" for name in names)
    assert [request["argv"][0] for request in decider.requests] == ["zed", "-cat", ""]


def test_bytes_that_are_not_utf8_come_through(decider: Decider) -> None:
    done = run(
        decider,
        r"""X=$'\xfe' env printf '%s' $'a\xff\xe9\xc3\xa9\n\x01"\\'; X=$'\xfe' sh -c 'printf %s "$X"'""",
    )
    assert done.stdout == b'a\xff\xe9\xc3\xa9\n\x01"\\\xfe'
    assert decider.requests[0]["argv"][-1] == 'a\udcff\udce9é\n\x01"\\'


def test_the_variables_of_the_protocol_are_not_among_those_of_a_program_outside(decider: Decider) -> None:
    done = run(decider, "sh -c 'env | grep -c ESCALATE'; env | grep -c ESCALATE", A="1")
    assert done.stdout == b"0\n1\n"
    assert decider.requests[0]["env"]["A"] == "1"
    assert not [name for name in decider.requests[0]["env"] if "ESCALATE" in name or "EXEC" in name]


def test_a_script_without_a_first_line_is_run_by_the_same_shell(decider: Decider, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text('echo "$0" "$1" "$BASH_VERSION"; uname\n')
    script.chmod(0o755)
    done = run(decider, f"echo $BASH_VERSION; {script} 'a b'")
    version, _, rest = done.stdout.partition(b"\n")
    assert rest == f"{script} a b ".encode() + version + b"\n"
    assert (done.returncode, asked(decider)) == (1, [script.name, "uname"])


def test_what_can_not_be_executed_has_the_status_of_a_shell(decider: Decider, tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    binary = tmp_path / "binary"
    binary.write_bytes(b"\x7fELF\0\0")
    binary.chmod(0o755)
    done = run(
        decider, f"/nowhere/x; echo $?; {tmp_path}/plain; echo $?; {tmp_path}; echo $?; {binary}; echo $?"
    )
    assert done.stdout == b"127\n126\n126\n126\n"


def test_nothing_runs_when_nobody_decides() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.close()
    with theirs:
        for number in (str(theirs.fileno()), "", "-1", "99", "1x", "4294967296", None):
            environment = {"PATH": os.defpath, "BASH_EXEC_WRAPPER": str(WRAPPER)}
            if number is not None:
                environment["CODEX_ESCALATE_SOCKET"] = number
            done = subprocess.run(
                [patched_bash(), "-c", "uname"],
                env=environment,
                pass_fds=[theirs.fileno()],
                capture_output=True,
                check=False,
            )
            assert (done.returncode, done.stdout) == (1, b""), number
            assert done.stderr.startswith(b"paddock: the execution can't be decided on: ")


def test_an_answer_that_makes_no_sense_runs_nothing() -> None:
    for answer in ("Walk", {"Deny": "no"}, {}, {"Allow": None}):
        decider = Decider(lambda _, answer=answer: answer)  # type: ignore[misc]
        done = run(decider, "uname; echo $?")
        decider.close()
        assert done.stdout == b"1\n", answer


def test_the_other_name_of_the_variable_is_known(decider: Decider) -> None:
    environment = {
        "PATH": os.defpath,
        "BASH_EXEC_WRAPPER": str(WRAPPER),
        "PADDOCK_ESCALATE_SOCKET": str(decider.file),
    }
    done = subprocess.run(
        [patched_bash(), "-c", "unset PADDOCK_ESCALATE_SOCKET; uname"],
        env=environment,
        pass_fds=[decider.file],
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr[:16]) == (1, b"Execution denied")
