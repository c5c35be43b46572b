"""Whether a rule that allows a line may let it out of the sandbox: is the program what its name says?

A rule names a program. Anyone who can write the file, or a directory in which a shell looks for it, decides
what the name stands for. So a line that runs anything in reach of the sandbox is asked about, whatever a rule
says. Links are followed to their end; a link on the way that lies in reach of the sandbox is not seen.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import Final

from paddock.agent.executor import Executor, FileAccess
from paddock.agent.permission import Reach
from paddock.agent.real_path import real_path
from paddock.client.confinement import Sandbox
from paddock.errors import NotFound, PaddockError
from paddock.intercept.trust import first_writable

SCRIPT_LIMIT_BYTES: Final = 256 * 1024
"""Size of a program whose first line is read: what is larger is hardly a script."""

ENV: Final = "env"


class ProgramTrust:
    """Answers for one agent and the paths that its profile lets commands write.

    In `distrusted` directories others have written what the agent's own commands may only read.
    """

    def __init__(self, executor: Executor, reach: Reach, distrusted: Sequence[str] = ()) -> None:
        self._executor = executor
        self._reach = reach
        self.distrusted: Final = tuple(distrusted)

    async def distrust(self, programs: Sequence[str], sandbox: Sandbox) -> str | None:
        """Return why programs, as a line calls them, may not leave the sandbox by a rule; None if they may.

        A program that can't be looked up is not trusted.
        """
        written = self._reach.writable
        if written is None:
            return "commands in the sandbox can write every program"
        written = (*written, *self.distrusted)
        try:
            search_path = await self._executor.search_path(sandbox)
            files = self._executor.files(None)
            writable = {*written, *[await real_path(files, path) for path in written]}
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
        self._directories = directories

    async def doubt(self, program: str, *, is_interpreter: bool = False) -> str | None:
        """Return why a program is not trusted."""
        if "/" not in program:
            for directory in self._directories:
                path = posixpath.join(directory, program)
                # A command could put a program there before the shell looks.
                if (doubt := await self._doubt_path(path)) is not None:
                    return doubt
                if await _is_file(self._files, path):
                    return await self._doubt_interpreter(path, is_interpreter=is_interpreter)
            return None
        return await self._doubt_path(program) or await self._doubt_interpreter(
            program, is_interpreter=is_interpreter
        )

    async def _doubt_path(self, path: str) -> str | None:
        if not path.startswith("/") or {".", ".."} & set(path.split("/")):
            return f"{path} is not an absolute path"
        for reached in (path, await real_path(self._files, path)):
            if first_writable(reached, self._writable.__contains__) is not None:
                return f"commands in the sandbox can write {path}"
        return None

    async def _doubt_interpreter(self, path: str, *, is_interpreter: bool) -> str | None:
        """Look at the program that the first line of a script names; the kernel runs that in its place."""
        if is_interpreter or not await _is_file(self._files, path):
            return None
        if (await self._files.metadata(path)).size > SCRIPT_LIMIT_BYTES:
            return None
        first, _, _ = (await self._files.read_file(path)).partition(b"\n")
        words = first[2:].decode("utf-8", "replace").split() if first.startswith(b"#!") else []
        if words and posixpath.basename(words[0]) == ENV:
            words = [words[0], *(word for word in words[1:] if not word.startswith("-") and "=" not in word)][
                :2
            ]
        else:
            words = words[:1]
        for word in words:
            if (doubt := await self.doubt(word, is_interpreter=True)) is not None:
                return doubt
        return None


async def _is_file(files: FileAccess, path: str) -> bool:
    try:
        return (await files.metadata(path)).is_file
    except NotFound:
        return False
