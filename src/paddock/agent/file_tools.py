"""The tools for files, on the executor's own file operations, under the profile that commands have.

What the profile does not grant is asked for before it is tried, by the path to which links lead. With the
approval, each of these files is used in a sandbox that is wider for this file alone, and without following
links. All other files are used under the profile as it is, so that the executor refuses a link that leads
elsewhere.
"""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from paddock.agent.exec_arguments import SandboxPermissions
from paddock.agent.executor import Executor, FileAccess
from paddock.agent.file_arguments import EditArguments, ListArguments, ReadArguments, SearchArguments
from paddock.agent.orchestrator import Attempt, Launch, Orchestrator
from paddock.agent.patch import CONTEXT, UPDATE, parse_patch
from paddock.agent.patch_paths import changed_paths
from paddock.agent.patch_writer import Opened, PatchWriter
from paddock.agent.permission import Permissions, Reach
from paddock.agent.proposal import Proposal
from paddock.agent.reply import Reply
from paddock.agent.tool import joined_path
from paddock.agent.truncation import cut_text
from paddock.errors import CallRejected, InvalidToolCall
from paddock.model.decision import Action, Decision
from paddock.sandbox.profile.path import is_within

READ_LIMIT_BYTES: Final = 16 * 1024 * 1024
"""Size of a file that is read as a whole, to show some lines of it."""

_READING: Final = Decision(Action.ALLOW, ())


class _Target(Struct, frozen=True):
    """A file that a call changes."""

    path: str
    real: str
    """Where the path leads, without links."""
    is_lacking: bool = False
    """Whether the profile does not let it be changed there."""
    is_link: bool = False
    """Whether it is a link that is to be removed, which takes approval."""


class FileTools:
    """The tools of one agent."""

    def __init__(
        self, executor: Executor, orchestrator: Orchestrator, reach: Reach, *, cwd: str, limit_tokens: int
    ) -> None:
        self._executor = executor
        self._orchestrator = orchestrator
        self._reach = reach
        self._cwd = cwd
        self._limit_tokens = limit_tokens
        self._changing = asyncio.Lock()
        """Held from the reading to the writing of a change: each call sees what those before it have done."""

    async def read_file(self, call_id: str, arguments: ReadArguments) -> Reply:
        """Return lines of a file with their numbers."""
        path = self._path("read_file", arguments.path)

        async def read(files: FileAccess, real: str) -> str:
            size_bytes = (await files.metadata(real)).size
            if size_bytes > READ_LIMIT_BYTES:
                problem = f"{path} has {size_bytes} bytes; look at a part of it with exec_command"
                raise InvalidToolCall("read_file", problem)
            return _numbered(await files.read_file(real), arguments.offset, arguments.limit)

        return self._text(await self._read(call_id, "read_file", path, read))

    async def edit_file(self, call_id: str, arguments: EditArguments) -> Reply:
        """Replace a text; return the diff."""
        path = self._path("edit_file", arguments.path)

        async def edit(opened: Opened) -> str:
            files, real = self._at(opened, path)
            async with self._changing:
                return await files.edit(real, arguments.old, arguments.new, arguments.count)

        async def look() -> list[_Target]:
            return [await self._written(path)]

        diff = await self._change(call_id, "edit_file", edit, look, _replacement(path, arguments), self._cwd)
        return self._text(diff or "Nothing has changed: the new text is the old one.")

    async def search_files(self, call_id: str, arguments: SearchArguments) -> Reply:
        """Return lines, or names, that match."""
        path = self._path("search_files", arguments.path)

        async def search(files: FileAccess, real: str) -> str:
            found = await files.search(
                real,
                arguments.pattern,
                kind=arguments.kind,
                regex=arguments.regex,
                case_sensitive=arguments.case_sensitive,
                hidden=arguments.hidden,
                max_matches=arguments.max_matches,
            )
            lines = [
                self._short(match.path) + (f":{match.line}: {match.text}" if match.line is not None else "")
                for match in found.matches
            ]
            lines += [f"[could not be read: {error}]" for error in found.errors]
            if found.is_truncated:
                lines.append("[there may be more]")
            return "\n".join(lines) or "Nothing matches."

        return self._text(await self._read(call_id, "search_files", path, search))

    async def list_files(self, call_id: str, arguments: ListArguments) -> Reply:
        """Return the names in a directory, directories with a slash."""
        path = self._path("list_files", arguments.path)

        async def list_(files: FileAccess, real: str) -> str:
            if not (await files.metadata(real)).is_directory:
                raise InvalidToolCall("list_files", f"{path} is not a directory")
            tree = await files.walk(real, max_depth=arguments.depth - 1, max_entries=arguments.max_entries)
            names = [self._short(name) for name in tree.files]
            names += [f"{self._short(name)}/" for name in tree.directories if name != real]
            lines = sorted(names)
            lines += [f"[{self._short(name)}: {why}]" for name, why in tree.errors]
            if tree.is_truncated:
                lines.append("[there is more]")
            return "\n".join(lines) or "The directory is empty."

        return self._text(await self._read(call_id, "list_files", path, list_))

    async def apply_patch(self, call_id: str, patch: str, workdir: str = "") -> Reply:
        """Change files as a patch says: all of it or, where that fails, nothing. Raises PatchError."""
        changes = await asyncio.to_thread(parse_patch, patch)
        base = self._path("apply_patch", workdir)
        written, removed = changed_paths(changes, base)

        async def look() -> list[_Target]:
            targets = [await self._written(path) for path in written]
            return targets + [await self._removed(path) for path in removed]

        async def apply(opened: Opened) -> str:
            files = self._executor.files(self._orchestrator.sandbox)
            async with self._changing:
                return await PatchWriter(files, base, opened).apply(changes)

        return self._text(await self._change(call_id, "apply_patch", apply, look, patch, base))

    # --- inside -------------------------------------------------------------

    async def _read(
        self, call_id: str, tool: str, path: str, work: Callable[[FileAccess, str], Awaitable[str]]
    ) -> str:
        lacking = self._reach.lacks((path,), ())
        proposal = Proposal(
            call_id=call_id,
            tool=tool,
            command=(tool, path),
            cwd=self._cwd,
            # To look at what the profile shows anyway needs no question.
            verdict=_READING,
            wish=_wish(lacking),
            permissions=lacking,
            is_about_files=True,
        )

        async def attempt(launch: Launch, _: int) -> Attempt[str]:
            return Attempt(await work(*self._at(self._opened(launch), path)))

        return (await self._orchestrator.run(proposal, attempt)).value

    async def _change(
        self,
        call_id: str,
        tool: str,
        work: Callable[[Opened], Awaitable[str]],
        look: Callable[[], Awaitable[Sequence[_Target]]],
        patch: str,
        cwd: str,
    ) -> str:
        targets = await look()
        lacking = Permissions(write=tuple(target.path for target in targets if target.is_lacking))
        proposal = Proposal(
            call_id=call_id,
            tool=tool,
            command=(tool, *(target.real for target in targets)),
            cwd=cwd,
            wish=_wish(lacking),
            permissions=lacking,
            is_about_files=True,
            patch=patch,
        )

        async def attempt(launch: Launch, _: int) -> Attempt[str]:
            # Somebody has approved the change of these files, and of no others.
            if launch.widening is not None and (why := _obstacle(targets, await look())) is not None:
                raise CallRejected(why)
            return Attempt(await work(self._opened(launch)))

        return (await self._orchestrator.run(proposal, attempt)).value

    async def _written(self, path: str) -> _Target:
        """Return a file that is to have another content; a link stands for what it leads to."""
        real = (await self._orchestrator.places.find(path)).real
        return _Target(path, real, await self._is_lacking(real))

    async def _removed(self, path: str) -> _Target:
        """Return a file that is to be removed, itself and not what it leads to."""
        directory = await self._orchestrator.places.find(posixpath.dirname(path))
        real = posixpath.join(directory.real, posixpath.basename(path))
        if not await self._is_lacking(real):
            return _Target(path, real)
        target = await self._written(path)
        return replace(target, is_link=target.real != real)

    async def _is_lacking(self, real: str) -> bool:
        """Return whether the profile does not let a path without links be changed, by any name that it knows.

        A profile may name a directory by a link, such as a workspace below `/home` where that leads to
        `/var/home`. If the link leads elsewhere by the time of the change, the executor refuses that.
        """
        if not self._reach.lacks((), (real,)):
            return False
        for granted in self._reach.writable or ():
            place = (await self._orchestrator.places.find(granted)).real
            if place != granted and is_within(real, place):
                named = posixpath.normpath(f"{granted}/{real[len(place.rstrip('/')) :]}")
                if not self._reach.lacks((), (named,)):
                    return False
        return True

    def _opened(self, launch: Launch) -> Opened:
        """Return the files that a launch grants on top of the profile, each in a sandbox of its own."""
        files = () if launch.widening is None else launch.widening.files
        return {
            path: (self._executor.files(file.sandbox, without_links=True), file.path) for path, file in files
        }

    def _at(self, opened: Opened, path: str) -> tuple[FileAccess, str]:
        return opened.get(path) or (self._executor.files(self._orchestrator.sandbox), path)

    def _path(self, tool: str, written: str) -> str:
        return posixpath.normpath(joined_path(tool, self._cwd, written))

    def _short(self, path: str) -> str:
        return path.removeprefix(f"{self._cwd}/")

    def _text(self, text: str) -> Reply:
        return Reply(cut_text(text, self._limit_tokens))


