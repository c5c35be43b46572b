"""Files of rules -> a policy.

Files are read here and evaluated in a child process (`evaluator`), each under limits of memory
and time. A file that can't be read, is broken or exceeds its limits is a `Problem` of the
policy; the others are in force. Loading blocks for about a tenth of a second: a server does it
in a thread.
"""

from __future__ import annotations

import os
import select
import signal
import stat
import subprocess
import sys
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path

from paddock import own_program
from paddock.errors import RulesError, RulesFileError, RulesUnavailable
from paddock.installation import obey
from paddock.own_program import ROOT, own_environment
from paddock.rules.evaluation import (
    FILE_LIMIT_BYTES,
    LOAD_LIMIT_BYTES,
    EvaluatedFile,
    EvaluationRequest,
    RulesFile,
    decode_answers,
    encode_request,
)
from paddock.rules.layer import Layer
from paddock.rules.network import NetworkRule
from paddock.rules.policy import Policy, Problem
from paddock.rules.rule import PrefixRule

EVALUATOR = "paddock.rules.evaluator"

CHILD_TIMEOUT_S = 10.0
"""For all files together, in case the child gets no processor time or too many files take too long."""


def load_policy(paths: Iterable[Path]) -> Policy:
    """Load the policy of files, in this order. Raises RulesError when none can be evaluated at all.

    No command that this process confines may change them.
    """
    named = list(paths)
    obey(*named)
    return _load((path, None) for path in named)


def load_layers(layers: Iterable[Layer]) -> Policy:
    """Load the policy of every file in some layers. Raises RulesError when none can be evaluated at all.

    No command that this process confines may change them.

    A directory that others can change is a problem, because a file may be missing from it; the
    existing files are in force all the same.
    """
    found: list[tuple[Path, Layer]] = []
    problems: list[Problem] = []
    for layer in layers:
        obey(layer.directory)
        try:
            found += ((path, layer) for path in layer.files())
            complaint = layer.complaint(layer.directory.stat())
        except FileNotFoundError:
            continue
        except OSError as error:
            complaint = error.strerror or str(error)
        except RulesError as error:
            complaint = str(error)
        if complaint is not None:
            problems.append(Problem(str(layer.directory), complaint, is_unreadable=True))
    return _load(found, problems)


def _load(found: Iterable[tuple[Path, Layer | None]], problems: Iterable[Problem] = ()) -> Policy:
    files: list[RulesFile] = []
    all_problems = list(problems)
    room_bytes = LOAD_LIMIT_BYTES
    for path, layer in found:
        try:
            text, size_bytes = _read(path, layer, room_bytes)
            room_bytes -= size_bytes
            files.append(RulesFile(path=str(path), text=text))
        except FileNotFoundError as error:
            # A file that was removed just now is no longer part of its layer.
            if layer is None:
                all_problems.append(Problem(str(path), str(error.strerror), is_unreadable=True))
        except OSError as error:
            all_problems.append(Problem(str(path), error.strerror or str(error), is_unreadable=True))
        except UnicodeDecodeError:
            all_problems.append(Problem(str(path), "is not UTF-8 text", is_unreadable=True))
        except RulesError as error:
            all_problems.append(Problem(str(path), str(error), is_unreadable=True))
    return evaluate_files(files, all_problems)


def load_sound_policy(paths: Iterable[Path]) -> Policy:
    """Load files that must all be sound. Raises RulesFileError for the first that is not."""
    policy = load_policy(paths)
    for problem in policy.problems:
        position = (problem.line, problem.column or 1) if problem.line is not None else None
        raise RulesFileError(
            problem.path, problem.text, position, problem.excerpt, is_unreadable=problem.is_unreadable
        )
    return policy


