"""Evaluates files of rules, in a process of its own: `python -m paddock.rules.evaluator`.

A file is a program, and a hostile one can crash its interpreter, never end, or eat
memory. So a fork of this process, which has given up what it does not need, evaluates each
file, and the kernel ends that fork when the file takes more time or memory than it may. A
file that breaks its interpreter harms no other file.
"""

from __future__ import annotations

import os
import re
import resource
import signal
import sys
from collections.abc import Mapping
from typing import Any, NoReturn

import starlark
from msgspec.structs import replace

from paddock.errors import InvalidRule
from paddock.model.decision import Origin
from paddock.rules.declaration import PARAMETERS, Call, Declaration, Value, check_examples, declare
from paddock.rules.evaluation import (
    ANSWER_LIMIT_BYTES,
    FILE_CPU_LIMIT_S,
    LEAST_FILE_CPU_LIMIT_S,
    LOAD_ANSWER_LIMIT_BYTES,
    MEMORY_LIMIT_BYTES,
    EvaluatedFile,
    RulesFile,
    decode_answers,
    decode_request,
    encode_answer,
)
from paddock.rules.policy import Problem

# A Python function learns from the interpreter neither where it was called nor whether it got a list or
# a tuple. A function of the language can learn both, so each of ours is one that passes them on.
_PRELUDE = """
def _paddock_value(value, depth):
    kind = type(value)
    if kind == "string":
        return [kind, value]
    if kind == "list" or kind == "tuple":
        return [kind, [_paddock_value(item, depth - 1) for item in value] if depth else []]
    return [kind, repr(value)]

def _paddock_call(function, stack, args, kwargs):
    positional = [_paddock_value(value, 4) for value in args]
    named = {name: _paddock_value(value, 4) for name, value in kwargs.items()}
    _paddock_declare(function, stack, positional, named)
""" + "".join(
    f"""
def {name}(*args, **kwargs):
    _paddock_call({name!r}, call_stack(strip_frames=1), args, kwargs)
"""
    for name in PARAMETERS
)
_PRELUDE_NAME = "<paddock>"
_PRELUDE_FRAMES = 8
"""Frames of its call stack, including the deepest list that it looks into."""

_CALL_STACK_FRAMES = 50
"""How deep functions may call each other: the interpreter's own default."""


class _Recorder:
    """Takes the calls of one file, in order."""

    def __init__(self, path: str) -> None:
        self.declarations: list[Declaration] = []
        self.calls: list[Call] = []
        self.fault: InvalidRule | None = None
        """The fault in the last call."""
        self._path = path

    def declare(self, function: str, stack: str, positional: list[Any], named: dict[str, Any]) -> None:
        call = Call(
            function,
            Origin(self._path, _line(stack)),
            tuple(_value(each) for each in positional),
            {name: _value(each) for name, each in named.items()},
        )
        self.calls.append(call)
        try:
            self.declarations.append(declare(call))
        except InvalidRule as fault:
            self.fault = fault
            raise


def evaluate(file: RulesFile, host_executables: Mapping[str, tuple[str, ...]]) -> EvaluatedFile:
    """Return what a file declares. `host_executables` are the declarations of earlier files."""
    recorder = _Recorder(file.path)
    try:
        module = starlark.Module()
        module.add_callable("_paddock_declare", recorder.declare)
        prelude = starlark.parse(_PRELUDE_NAME, _PRELUDE, _dialect())
        starlark.eval(module, prelude, starlark.Globals.extended_by([starlark.LibraryExtension.CallStack]))
        _run(module, file)
    except starlark.StarlarkError as error:
        if recorder.fault is None:
            return EvaluatedFile(problem=_problem(file.path, str(error)))
        return EvaluatedFile(problem=_located(file, len(recorder.calls), recorder.fault))
    return _checked(file, recorder.declarations, host_executables)


def _checked(
    file: RulesFile, declarations: list[Declaration], known: Mapping[str, tuple[str, ...]]
) -> EvaluatedFile:
    own = {name: paths for each in declarations for name, paths in each.host_executables.items()}
    for number, declaration in enumerate(declarations, start=1):
        try:
            check_examples(declaration, {**known, **own})
        except InvalidRule as fault:
            return EvaluatedFile(problem=_located(file, number, fault))
    return EvaluatedFile(
        rules=tuple(rule for each in declarations for rule in each.rules),
        host_executables=own,
        network_rules=tuple(rule for each in declarations for rule in each.network_rules),
    )


def _located(file: RulesFile, number: int, fault: InvalidRule) -> Problem:
    """Find a call by evaluating the file again up to it: only an error has a place with a column."""
    calls = 0

    def count(*_args: object, **_kwargs: object) -> None:
        nonlocal calls
        calls += 1
        if calls == number:
            raise fault

    module = starlark.Module()
    for name in PARAMETERS:
        module.add_callable(name, count)
    try:
        _run(module, file)
    except starlark.StarlarkError as error:
        # Only the place: an argument that the interpreter can't hand over is another error, at the same call.
        return replace(_problem(file.path, str(error)), text=_cut(str(fault), TEXT_CHARS))
    raise AssertionError("a file did something else when it was evaluated again")


def _run(module: starlark.Module, file: RulesFile) -> None:
    options = starlark.EvalOptions(max_callstack_size=_CALL_STACK_FRAMES + _PRELUDE_FRAMES)
    tree = starlark.parse(file.path, file.text, _dialect())
    starlark.eval_with(options, module, tree, starlark.Globals.standard())


def _dialect() -> starlark.Dialect:
    dialect = starlark.Dialect.extended()
    dialect.enable_f_strings = True
    return dialect


