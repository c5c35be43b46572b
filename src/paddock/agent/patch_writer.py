"""A patch carried out: everything is checked before the first write, and a failed write is undone.

Each file is replaced as a whole, so that it is the old one or the new one at every moment, whatever happens.
Nothing is written over what somebody else has changed since it was read, nor put back over that.
Between the files of one patch there is no such promise against a crash; against a failure, what was written
is put back, and a call that is cancelled while it writes finishes first.
"""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import UNSET, Struct

from paddock.agent.executor import FileAccess
from paddock.agent.patch import AddFile, Change, Chunk, DeleteFile, UpdateFile
from paddock.agent.patch_match import patched
from paddock.agent.patch_paths import absolute_path
from paddock.agent.real_path import real_path
from paddock.errors import (
    InvalidRequest,
    InvalidToolCall,
    NotFound,
    OperationFailed,
    PaddockError,
    PatchIncomplete,
)

Opened = Mapping[str, tuple[FileAccess, str]]
"""Files that need other rights: each by its path, with the access to it and its path without links."""

FINISH_S: Final = 30.0
"""How long a cancelled call may keep writing: far longer than files take."""

CONDITION_BYTES: Final = 4 * 1024 * 1024
"""Size of a file whose old and new text go to the server together: both fit into a message of 64 MiB, even if
each byte takes six in JSON."""


class _Step(Struct, frozen=True):
    """A file that will have another content; None means that there is no file."""

    path: str
    before: bytes | None
    after: bytes | None


