"""Decides whether a program called from a sandbox is really what its name says. Pure.

A rule names a program. Anyone who can write the file, or a directory above it, decides what the name stands
for. So Paddock never lets a program out of a sandbox that could have written it.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from paddock.intercept.execution import LINES_LIMIT, Execution

_ENV: Final = "env"
_ENV_NAME: Final = re.compile(r"[\w.+/][\w.+/-]*")
"""What `env` executes, and nothing but that: no option, no variable, no second word."""
_OPTION: Final = re.compile(r"-[^/]*")

IsWritable = Callable[[str], bool]
"""Returns whether the sandbox may write at an absolute path: the file, under any of its names, or what is
in the directory. It follows links, and each link counts as a place of its own."""


def distrust(execution: Execution, is_writable: IsWritable) -> str | None:
    """Return why a program may not be let out of the sandbox; None if it may."""
    if not execution.is_genuine:
        return f"{execution.program} on the host is not the file that would be executed"
    if not execution.is_executable:
        return f"{execution.program} is not something that the kernel executes"
    for path, role in _programs(execution):
        written = first_writable(path, is_writable)
        if written == path:
            return f"the sandbox can write {role}{path}"
        if written is not None:
            return f"the sandbox can write {written}, which {role}{path} is in"
    if (doubt := _distrust_lines(execution, is_writable)) is not None:
        return doubt
    if _is_called_into_sandbox(execution, is_writable):
        return f"its caller calls it {execution.argv[0]}, and the sandbox can change what is there"
    return None


def is_named_safely(execution: Execution, is_writable: IsWritable) -> bool:
    """Return whether the caller's name stands for the program, whatever the sandbox does.

    If every directory of the name, and so every link in it, is out of the sandbox's reach, rules
    about that name are as good as rules about the program itself.
    """
    return execution.is_genuine and not leads_to_sandbox(execution.called, is_writable)


def leads_to_sandbox(path: str, is_writable: IsWritable) -> bool:
    """Return whether the sandbox can influence what a path stands for."""
    # A relative path is looked up from a working directory that the sandbox chose; dots may lead anywhere.
    is_plain = path.startswith("/") and not {".", ".."} & set(path.split("/"))
    return not is_plain or first_writable(path, is_writable) is not None


def first_writable(path: str, is_writable: IsWritable) -> str | None:
    """Return the absolute path itself, or the nearest directory above it, that the sandbox may write."""
    return next((directory for directory in _upwards(path) if is_writable(directory)), None)


def executed_by(interpreter: Iterable[str], argument: str) -> str | None:
    """Return the program that an interpreter, by its paths, executes because of its argument in a script.

    It is empty if there is none, and None if anything might be executed.
    """
    if _ENV in map(posixpath.basename, interpreter):
        return argument if _ENV_NAME.fullmatch(argument) else None
    return "" if all(map(_OPTION.fullmatch, argument.split())) else None


def _distrust_lines(execution: Execution, is_writable: IsWritable) -> str | None:
    """Return why the lines of scripts may lead to another program than the interpreters that were found."""
    if len(execution.script_lines) > LINES_LIMIT:
        return "its first line leads through too many interpreters"
    for line, found in zip(execution.script_lines, execution.interpreters, strict=True):
        if leads_to_sandbox(line.interpreter, is_writable):
            return f"the sandbox decides where its interpreter {line.interpreter} leads"
        if line.argument is None:
            continue
        executed = executed_by((line.interpreter, found), line.argument)
        if executed is None:
            return f"its first line has {line.argument!r} for {line.interpreter}, which may run anything"
        # What `env` finds for a name has a line of its own.
        if "/" in executed and leads_to_sandbox(executed, is_writable):
            return f"its first line runs {executed}, which the sandbox can change"
    return None


def _is_called_into_sandbox(execution: Execution, is_writable: IsWritable) -> bool:
    """Return whether the first argument is a path in the sandbox's reach.

    Some programs, such as Python and compiler drivers, look beside that path for files to load. They look up
    a name without a slash in PATH.
    """
    name = execution.argv[0] if execution.argv else ""
    if "/" not in name:
        return False
    parts = posixpath.join(execution.cwd, name).split("/")
    return leads_to_sandbox("/".join(part for part in parts if part != "."), is_writable)


def _programs(execution: Execution) -> Iterator[tuple[str, str]]:
    yield execution.program, ""
    for interpreter in execution.interpreters:
        yield interpreter, "its interpreter "


def _upwards(path: str) -> Iterator[str]:
    assert path.startswith("/")
    path = path.rstrip("/")
    while path:
        yield path
        path = path.rpartition("/")[0].rstrip("/")
    yield "/"
