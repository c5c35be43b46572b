"""Decides whether a program called from a sandbox is really what its name says. Pure.

A rule names a program. Anyone who can write the file, or a directory above it, decides what the name stands
for. So Paddock never lets a program out of a sandbox that could have written it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator

from paddock.intercept.execution import Execution

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