def _value(encoded: list[Any]) -> Value:
    kind, content = encoded
    if isinstance(content, list):
        content = tuple(_value(item) for item in content)
    return Value(kind, content)


_FRAME = re.compile(r"^  \* .*:(\d+), in ", re.MULTILINE)


def _line(stack: str) -> int:
    """Return the line of the innermost call on a stack. Lines of source are indented deeper than these."""
    return int(_FRAME.findall(stack)[-1])


_REPORT = re.compile(
    rf"(?P<stack>.*?)^error: (?:{InvalidRule.__name__}: )?(?P<text>.*)"
    r"(?P<place>^ *--> [^\n]*:(?P<line>\d+):(?P<column>\d+)\n.*)",
    re.MULTILINE | re.DOTALL,
)


TEXT_CHARS = 2000
LINE_CHARS = 200
"""Most characters shown of a complaint, and of each line around its place: a file chooses their length, and
they go to terminals and logs."""


def _problem(path: str, report: str) -> Problem:
    """Take an error of the interpreter apart."""
    found = _REPORT.fullmatch(report)
    if found is None:
        return Problem(path, _cut(report.strip().removeprefix("error: "), TEXT_CHARS))
    excerpt = (found["stack"] + found["place"].rstrip()).split("\n")
    return Problem(
        path,
        _cut(found["text"].strip(), TEXT_CHARS),
        int(found["line"]),
        int(found["column"]),
        "\n".join(_cut(line, LINE_CHARS) for line in excerpt),
    )


def _cut(text: str, limit_chars: int) -> str:
    return text if len(text) <= limit_chars else f"{text[:limit_chars]}…"


# --- the process ------------------------------------------------------------


def main() -> None:
    """Answer the question on standard input, file by file."""
    request = decode_request(sys.stdin.buffer.read())
    known: dict[str, tuple[str, ...]] = {}
    cpu_limit_s = FILE_CPU_LIMIT_S
    room_bytes = LOAD_ANSWER_LIMIT_BYTES
    for file in request.files:
        evaluated, status = _evaluate_apart(file, known, cpu_limit_s)
        if evaluated is None:
            evaluated = EvaluatedFile(problem=Problem(file.path, _end(status, cpu_limit_s)))
        if status == -signal.SIGPROF:
            cpu_limit_s = max(cpu_limit_s / 2, LEAST_FILE_CPU_LIMIT_S)
        answer = encode_answer(evaluated)
        if len(answer) > room_bytes:
            text = (
                f"does not fit: all files together declare more than {_mib(LOAD_ANSWER_LIMIT_BYTES)} of rules"
            )
            evaluated = EvaluatedFile(problem=Problem(file.path, text))
            answer = encode_answer(evaluated)
        room_bytes -= len(answer)
        known |= evaluated.host_executables
        sys.stdout.buffer.write(answer)
        sys.stdout.buffer.flush()


def _evaluate_apart(
    file: RulesFile, known: Mapping[str, tuple[str, ...]], cpu_limit_s: float
) -> tuple[EvaluatedFile | None, int]:
    """Return the answer of a fork of this process about a file, None if it did not finish, and its status."""
    answer = os.memfd_create("paddock-rules-file")
    try:
        pid = os.fork()
        if pid == 0:
            _answer_and_exit(file, known, cpu_limit_s, answer)
        _, wait_status = os.waitpid(pid, 0)
        status = os.waitstatus_to_exitcode(wait_status)
        if status != 0:
            return None, status
        with open(answer, "rb", closefd=False) as written:
            written.seek(0)
            return next(decode_answers(written.read()), None), status
    finally:
        os.close(answer)


_TOO_MUCH_STATUS = 2
"""Exit status of a fork whose answer is too large."""


def _answer_and_exit(
    file: RulesFile, known: Mapping[str, tuple[str, ...]], cpu_limit_s: float, answer: int
) -> NoReturn:
    status = 1
    try:
        _confine(cpu_limit_s)
        data = encode_answer(evaluate(file, known))
        # Python ignores SIGXFSZ, so that writing beyond the limit fails instead.
        with open(answer, "wb", closefd=False) as writing:
            writing.write(data)
        status = 0
    except OSError:
        status = _TOO_MUCH_STATUS
    finally:
        # Whatever was raised, no code of the parent process may run in this fork.
        os._exit(status)


def _confine(cpu_limit_s: float) -> None:
    """Limit this process for good. It needs only what it has open already."""
    for kind, limit in (
        (resource.RLIMIT_AS, MEMORY_LIMIT_BYTES),
        (resource.RLIMIT_FSIZE, ANSWER_LIMIT_BYTES),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NPROC, 0),
    ):
        resource.setrlimit(kind, (limit, limit))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGPROF})
    signal.setitimer(signal.ITIMER_PROF, cpu_limit_s)


def _end(status: int, cpu_limit_s: float) -> str:
    """Say why a fork did not finish its file."""
    if status == -signal.SIGPROF:
        return f"takes more than {cpu_limit_s:g} s to evaluate; split it, unless it has a loop with no end"
    if status == _TOO_MUCH_STATUS:
        return f"declares more than {_mib(ANSWER_LIMIT_BYTES)} of rules"
    memory = _mib(MEMORY_LIMIT_BYTES)
    if status < 0:
        name = signal.Signals(-status).name
        return f"crashed its interpreter ({name}): it needs more than {memory} of memory, or nests too deeply"
    return f"could not be evaluated: it needs more than {memory} of memory, or the interpreter failed"


def _mib(size_bytes: int) -> str:
    return f"{size_bytes // 1024**2} MiB"
