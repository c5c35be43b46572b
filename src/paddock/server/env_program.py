"""Finds what `env` executes for a script that is to leave its sandbox.

The kernel hands a script to the interpreter that its first line names. If that is `env`, it executes another
program, which it looks up in PATH, and that one may be a script in turn. `env` goes on to the next directory
where the kernel does not execute what it has found, so all count that PATH leads to. This module looks on the
host, as `env` will outside. It does not decide whether the sandbox can change what it finds.
"""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from paddock.intercept.environment import PATH, safe_path
from paddock.intercept.execution import LINES_LIMIT, Execution, ScriptLine
from paddock.intercept.trust import IsWritable, executed_by, leads_to_sandbox
from paddock.sandbox.denial.shebang import HEAD_BYTES, Interpreter, interpreter_of

_Step = tuple[ScriptLine, str]


def with_env_programs(execution: Execution, is_writable: IsWritable) -> Execution:
    """Add the programs that `env` executes to the lines and interpreters of a script, and those of theirs."""
    steps = list(zip(execution.script_lines, execution.interpreters, strict=True))
    # The list grows meanwhile.
    for line, interpreter in steps:
        if len(steps) > LINES_LIMIT:
            break
        name = "" if line.argument is None else executed_by((line.interpreter, interpreter), line.argument)
        if name:
            for program in _found(name, execution.environment, is_writable):
                steps += _steps_of(program, execution.cwd)
    return replace(
        execution,
        script_lines=tuple(line for line, _ in steps),
        interpreters=tuple(interpreter for _, interpreter in steps),
    )


def script_line(interpreter: Interpreter) -> ScriptLine:
    """Return a first line as text."""
    argument = interpreter.argument
    return ScriptLine(os.fsdecode(interpreter.path), None if argument is None else os.fsdecode(argument))


def _found(name: str, environment: Mapping[str, str], is_writable: IsWritable) -> Iterator[str]:
    """Yield what `env` may execute, each file once; nothing for a path that the sandbox decides on."""
    if "/" in name:
        if not leads_to_sandbox(name, is_writable):
            yield name
        return
    directories = safe_path(environment.get(PATH, ""), is_writable) or os.defpath
    found = set()
    for directory in directories.split(":"):
        path = posixpath.join(directory, name)
        # Through a link the sandbox may put a program there, even if there is none now.
        if leads_to_sandbox(path, is_writable):
            yield path
            return
        if (
            os.path.isfile(path)
            and os.access(path, os.X_OK)
            and (real := os.path.realpath(path)) not in found
        ):
            found.add(real)
            yield path


def _steps_of(program: str, cwd: str) -> Iterator[_Step]:
    """Yield a program, and the interpreters that the kernel hands it to in turn."""
    line: ScriptLine | None = ScriptLine(program)
    for _ in range(LINES_LIMIT):
        if line is None:
            return
        path = os.path.realpath(posixpath.join(cwd, line.interpreter))
        yield line, path
        interpreter = interpreter_of(_head(path))
        line = None if interpreter is None else script_line(interpreter)


def _head(path: str) -> bytes:
    """Return the first bytes of a file; nothing if they can't be read, or the file is no regular one."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.pread(file, HEAD_BYTES, 0) if stat.S_ISREG(os.fstat(file).st_mode) else b""
    except OSError:
        return b""
    finally:
        os.close(file)
