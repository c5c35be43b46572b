"""Whoever decides on executions may fail or vanish: nothing runs then that was not decided on."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from paddock.sandbox.denial.exec_answer import (
    NOT_BEGUN,
    Deny,
    Escalate,
    ExecAnswer,
    ExecPolicy,
    Run,
    Settle,
    Withdraw,
)
from paddock.sandbox.denial.exec_call import ExecCall
from paddock.sandbox.denial.tracer import Tracer, trace_plan
from tests.sandbox.identity import PYTHON
from tests.sandbox.test_tracer import PLAN, TIMEOUT_S, started

COMMAND = """\
import os, subprocess, sys
def told(*argv):
    try: return subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE).returncode
    except OSError as error: return f"errno-{error.errno}"
print(told("true"), told(*sys.argv[1:]), flush=True)
sys.stdin.readline()
print(told("true"), told("uname"))
"""

OnExec = Callable[[ExecCall, Settle], ExecAnswer | Withdraw]


def tracer_of(on_exec: OnExec, *, is_strict: bool = False) -> Tracer:
    policy = ExecPolicy(on_exec, is_strict=is_strict)
    return trace_plan(PLAN, os.uname().machine, is_traced=False, execution_policy=policy)


def run(_: ExecCall, __: Settle) -> ExecAnswer:
    return Run()


def test_when_nobody_decides_any_more_nothing_is_executed() -> None:
    tracer = tracer_of(run)
    with started(tracer.file, os.geteuid(), PYTHON, "-c", COMMAND, "uname") as process:
        tracer.begin()
        assert process.stdout is not None
        assert process.stdout.readline() == b"0 0\n"
        tracer.finish()
        said, _ = process.communicate(b"\n", timeout=TIMEOUT_S)
    assert said == b"errno-%d errno-%d\n" % (errno.ENOSYS, errno.ENOSYS)


def test_an_execution_that_waits_when_the_decider_ends_fails_and_its_question_is_withdrawn() -> None:
    is_asked, is_withdrawn = threading.Event(), threading.Event()

    def ask_about_uname(call: ExecCall, _: Settle) -> ExecAnswer | Withdraw:
        if not call.called.endswith(b"/uname"):
            return Run()
        is_asked.set()
        return is_withdrawn.set

    tracer = tracer_of(ask_about_uname)
    with started(tracer.file, os.geteuid(), PYTHON, "-c", COMMAND, "uname") as process:
        tracer.begin()
        assert is_asked.wait(TIMEOUT_S)
        tracer.finish()
        said, _ = process.communicate(b"\n", timeout=TIMEOUT_S)
    assert is_withdrawn.is_set()
    assert said.splitlines()[0] == b"0 errno-%d" % errno.ENOSYS


def test_a_decider_that_fails_denies_and_goes_on_deciding() -> None:
    def fail_for_uname(call: ExecCall, _: Settle) -> ExecAnswer:
        if call.called.endswith(b"/uname"):
            raise RuntimeError("a bug")
        return Run()

    tracer = tracer_of(fail_for_uname)
    with started(tracer.file, os.geteuid(), PYTHON, "-c", COMMAND, "uname") as process:
        tracer.begin()
        said, _ = process.communicate(b"\n", timeout=TIMEOUT_S)
        tracer.finish()
    assert said == b"0 1\n0 1\n"


def test_an_execution_that_can_not_be_read_is_refused() -> None:
    tracer = tracer_of(run)
    script = (
        "import ctypes; c = ctypes.CDLL(None, use_errno=True); c.execve(8, 0, 0); print(ctypes.get_errno())"
    )
    with started(tracer.file, os.geteuid(), PYTHON, "-c", script) as process:
        tracer.begin()
        said, _ = process.communicate(timeout=TIMEOUT_S)
        tracer.finish()
    assert said == b"%d\n" % errno.EPERM


def test_a_decider_that_can_not_read_its_call_has_it_refused() -> None:
    def fail_for_uname(call: ExecCall, _: Settle) -> ExecAnswer:
        if call.called.endswith(b"/uname"):
            raise ProcessLookupError(errno.ESRCH, "No such process")
        return Run()

    tracer = tracer_of(fail_for_uname)
    with started(tracer.file, os.geteuid(), PYTHON, "-c", COMMAND, "uname") as process:
        tracer.begin()
        said, _ = process.communicate(b"\n", timeout=TIMEOUT_S)
        tracer.finish()
    assert said == b"0 errno-%d\n0 errno-%d\n" % (errno.EPERM, errno.EPERM)


def test_a_script_without_its_interpreter_is_not_there_in_strict_mode(place: Path) -> None:
    script = place / "script"
    script.write_text("#!/nowhere/sh\n")
    script.chmod(0o755)
    tracer = tracer_of(run, is_strict=True)
    with started(tracer.file, os.geteuid(), PYTHON, "-c", COMMAND, str(script)) as process:
        tracer.begin()
        said, _ = process.communicate(b"\n", timeout=TIMEOUT_S)
        tracer.finish()
    assert said == b"0 errno-%d\n0 0\n" % errno.ENOENT


def test_an_answer_that_comes_after_the_end_of_its_task_is_said_to_be_in_vain() -> None:
    is_asked, is_withdrawn, is_heard = threading.Event(), threading.Event(), threading.Event()
    settles: list[Settle] = []
    heard: list[str | None] = []

    def ask_about_uname(call: ExecCall, settle: Settle) -> ExecAnswer | Withdraw:
        if not call.called.endswith(b"/uname"):
            return Run()
        settles.append(settle)
        is_asked.set()
        return is_withdrawn.set

    def hear(problem: str | None) -> None:
        heard.append(problem)
        is_heard.set()

    tracer = tracer_of(ask_about_uname)
    script = "uname & read line; kill -9 $!; wait; read line"
    with started(tracer.file, os.geteuid(), "sh", "-c", script) as process:
        tracer.begin()
        assert process.stdin is not None
        assert is_asked.wait(TIMEOUT_S)
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert is_withdrawn.wait(TIMEOUT_S)
        settles[0](Escalate((), hear))
        assert is_heard.wait(TIMEOUT_S)
        process.communicate(b"\n", timeout=TIMEOUT_S)
        tracer.finish()
    settles[0](Escalate((), hear))
    assert heard == [NOT_BEGUN] * 2


CHECK = """\
import ctypes, os, sys
call = ctypes.CDLL(None, use_errno=True).syscall
def checked(path):
    words = (ctypes.c_char_p * 2)(os.fsencode(path), None)
    done = call(322, -100, os.fsencode(path), words, (ctypes.c_char_p * 1)(None), 0x10000)
    return done if done == 0 else ctypes.get_errno()
print([checked(path) for path in sys.argv[1:]], flush=True)
"""


@pytest.mark.parametrize("answer", [Run(), Deny("no\n")])
def test_check_whether_a_program_may_be_executed_executes_none(answer: ExecAnswer, place: Path) -> None:
    tracer = tracer_of(lambda _, __: answer, is_strict=True)
    (place / "data").write_text("")
    with started(tracer.file, os.geteuid(), PYTHON, "-c", CHECK, "/bin/true", str(place / "data")) as process:
        tracer.begin()
        said, _ = process.communicate(timeout=TIMEOUT_S)
        tracer.finish()
    if b"%d" % errno.EINVAL in said:
        pytest.skip("the kernel knows no such check (Linux 6.14)")
    assert said == b"[0, %d]\n" % errno.EACCES
