"""The files on the server's host: one method for each operation that a server offers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from os import PathLike, fsdecode
from typing import Final, Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from paddock.client.capability import require
from paddock.client.confinement import SandboxLike, sandbox_context
from paddock.client.connection import Connection
from paddock.client.remote_file import RemoteReader, RemoteWriter
from paddock.client.request import Answer
from paddock.client.resume import Session
from paddock.client.watch import Begun, Watch
from paddock.client.wire_path import RemotePathLike, is_name, local_name, told_path, wire_path
from paddock.errors import ConnectionLost, ProtocolViolation
from paddock.protocol.fs import (
    CanonicalizeParams,
    CanonicalizeResult,
    ChmodParams,
    CopyParams,
    CreateDirectoryParams,
    DirectoryEntry,
    FollowablePathParams,
    MetadataResult,
    MoveParams,
    ReadDirectoryParams,
    ReadDirectoryResult,
    ReadFileResult,
    RemoveParams,
    WalkOptions,
    WalkParams,
    WalkResult,
    WriteFileParams,
)
from paddock.protocol.late_base64 import LateBase64
from paddock.protocol.path import HostPath, parse_path
from paddock.protocol.sandbox import SandboxContext
from paddock.protocol.structure import Empty, Params, Result
from paddock.protocol.text import EditParams, EditResult, SearchParams, SearchResult, TextEdit
from paddock.protocol.watch import UnwatchParams, WatchParams, WatchResult

MAX_DEPTH: Final = 64
MAX_DIRECTORIES: Final = 10_000
MAX_ENTRIES: Final = 50_000
"""The most entries that servers return from a walk."""

R = TypeVar("R", bound=Result)

Progress = Callable[[int, int | None], None]
"""Called with the number of bytes transferred, and the total if it is known."""


class Tree(Struct, frozen=True):
    """The result of a walk, nearest entries first."""

    directories: list[str]
    files: list[str]
    errors: list[tuple[str, str]]
    """Paths that could not be looked at, and why."""
    is_truncated: bool
    """Whether a limit ended the walk."""


class Match(Struct, frozen=True):
    """A line or a name that matches. Line and column count from 1 and are None for a name."""

    path: str
    line: int | None
    column: int | None
    text: str | None


class Found(Struct, frozen=True):
    """The result of a search, always in the same order."""

    matches: list[Match]
    errors: list[str]
    """What could not be read."""
    is_truncated: bool
    """Whether there may be more."""


class Files:
    """The file operations of a box: `box.fs`. Paths are absolute, or `file:` URIs, on the server's host.

    Every method raises NotFound for a path that does not exist, InvalidRequest for a request that is not
    allowed or makes no sense, OperationFailed for other failures, and the errors that `Box` lists for its
    calls.
    """

    def __init__(self, connection: Connection, session: Session, sandbox: SandboxLike | None = None) -> None:
        self._connection = connection
        self._session = session
        self._sandbox = sandbox

    def confined(self, sandbox: SandboxLike) -> Files:
        """Return the same files under a profile. Paths that it does not grant raise InvalidRequest or
        NotFound.

        See `Box.start` for `sandbox`; the workspace is the server's own directory unless `sandbox` names
        another.
        """
        return Files(self._connection, self._session, sandbox)

    # --- content ------------------------------------------------------------

    async def read_file(self, path: RemotePathLike, *, follow_symlinks: bool = True) -> bytes:
        """Return the whole content, up to 512 MiB, in one message. Use `reader` for larger files."""
        params = FollowablePathParams(path=self._wire(path), follow_symlinks=_unless(follow_symlinks, True))
        return (await self._ask("fs/readFile", params, ReadFileResult, can_repeat=True)).data_base64

    async def write_file(
        self,
        path: RemotePathLike,
        data: bytes,
        *,
        follow_symlinks: bool = True,
        atomic: bool = False,
    ) -> None:
        """Replace the content of a file, or create it; its directory must exist.

        With `atomic` the server replaces the file as a whole and keeps its mode and owner: if anything goes
        wrong, the old content stays. Up to about 11 MiB; use `writer` for more.
        """
        if atomic:
            self._require("atomicWrites", "replace a file atomically")
        params = WriteFileParams(
            path=self._wire(path),
            data_base64=LateBase64(bytes(data)),
            follow_symlinks=_unless(follow_symlinks, True),
            atomic=_unless(atomic, False),
        )
        await self._ask("fs/writeFile", params, Empty)

    def reader(self, path: RemotePathLike) -> RemoteReader:
        """Return a file of any size for reading piece by piece; use it with `async with`."""
        return RemoteReader(self._connection, self._wire(path), sandbox=self._context())

    def writer(self, path: RemotePathLike, *, atomic: bool = False) -> RemoteWriter:
        """Return a file of any size for writing piece by piece; use it with `async with`.

        With `atomic` the whole file appears in its place at the end of the block.
        """
        if atomic:
            self._require("atomicWrites", "replace a file atomically")
        return self._writer(path, is_atomic=atomic)

    def tree_reader(self, path: RemotePathLike) -> RemoteReader:
        """Return a directory with everything in it as a tar archive; use it with `async with`."""
        self._require("treeTransfers", "read a directory as a whole")
        return RemoteReader(self._connection, self._wire(path), is_tree=True, sandbox=self._context())

    def tree_writer(self, path: RemotePathLike) -> RemoteWriter:
        """Return a writer of a new directory that takes a tar archive; use it with `async with`.

        The directory appears when it is complete.
        """
        self._require("treeTransfers", "write a directory as a whole")
        return self._writer(path, is_tree=True)

    # --- what is there ------------------------------------------------------

    async def metadata(self, path: RemotePathLike, *, follow_symlinks: bool = True) -> MetadataResult:
        """Describe a path. All fields but `is_symlink` describe the target of a link."""
        params = FollowablePathParams(path=self._wire(path), follow_symlinks=_unless(follow_symlinks, True))
        return await self._ask("fs/getMetadata", params, MetadataResult, can_repeat=True)

    async def read_directory(self, path: RemotePathLike) -> list[DirectoryEntry]:
        """Return the names in a directory, in no particular order.

        Where the server reports them, dangling links are included as neither file nor directory. Each entry
        is a plain name, never a path, so it is safe to join to a path on this host.
        """
        params = ReadDirectoryParams(path=self._wire(path), all_links=self.has("fsLinks") or None)
        entries = (await self._ask("fs/readDirectory", params, ReadDirectoryResult, can_repeat=True)).entries
        for entry in entries:
            if not is_name(entry.file_name):
                raise ProtocolViolation(f"the server listed {entry.file_name!r}, which is not a file name")
        return entries

    async def canonicalize(self, path: RemotePathLike) -> str:
        """Return the absolute path without links and dots."""
        return local_name((await self._canonical(path)).path)

    async def is_read_only(self, path: RemotePathLike) -> bool:
        """Return whether a path lies on a mount that can't be written, in the sandbox of these files.

        True if the server does not say.
        """
        return (await self._canonical(path, tells_read_only=True)).read_only is not False

    async def way(self, path: RemotePathLike) -> list[str]:
        """Return what an absolute path leads through: each link on the way, each directory that is left by
        `..`, other paths by which mounts show one of them, and at last where it leads.

        None of them has links in it. Whoever can change one of them can make the path lead elsewhere. Nothing
        need exist there.
        """
        self._require("fsWay", "see what a path leads through")
        way = (await self._canonical(path, tells_way=True)).way
        if not way:
            raise ProtocolViolation(f"the server did not say what {fsdecode(path)!r} leads through")
        return [local_name(passed) for passed in way]

    async def has_other_names(self, path: RemotePathLike) -> bool:
        """Return whether a file with hard links is there, which the server's user may change by another name.

        In doubt it has.
        """
        self._require("fsWay", "see whether a file has other names")
        return (await self._canonical(path, tells_way=True)).other_names is not False

    async def may_lead_into(self, path: RemotePathLike, written_places: Iterable[RemotePathLike]) -> bool:
        """Return whether an absolute path may lead through one of these places, or into one, under whatever
        name: some file systems know a file by several. In doubt it does.
        """
        self._require("fsWay", "see what a path leads through")
        places = [self._wire(place) for place in written_places]
        return (await self._canonical(path, tells_way=True, written_places=places)).written is not False

    async def _canonical(
        self,
        path: RemotePathLike,
        *,
        tells_read_only: bool | None = None,
        tells_way: bool | None = None,
        written_places: list[HostPath] | None = None,
    ) -> CanonicalizeResult:
        params = CanonicalizeParams(
            path=self._wire(path),
            tells_read_only=tells_read_only,
            tells_way=tells_way,
            written_places=written_places,
        )
        return await self._ask("fs/canonicalize", params, CanonicalizeResult, can_repeat=True)

    async def walk(
        self,
        path: RemotePathLike,
        *,
        max_depth: int = MAX_DEPTH,
        max_directories: int = MAX_DIRECTORIES,
        max_entries: int = MAX_ENTRIES,
        follow_symlinks: bool = False,
        prune_hidden: bool = False,
    ) -> Tree:
        """Return everything below a directory; with a depth of 0, only its own entries.

        `follow_symlinks` enters directories that links lead to; other links are not listed.
        `prune_hidden` does not enter directories whose name begins with a dot.
        """
        options = WalkOptions(
            max_depth=max_depth,
            max_directories=max_directories,
            max_entries=max_entries,
            follow_directory_symlinks=follow_symlinks,
            prune_hidden_directories=prune_hidden,
        )
        params = WalkParams(path=self._wire(path), options=options)
        found = await self._ask("fs/walk", params, WalkResult, can_repeat=True)
        return Tree(
            directories=[local_name(entry.path) for entry in found.entries if entry.kind == "directory"],
            files=[local_name(entry.path) for entry in found.entries if entry.kind == "file"],
            errors=[(local_name(error.path), error.message) for error in found.errors],
            is_truncated=found.truncated,
        )

    # --- changes ------------------------------------------------------------

    async def create_directory(
        self, path: RemotePathLike, *, recursive: bool = True, follow_symlinks: bool = True
    ) -> None:
        """Make a directory. With `recursive`, make its parents too, and accept one that exists."""
        params = CreateDirectoryParams(
            path=self._wire(path), recursive=recursive, follow_symlinks=_unless(follow_symlinks, True)
        )
        await self._ask("fs/createDirectory", params, Empty)

    async def remove(
        self,
        path: RemotePathLike,
        *,
        recursive: bool = True,
        force: bool = True,
        follow_symlinks: bool = True,
    ) -> None:
        """Remove a file, a link (not its target) or a directory, with everything in it if `recursive`.

        With `force`, a missing path is no error. Without `follow_symlinks` no part of the path may be a link,
        and `recursive` must be false.
        """
        params = RemoveParams(
            path=self._wire(path),
            recursive=recursive,
            force=force,
            follow_symlinks=_unless(follow_symlinks, True),
        )
        await self._ask("fs/remove", params, Empty)

    async def copy(
        self, source: RemotePathLike, destination: RemotePathLike, *, recursive: bool = False
    ) -> None:
        """Copy a file or a link on the server's host; if `recursive`, a directory too."""
        params = CopyParams(
            source_path=self._wire(source), destination_path=self._wire(destination), recursive=recursive
        )
        await self._ask("fs/copy", params, Empty)

    async def rename(self, source: RemotePathLike, destination: RemotePathLike) -> None:
        """Rename a file, a link or a directory in one step, replacing a file of that name."""
        self._require("fsMove", "rename files")
        params = MoveParams(source_path=self._wire(source), destination_path=self._wire(destination))
        await self._ask("fs/move", params, Empty)

    async def chmod(self, path: RemotePathLike, mode: int, *, follow_symlinks: bool = True) -> None:
        """Set the permissions of a path's target, such as 0o755. Set-user-ID is not allowed."""
        self._require("fsChmod", "change modes")
        params = ChmodParams(
            path=self._wire(path), mode=mode, follow_symlinks=self._followed(follow_symlinks)
        )
        await self._ask("fs/chmod", params, Empty, can_repeat=True)

    # --- text ---------------------------------------------------------------

    async def search(
        self,
        path: RemotePathLike,
        pattern: str,
        *,
        kind: Literal["content", "name"] = "content",
        regex: bool = False,
        case_sensitive: bool = True,
        hidden: bool = False,
        max_matches: int = 1000,
        timeout_s: float = 10.0,
    ) -> Found:
        """Find lines with a text below a directory, or names of files and directories.

        `regex` treats the pattern as a regular expression. `hidden` includes names that begin with a dot. The
        search does not follow links and skips binary files. The order is always the same.
        """
        self._require("fsSearch", "search files")
        params = SearchParams(
            path=self._wire(path),
            pattern=pattern,
            kind=kind,
            regex=regex,
            case_sensitive=case_sensitive,
            hidden=hidden,
            max_matches=max_matches,
            timeout_ms=round(timeout_s * 1000),
        )
        found = await self._ask("fs/search", params, SearchResult, can_repeat=True)
        return Found(
            matches=[
                Match(local_name(match.path), match.line, match.column, match.text) for match in found.matches
            ],
            errors=found.errors,
            is_truncated=found.truncated,
        )

    async def edit(
        self,
        path: RemotePathLike,
        *edits: tuple[str, str] | tuple[str, str, int],
        follow_symlinks: bool = True,
    ) -> str:
        """Replace texts in a file, each `(old, new)` or `(old, new, count)`, and return the diff.

        Each `old` must occur exactly `count` times, once by default. Otherwise nothing changes, and
        InvalidRequest says which text it was and how often it occurs.
        """
        self._require("fsEdit", "edit files")
        changes = [TextEdit(old=old, new=new, count=count[0] if count else 1) for old, new, *count in edits]
        params = EditParams(
            path=self._wire(path), edits=changes, follow_symlinks=self._followed(follow_symlinks)
        )
        return (await self._ask("fs/edit", params, EditResult)).diff

    def watch(self, path: RemotePathLike, *, recursive: bool = False) -> Watch:
        """Watch a directory, its whole tree if `recursive`, or a file.

        Use it with `async with`, and iterate over it. After a lost connection it reports an overflow.
        """
        self._require("fsWatch", "watch files")
        target = self._wire(path)
        params = WatchParams(path=target, recursive=recursive)

        async def begin() -> Begun:
            answer = self._submit("fs/watch", params, can_repeat=True)
            watch_id = (await self._connection.result(answer, WatchResult)).watch_id
            return Begun(watch_id, answer.link_number)

        async def end(begun: Begun) -> None:
            params = UnwatchParams(watch_id=begun.watch_id)
            # The watches of a lost link have ended with it.
            with suppress(ConnectionLost):
                answer = self._connection.submit("fs/unwatch", params, link_number=begun.link_number)
                await self._connection.result(answer, Empty)

        connection = self._connection
        return Watch(connection.watchers, told_path(target), begin, end, has_link=connection.has_link)

    # --- to and from this host ----------------------------------------------

    async def upload(
        self,
        source: str | PathLike[str],
        destination: RemotePathLike,
        *,
        progress: Progress | None = None,
    ) -> None:
        """Copy a file or a directory, of any size, from this host to the server's.

        A file replaces an existing one, as a whole where the server can do that, and is executable there if
        it is executable here. A directory may not replace another unless that one is empty; it appears when
        it is complete.
        """
        from paddock.client.transfer import upload

        await upload(self, source, destination, progress)

    async def download(
        self,
        source: RemotePathLike,
        destination: str | PathLike[str],
        *,
        progress: Progress | None = None,
    ) -> None:
        """Copy a file or a directory from the server's host to this one, as `upload` does."""
        from paddock.client.transfer import download

        await download(self, source, destination, progress)

    def has(self, capability: str) -> bool:
        """Return whether the server offers a capability, such as "treeTransfers"."""
        return self._session.environment.capabilities.get(capability, False)

    # --- inside -------------------------------------------------------------

    def _wire(self, path: RemotePathLike) -> HostPath:
        return wire_path(self._session.environment, path)

    def _require(self, capability: str, purpose: str) -> None:
        require(self._session.environment, capability, purpose)

    def _followed(self, follow_symlinks: bool) -> bool | None:
        """Return what to send. A server without the capability would follow links without a word."""
        if not follow_symlinks:
            self._require("changesWithoutLinks", "change a file without following links")
        return _unless(follow_symlinks, True)

    def _writer(
        self, path: RemotePathLike, *, is_atomic: bool = False, is_tree: bool = False
    ) -> RemoteWriter:
        return RemoteWriter(
            self._connection,
            self._wire(path),
            is_atomic=is_atomic,
            is_tree=is_tree,
            is_confirmed=self.has("confirmedCloses"),
            sandbox=self._context(),
        )

    async def _ask(self, method: str, params: Params, kind: type[R], *, can_repeat: bool = False) -> R:
        return await self._connection.result(self._submit(method, params, can_repeat=can_repeat), kind)

    def _submit(self, method: str, params: Params, *, can_repeat: bool) -> Answer:
        if self._sandbox is not None:
            params = replace(params, sandbox=self._context())
        return self._connection.submit(method, params, can_repeat=can_repeat)

    def _context(self) -> SandboxContext | None:
        if self._sandbox is None:
            return None
        environment = self._session.environment
        return sandbox_context(environment, self._sandbox, parse_path(environment.cwd))


def _unless(value: bool, default: bool) -> bool | None:
    """Return `value`, or None if it is the default, which every server assumes."""
    return None if value == default else value