def _obstacle(before: Sequence[_Target], now: Sequence[_Target]) -> str | None:
    """Return why an approved change can't be made, if files are not what they were, or links; else None."""
    for old, new in zip(before, now, strict=True):
        if old != new:
            was = f"it led to {old.real} when somebody was asked"
            return f"{old.path} leads to {new.real} now, and {was}; nothing was changed; call again"
        if old.is_link:
            return f"{old.path} is a link to {old.real}; remove it with exec_command, or name that file"
    return None


def _wish(lacking: Permissions) -> SandboxPermissions:
    return SandboxPermissions.WITH_ADDITIONAL_PERMISSIONS if lacking else SandboxPermissions.USE_DEFAULT


def _replacement(path: str, arguments: EditArguments) -> str:
    """Return an edit as a patch, for a question."""
    lines = [f"{UPDATE}{path}", f"{CONTEXT} {arguments.count} times" if arguments.count > 1 else CONTEXT]
    lines += [f"-{line}" for line in arguments.old.split("\n")]
    lines += [f"+{line}" for line in arguments.new.split("\n")]
    return "\n".join(lines)


def _numbered(data: bytes, offset: int, limit: int) -> str:
    lines = data.decode("utf-8", "replace").split("\n")
    if lines[-1] == "":
        lines.pop()
    if not lines:
        return "The file is empty."
    if offset > len(lines):
        raise InvalidToolCall("read_file", f"the file has {len(lines)} lines; there is no line {offset}")
    shown = lines[offset - 1 : offset - 1 + limit]
    text = "\n".join(f"{number}\t{line}" for number, line in enumerate(shown, offset))
    left = len(lines) - (offset - 1 + len(shown))
    return f"{text}\n[{left} more lines; go on with offset {offset + len(shown)}]" if left else text
