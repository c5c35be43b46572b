"""Whoever decides on executions may fail or vanish: nothing runs then that was not decided on."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable

from paddock.sandbox.denial.exec_answer import ExecAnswer, ExecPolicy, Run, Settle, Withdraw
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


def tracer_of(on_exec: OnExec) -> Tracer:
    return trace_plan(PLAN, os.uname().machine, is_traced=False, execution_policy=ExecPolicy(on_exec))


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