def evaluate_files(files: Sequence[RulesFile], problems: Iterable[Problem] = ()) -> Policy:
    """Evaluate files that were already read; `problems` are those of the unreadable ones."""
    rules: list[PrefixRule] = []
    host_executables: dict[str, tuple[str, ...]] = {}
    network_rules: list[NetworkRule] = []
    all_problems = list(problems)
    evaluated, end = _evaluate(files) if files else ([], "")
    for file in evaluated:
        rules += file.rules
        host_executables |= file.host_executables
        network_rules += file.network_rules
        if file.problem is not None:
            all_problems.append(file.problem)
    all_problems += [Problem(file.path, end) for file in files[len(evaluated) :]]
    return Policy(rules, host_executables, network_rules, all_problems)


def _read(path: Path, layer: Layer | None, room_bytes: int) -> tuple[str, int]:
    """Read the text of a file and its size. A file of a layer must be trustworthy."""
    # Opening a fifo would wait for its writer. All checks are on the opened file, so there is no race.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    with open(os.open(path, flags | (os.O_NOFOLLOW if layer is not None else 0)), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise RulesError("is not a regular file")
        if layer is not None and (complaint := layer.complaint(status)) is not None:
            raise RulesError(complaint)
        data = file.read(FILE_LIMIT_BYTES + 1)
    if len(data) > FILE_LIMIT_BYTES:
        raise RulesError(f"is larger than {FILE_LIMIT_BYTES} bytes; split it")
    if len(data) > room_bytes:
        raise RulesError(f"does not fit: all files together are larger than {LOAD_LIMIT_BYTES} bytes")
    return data.decode("utf-8"), len(data)


def _evaluate(files: Sequence[RulesFile]) -> tuple[list[EvaluatedFile], str]:
    """Return a child's answers about the files, from the first on, and why it ended after them."""
    if find_spec("starlark") is None:
        raise RulesUnavailable("load rules", "starlark-pyo3")
    request = encode_request(EvaluationRequest(files=tuple(files)))
    # Files in memory and no pipes: neither side waits for the other, and the kernel limits the answer.
    question = os.memfd_create("paddock-rules-question")
    answer = os.memfd_create("paddock-rules-answer")
    try:
        with open(question, "wb", closefd=False) as file:
            file.write(request)
        os.lseek(question, 0, os.SEEK_SET)
        status = _run_child(question, answer)
        with open(answer, "rb", closefd=False) as file:
            file.seek(0)
            evaluated = list(decode_answers(file.read()))[: len(files)]
    finally:
        os.close(question)
        os.close(answer)
    return evaluated, _end(status)


def _run_child(question: int, answer: int) -> int | None:
    """Run a child, and return its exit status; None if this process had to kill it."""
    try:
        python = own_program.python()
        child = subprocess.Popen(
            own_program.python_command(EVALUATOR),
            executable=f"/proc/self/fd/{python}",
            pass_fds=(python,),
            stdin=question,
            stdout=answer,
            stderr=subprocess.DEVNULL,
            cwd=ROOT,
            # Without RUST_BACKTRACE: an interpreter that is out of memory would wait for ever for the lock of
            # its own backtrace.
            env=own_environment(),
            # A Ctrl-C at the terminal is not a mistake of the file.
            start_new_session=True,
        )
    except OSError as error:
        raise RulesError(f"can't start {sys.executable} to evaluate rules: {error.strerror}") from error
    with child:
        try:
            return child.wait() if _ends_in_time(child.pid) else None
        finally:
            # Also when this thread is interrupted. A child that was waited for has no forks left.
            if child.returncode is None:
                os.killpg(child.pid, signal.SIGKILL)


def _ends_in_time(pid: int) -> bool:
    descriptor = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(CHILD_TIMEOUT_S * 1000))
    finally:
        os.close(descriptor)


def _end(status: int | None) -> str:
    """Say why a child did not finish its files."""
    if status is None:
        return f"could not be evaluated within {CHILD_TIMEOUT_S:.0f} s"
    return f"could not be evaluated: the process that evaluates rules ended with status {status}"
