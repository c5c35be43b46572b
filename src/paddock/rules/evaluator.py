"""Evaluates files of rules, in a process of its own: `python -m paddock.rules.evaluator`.

A file is a program, and a hostile one can crash its interpreter, never end, or eat
memory. So this process gives up what it does not need before it reads anything, and the
kernel ends it when a file takes more time or memory than it may. It answers file by file:
the one that is missing in the answer is the one that ended it.
"""

from __future__ import annotations

import re
import resource
import signal
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import starlark

from paddock.errors import InvalidRule
from paddock.model.decision import Origin
from paddock.rules.declaration import PARAMETERS, Call, Declaration, Value, check_examples, declare
from paddock.rules.evaluation import (
    ANSWER_LIMIT_BYTES,
    FILE_CPU_LIMIT_S,
    MEMORY_LIMIT_BYTES,
    EvaluatedFile,
    RulesFile,
    decode_request,
    encode_answer,
)
from paddock.rules.policy import Problem

# The interpreter tells a Python function neither where it was called nor whether it got a list or a
# tuple. A function of the language can learn both, so each of ours is one that passes them on.
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
"""Of its call stack, the deepest list that it looks into included."""

_CALL_STACK_FRAMES = 50
"""How deep functions may call each other: the interpreter's own default."""


class _Recorder:
    """Takes the calls of one file, in order."""

    def __init__(self, path: str) -> None:
        self.declarations: list[Declaration] = []
        self.calls: list[Call] = []
        self.fault: InvalidRule | None = None
        """What is wrong with the last of the calls."""
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
    """What a file declares. `host_executables` is what files before it have declared."""
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
    """The place of a call, by evaluating the file again up to it: only an error has a place with a column."""
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
        return replace(_problem(file.path, str(error)), text=str(fault))
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
    """The line of the innermost call on a stack. Lines of source are indented deeper than these."""
    return int(_FRAME.findall(stack)[-1])


_REPORT = re.compile(
    rf"(?P<stack>.*?)^error: (?:{InvalidRule.__name__}: )?(?P<text>.*)"
    r"(?P<place>^ *--> [^\n]*:(?P<line>\d+):(?P<column>\d+)\n.*)",
    re.MULTILINE | re.DOTALL,
)


def _problem(path: str, report: str) -> Problem:
    """An error of the interpreter, taken apart."""
    found = _REPORT.fullmatch(report)
    if found is None:
        return Problem(path, report.strip().removeprefix("error: "))
    excerpt = found["stack"] + found["place"].rstrip()
    return Problem(path, found["text"].strip(), int(found["line"]), int(found["column"]), excerpt)


def _confine() -> None:
    """Limit this process for good. What it has open already, standard input and output, is all it needs."""
    for kind, limit in (
        (resource.RLIMIT_AS, MEMORY_LIMIT_BYTES),
        (resource.RLIMIT_FSIZE, ANSWER_LIMIT_BYTES),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NPROC, 0),
    ):
        resource.setrlimit(kind, (limit, limit))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGPROF})


def main() -> None:
    """Answer the question on standard input."""
    _confine()
    request = decode_request(sys.stdin.buffer.read())
    known = dict(request.host_executables)
    for file in request.files:
        # Ends this process by SIGPROF when the file has taken too much time of the processor.
        signal.setitimer(signal.ITIMER_PROF, FILE_CPU_LIMIT_S)
        evaluated = evaluate(file, known)
        known |= evaluated.host_executables
        sys.stdout.buffer.write(encode_answer(evaluated))
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
