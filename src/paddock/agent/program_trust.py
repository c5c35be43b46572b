"""Whether a rule that allows a line may let it out of the sandbox: is the program what its name says?

A rule names a program. Anyone who can write the file, a link to it, or a directory in which a shell looks for
it, decides what the name stands for; so does anyone who can write the interpreter of a script. So a line that
runs anything in reach of the sandbox is asked about, whatever a rule says. This looks at programs and the
scripts' first lines, and not at the libraries and files that a program loads.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from paddock.agent.executor import Executor, FileAccess
from paddock.agent.permission import Reach
from paddock.client.confinement import Sandbox
from paddock.errors import NotFound, PaddockError
from paddock.intercept.trust import executed_by, first_writable
from paddock.protocol.fs import MetadataResult
from paddock.sandbox.denial.shebang import HEAD_BYTES, Interpreter, interpreter_of

DEPTH_LIMIT: Final = 8
"""Programs that stand for one another: the kernel follows five interpreters, and `env` begins a new count."""

PROCESSES: Final = "/proc"
ELF: Final = b"\x7fELF"

_EXECUTABLE: Final = 0o111


class ProgramTrust:
    """Answers for one agent and the paths that its profile lets commands write.

    In `distrusted` directories others have written what the agent's own commands may only read.
    """

    def __init__(self, executor: Executor, reach: Reach, distrusted: Sequence[str] = ()) -> None:
        self._executor = executor
        self._reach = reach
        self.distrusted: Final = tuple(distrusted)

    async def distrust(
        self, programs: Sequence[str], sandbox: Sandbox, granted: Sequence[str] = ()
    ) -> str | None:
        """Return why programs, as a line calls them, may not leave the sandbox by a rule; None if they may.

        Approvals have let commands write what was `granted`. A program that can't be looked up is not
        trusted.
        """
        written = self._reach.writable
        if written is None:
            return "commands in the sandbox can write every program"
        written = (*written, *self.distrusted, *granted)
        try:
            search_path = await self._executor.search_path(sandbox)
            files = self._executor.files(None)
            writable = {*written, *[(await files.way(path))[-1] for path in written]}
            look = _Look(files, frozenset(writable), (search_path or "").split(":"))
            for program in dict.fromkeys(programs):
                if (doubt := await look.doubt(program)) is not None:
                    return doubt
        except PaddockError as error:
            return f"its programs can't be looked up: {error}"
        return None


class _Finding(Struct, frozen=True):
    """What is known of a path that is to be executed."""

    doubt: str | None = None
    """Why it is not trusted."""
    runs: bool = False
    """Whether it certainly runs. If not, a shell looks for the name in the next directory."""


class _Look:
    """One look at the programs of a line."""

    def __init__(self, files: FileAccess, writable: frozenset[str], directories: Sequence[str]) -> None:
        self._files = files
        self._writable = writable
        self._directories = directories

    async def doubt(self, program: str, depth: int = 0) -> str | None:
        """Return why a program is not trusted, as a shell or `env` is told to run it."""
        if "/" in program:
            return (await self._find(program, depth)).doubt
        for directory in self._directories:
            # Even if nothing is there: a command could put a program there before the shell looks.
            found = await self._find(posixpath.join(directory, program), depth)
            if found.doubt is not None or found.runs:
                return found.doubt
        return None

    async def _find(self, path: str, depth: int) -> _Finding:
        """Look at a path that the kernel is told to execute, and at all that it executes instead."""
        if depth > DEPTH_LIMIT:
            return _Finding(f"{path} is the last of too many interpreters")
        if (doubt := await self._doubt_path(path)) is not None:
            return _Finding(doubt)
        status = await _status(self._files, path)
        if status is None or not status.is_file:
            return _Finding()
        # A server of the reference protocol does not say who may execute it.
        mode = status.mode if isinstance(status.mode, int) else None
        if mode is not None and not mode & _EXECUTABLE:
            return _Finding()
        if await self._files.has_other_names(path):
            return _Finding(f"{path} has other names, by which commands in the sandbox might write it")
        may_everybody = mode is not None and mode & _EXECUTABLE == _EXECUTABLE
        head = await self._files.read_head(path, HEAD_BYTES)
        interpreter = interpreter_of(head)
        if interpreter is not None:
            found = await self._follow(path, interpreter, depth)
            return _Finding(found.doubt, found.runs and may_everybody)
        if not head.startswith(ELF):
            # Each shell does something else with such a file.
            return _Finding(f"{path} is not something that the kernel executes")
        return _Finding(runs=may_everybody)

    async def _doubt_path(self, path: str) -> str | None:
        if not path.startswith("/") or {".", ".."} & set(path.split("/")):
            return f"{path} is not an absolute path"
        for passed in (path, *await self._files.way(path)):
            if first_writable(passed, self._writable.__contains__) is not None:
                through = "" if passed == path else f", which {path} leads through"
                return f"commands in the sandbox can write {passed}{through}"
            if f"{passed}/".startswith(f"{PROCESSES}/"):
                return f"{path} leads through {passed}, which is another file for each process"
        if await self._files.may_lead_into(path, self._writable):
            return f"{path} may be a place that commands in the sandbox can write, under another name"
        return None

    async def _follow(self, script: str, interpreter: Interpreter, depth: int) -> _Finding:
        """Look at the program that the kernel runs in place of a script, and at what that one runs."""
        path = interpreter.path.decode("utf-8", "surrogateescape")
        found = await self._find(path, depth + 1)
        if found.doubt is not None or interpreter.argument is None:
            return found
        argument = interpreter.argument.decode("utf-8", "surrogateescape")
        executed = executed_by((path, *await self._files.way(path)), argument)
        if executed is None:
            return _Finding(f"the first line of {script} has {argument!r} for {path}, which may run anything")
        return _Finding(await self.doubt(executed, depth + 1) if executed else None, found.runs)


async def _status(files: FileAccess, path: str) -> MetadataResult | None:
    try:
        return await files.metadata(path)
    except NotFound:
        return None