class PatchWriter:
    """Applies one patch; its paths are below `base`, or absolute.

    Of two patches of one file at the same time, one fails. Apply them one after the other instead.

    `opened` has the absolute paths that these files do not let it change, with the files that do, and where
    each path leads.
    """

    def __init__(self, files: FileAccess, base: str, opened: Opened | None = None) -> None:
        self._files = files
        self._base = base
        self._opened = {} if opened is None else opened
        self._modes: dict[str, int] = {}
        """The modes of the files that existed, as far as the executor reports them."""
        self._origins: dict[str, str] = {}
        """The old paths of moved files."""

    async def apply(self, changes: Sequence[Change]) -> str:
        """Carry out all changes; return what was done, one line for each file.

        Raises PatchMismatch, PatchTooLong, InvalidToolCall and RequestError before anything is written. After
        that, PatchIncomplete, which says what could not be put back, if anything.
        """
        steps, summary = await self._plan(changes)
        writing = asyncio.ensure_future(self._write(steps))
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            # Half a patch is worse than a call that ends a moment later.
            await asyncio.wait((writing,), timeout=FINISH_S)
            writing.cancel()
            raise
        return "\n".join(summary)

    async def _write(self, steps: Sequence[_Step]) -> None:
        done: list[_Step] = []
        made: list[tuple[FileAccess, str]] = []
        try:
            for step in steps:
                await self._make_directory(step, made)
                done.append(step)
                if not await self._exchange(step.path, step.before, step.after):
                    done.pop()
                    raise OperationFailed(f"{step.path} has changed in the meantime; read it again")
                if step.before is None and step.path in self._origins:
                    await self._give_mode(step.path, self._origins[step.path])
        except PaddockError as error:
            left = await self._undo(done, made)
            raise PatchIncomplete(str(error), left) from error

    async def _plan(self, changes: Sequence[Change]) -> tuple[list[_Step], list[str]]:
        contents: dict[str, tuple[bytes | None, bytes | None]] = {}
        summary = []
        for change in changes:
            path = self._absolute(change.path)
            if path not in contents:
                before = await self._content(path)
                contents[path] = (before, before)
            first, now = contents[path]
            match change:
                case AddFile(text=text):
                    contents[path] = (first, text.encode())
                    summary.append(f"A {change.path}")
                case DeleteFile():
                    if now is None:
                        raise NotFound(f"{change.path} does not exist, so it can't be deleted")
                    contents[path] = (first, None)
                    summary.append(f"D {change.path}")
                case UpdateFile(chunks=chunks, target=target):
                    if now is None:
                        raise NotFound(f"{change.path} does not exist, so it can't be updated")
                    # The longest takes a second, in which others are served.
                    after = await asyncio.to_thread(_patched, change.path, now, chunks)
                    if target is None:
                        contents[path] = (first, after)
                        summary.append(f"M {change.path}")
                        continue
                    moved_to = self._absolute(target)
                    contents[path] = (first, None)
                    old = contents[moved_to][0] if moved_to in contents else await self._content(moved_to)
                    contents[moved_to] = (old, after)
                    self._origins[moved_to] = path
                    summary.append(f"R {change.path} -> {target}")
        await self._refuse_second_names(contents)
        # What is removed goes last: until then, nothing is lost.
        steps = [_Step(path, *pair) for path, pair in contents.items() if pair[0] != pair[1]]
        return sorted(steps, key=lambda step: step.after is None), summary

    async def _refuse_second_names(self, paths: Iterable[str]) -> None:
        """Refuse a patch in which two paths lead to one file: the change of either would undo the other."""
        names: dict[str, str] = {}
        for path in paths:
            real = self._opened[path][1] if path in self._opened else await real_path(self._files, path)
            first = names.setdefault(real, path)
            if first != path:
                problem = f"{first} and {path} are two names of the same file; use one of them"
                raise InvalidToolCall("apply_patch", problem)

    async def _content(self, path: str) -> bytes | None:
        files, real = self._at(path)
        try:
            found = await files.metadata(real)
        except NotFound:
            return None
        if not found.is_file:
            raise InvalidToolCall("apply_patch", f"{path} is not a file")
        if found.mode is not UNSET:
            self._modes.setdefault(path, found.mode)
        return await files.read_file(real)

    async def _make_directory(self, step: _Step, made: list[tuple[FileAccess, str]]) -> None:
        if step.before is not None or step.after is None:
            return
        files, real = self._at(step.path)
        directory = posixpath.dirname(real)
        missing = []
        while not await _exists(files, directory):
            missing.append(directory)
            directory = posixpath.dirname(directory)
        for each in reversed(missing):
            await files.create_directory(each)
            # Only what was made here is removed again.
            made.append((files, each))

    async def _exchange(self, path: str, seen: bytes | None, content: bytes | None) -> bool:
        """Give a file another content. Return False, and change nothing, if it is no longer as it was seen.

        The server itself compares a text with what it replaces. Otherwise the comparison comes just before.
        """
        files, real = self._at(path)
        if (texts := _texts(seen, content)) is not None:
            try:
                await files.edit(real, texts[0], texts[1], 1)
            except (InvalidRequest, NotFound):
                if await self._content(path) != seen:
                    return False
                raise
        elif await self._content(path) != seen:
            return False
        elif content is None:
            await files.remove(real, recursive=False)
        else:
            await files.write_file(real, content, atomic=True)
        return True

    async def _give_mode(self, path: str, origin: str) -> None:
        """Let a file that was made have the mode of another, as it was before the patch."""
        if origin in self._modes:
            files, real = self._at(path)
            await files.set_mode(real, self._modes[origin] & 0o777)

    async def _undo(self, done: list[_Step], made: list[tuple[FileAccess, str]]) -> list[str]:
        """Put back what was there; return the paths for which that fails."""
        left = []
        for step in reversed(done):
            try:
                if await self._content(step.path) == step.before:
                    continue
                if not await self._exchange(step.path, step.after, step.before):
                    left.append(step.path)
                elif step.after is None:
                    await self._give_mode(step.path, step.path)
            except PaddockError:
                left.append(step.path)
        for files, directory in reversed(made):
            try:
                # Another program may have put something there in the meantime.
                await files.remove(directory, recursive=False)
            except PaddockError:
                left.append(directory)
        return left

    def _absolute(self, path: str) -> str:
        return absolute_path(self._base, path)

    def _at(self, path: str) -> tuple[FileAccess, str]:
        return self._opened.get(path, (self._files, path))


async def _exists(files: FileAccess, path: str) -> bool:
    try:
        await files.metadata(path)
    except NotFound:
        return False
    return True


def _texts(seen: bytes | None, content: bytes | None) -> tuple[str, str] | None:
    """Return an old and a new content as a server takes them for an edit; None if it takes no such edit."""
    if not seen or content is None or max(len(seen), len(content)) > CONDITION_BYTES:
        return None
    try:
        return seen.decode(), content.decode()
    except UnicodeDecodeError:
        return None


def _patched(path: str, data: bytes, chunks: Sequence[Chunk]) -> bytes:
    return patched(path, _text(path, data), chunks).encode()


def _text(path: str, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidToolCall("apply_patch", f"{path} is not UTF-8 text") from error
