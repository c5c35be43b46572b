"""Whether a rule that allows a line may let it out of the sandbox: is the program what its name says?

A rule names a program. Anyone who can write the file, a link to it, or a directory in which a shell looks for
it, decides what the name stands for; so does anyone who can write the interpreter of a script. So a line that
runs anything in reach of the sandbox is asked about, whatever a rule says. This looks at programs and the
scripts' first lines, and not at the libraries and files that a program loads.
"""

from __future__ import annotations

import errno
import posixpath
from collections.abc import Sequence
from typing import Final

from paddock.agent.executor import Executor, FileAccess
from paddock.agent.permission import Reach
from paddock.client.confinement import Sandbox
from paddock.errors import FileError, NotFound, PaddockError
from paddock.intercept.trust import executed_by, first_writable
from paddock.protocol.fs import MetadataResult
from paddock.sandbox.denial.shebang import HEAD_BYTES, Interpreter, interpreter_of

DEPTH_LIMIT: Final = 8
"""Programs that stand for one another: the kernel follows five interpreters, and `env` begins a new count."""

PROCESSES: Final = "/proc"
ELF: Final = b"\x7fELF"

_EXECUTABLE: Final = 0o111

_OUT_OF_REACH: Final = frozenset((errno.EACCES, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG))
"""Why this user finds no program there, such as in `/root/.cargo/bin` of an image that runs as another."""


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


class _Look:
    """One look at the programs of a line."""

    def __init__(self, files: FileAccess, writable: frozenset[str], directories: Sequence[str]) -> None:
        self._files = files
        self._writable = writable
        self._directories = tuple(dict.fromkeys(directories))
        self._trusted: set[str] = set()

    async def doubt(self, program: str, depth: int = 0) -> str | None:
        """Return why a program is not trusted, as a shell or `env` is told to run it."""
        if "/" in program:
            return await self._doubt_file(program, depth)
        if program in self._trusted:
            return None
        # Each counts, whatever is found before. Many shells go on past a file that the kernel does not
        # execute, for any reason: its file system is mounted so, its loader is missing, it is for another
        # machine, or there is no memory, which a command can see to. And even if nothing is there: a command
        # could put a program there before the shell looks.
        for directory in self._directories:
            doubt = await self._doubt_found(posixpath.join(directory, program), depth)
            if doubt is not None:
                return doubt
        self._trusted.add(program)
        return None

    async def _doubt_found(self, path: str, depth: int) -> str | None:
        """Look at a path that a shell tries. What this user can't reach, the shell does not find either."""
        try:
            return await self._doubt_file(path, depth)
        except FileError as error:
            if error.errno not in _OUT_OF_REACH:
                raise
        # Unless a command that can write there clears the way.
        if first_writable(path, self._writable.__contains__) is not None:
            return f"commands in the sandbox can write {path}"
        while (path := posixpath.dirname(path)) != "/":
            try:
                return await self._doubt_path(path)
            except FileError as error:
                if error.errno not in _OUT_OF_REACH:
                    raise
        return None

    async def _doubt_file(self, path: str, depth: int) -> str | None:
        """Look at a path that the kernel is told to execute, and at all that it executes instead."""
        if depth > DEPTH_LIMIT:
            return f"{path} is the last of too many interpreters"
        if (doubt := await self._doubt_path(path)) is not None:
            return doubt
        status = await _status(self._files, path)
        if status is None or not status.is_file:
            return None
        # A server of the reference protocol does not say who may execute it.
        if isinstance(status.mode, int) and not status.mode & _EXECUTABLE:
            return None
        if await self._files.has_other_names(path):
            return f"{path} has other names, by which commands in the sandbox might write it"
        head = await self._files.read_head(path, HEAD_BYTES)
        interpreter = interpreter_of(head)
        if interpreter is not None:
            return await self._doubt_interpreter(path, interpreter, depth)
        # Each shell does something else with another file.
        return None if head.startswith(ELF) else f"{path} is not something that the kernel executes"

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

    async def _doubt_interpreter(self, script: str, interpreter: Interpreter, depth: int) -> str | None:
        """Look at the program that the kernel runs in place of a script, and at what that one runs."""
        path = interpreter.path.decode("utf-8", "surrogateescape")
        doubt = await self._doubt_file(path, depth + 1)
        if doubt is not None or interpreter.argument is None:
            return doubt
        argument = interpreter.argument.decode("utf-8", "surrogateescape")
        executed = executed_by((path, *await self._files.way(path)), argument)
        if executed is None:
            return f"the first line of {script} has {argument!r} for {path}, which may run anything"
        return await self.doubt(executed, depth + 1) if executed else None


async def _status(files: FileAccess, path: str) -> MetadataResult | None:
    try:
        return await files.metadata(path)
    except NotFound:
        return None
