"""A directory on a server with the profile that confines all work in it: what frameworks call a sandbox.

A `Workspace` connects and makes its directory when it is first used, once, however many tasks use it first.
Commands and files see the same directory under the same profile. It knows no framework.
"""

from __future__ import annotations

import asyncio
import errno
import posixpath
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from tempfile import SpooledTemporaryFile
from types import TracebackType
from typing import IO, Any, Final, Self
from uuid import uuid4

from msgspec import Struct
from msgspec.structs import replace

from paddock.client.box import Box
from paddock.client.completed_process import CompletedProcess
from paddock.client.confinement import Sandbox
from paddock.client.connect import Connecting, connect
from paddock.client.files import MAX_DEPTH, Files, Tree
from paddock.client.process import Bytes, Process
from paddock.client.reference import BoxReference
from paddock.client.remote_file import BLOCK_BYTES, RemoteWriter
from paddock.client.remote_path import RemotePath
from paddock.client.tree_archive import copy_archive, is_placeholder, may_be_placeholder
from paddock.client.wire_path import local_name
from paddock.errors import InvalidRequest, NotFound, PaddockError, RequestError
from paddock.errors.file import FileIsDirectory, FileUnfit
from paddock.model.terminal import TerminalSize
from paddock.protocol.fs import DirectoryEntry

PROFILE: Final = ":workspace"
"""The profile of a workspace unless the caller names another."""

SPOOL_BYTES: Final = 8 * 1024 * 1024
"""How large an archive may grow in memory before it moves to a temporary file."""

_REPLACED: Final = "\ufffd"
"""Stands in listings for bytes that are not UTF-8, and for itself."""

Target = str | Connecting | Box | None
"""The URL of a server, a connection to be made, an open box, or a private server."""


class OpenWorkspace(Struct, frozen=True):
    """A workspace whose directory exists, with its connection."""

    box: Box
    directory: str
    """Its directory, without links."""
    sandbox: Sandbox
    files: Files
    """The files on the host that the profile grants."""

    def locate(self, path: str) -> str:
        """Return an absolute path; resolve a relative one in the directory."""
        return posixpath.join(self.directory, path)


class Workspace:
    """A confined directory. `aclose` it, or use it with `async with`, unless `target` is a box of your own.

    `target` says which server; None is a private one. `directory` must exist there; None makes a new one that
    nobody else can enter, and removes it with `destroy`. `profile` is a name or a profile as a dict, with the
    directory as its workspace. `env` is added to the server's environment for every command; without
    `inherits_env` it is the whole environment. Nothing happens before the first call, and all calls belong to
    one event loop.
    """

    def __init__(
        self,
        target: Target = None,
        *,
        directory: str | None = None,
        profile: str | Mapping[str, Any] = PROFILE,
        env: Mapping[str, str] | None = None,
        inherits_env: bool = True,
    ) -> None:
        self._target = target
        self._wanted = directory
        self._is_ours = directory is None
        self._profile = profile
        self._env = dict(env or {})
        self._inherits_env = inherits_env
        self._provider_id: str | None = None
        self._name = f"paddock-{uuid4().hex}"
        self._opening = asyncio.Lock()
        self._open: OpenWorkspace | None = None
        self._own_box: Box | None = None

    @classmethod
    def attach(
        cls, reference: BoxReference, target: Target = None, *, env: Mapping[str, str] | None = None
    ) -> Self:
        """Return the workspace that a reference names. The first call raises NotFound if it no longer exists.

        `target` is a connection to the same server, for when its URL alone is not enough.
        """
        if reference.directory is None or reference.profile is None:
            raise ValueError("this reference names a session and no workspace; use connect(resume=...)")
        workspace = cls(
            reference.url if target is None else target,
            directory=reference.directory,
            profile=reference.profile,
            env=env,
        )
        workspace._provider_id = reference.provider_id
        return workspace

    @property
    def opened(self) -> OpenWorkspace | None:
        """Return the open workspace; None before the first use."""
        return self._open

    @property
    def reference(self) -> BoxReference | None:
        """Return the reference with which another process attaches; None before the first use."""
        if self._open is None:
            return None
        box, profile = self._open.box, self._profile
        return BoxReference(
            url=box.url,
            provider_id=box.environment.provider_id,
            directory=self._open.directory,
            profile=profile if isinstance(profile, str) else dict(profile),
        )

    async def open(self) -> OpenWorkspace:
        """Connect, and find or make the directory, unless that is done.

        Raises ConnectError, and NotFound for a directory that does not exist or belongs to another host.
        """
        if self._open is not None:
            return self._open
        async with self._opening:
            if self._open is None:
                self._open = await self._opened()
            return self._open

    # --- commands -----------------------------------------------------------

    async def run(
        self,
        argv: Sequence[str],
        *,
        input: Bytes | None = None,
        timeout_s: float | None = None,
        output_limit_bytes: int | None = None,
        cwd: str = "",
        env: Mapping[str, str] | None = None,
    ) -> CompletedProcess[bytes]:
        """Run a command to its end; see `Box.run`. `cwd` is relative to the directory; `env` is added to the
        workspace's."""
        there = await self.open()
        return await there.box.run(
            argv,
            input=input,
            timeout_s=timeout_s,
            output_limit_bytes=output_limit_bytes,
            cwd=there.locate(cwd),
            env=None if self._inherits_env else {},
            extra_env=self._env | dict(env or {}),
            sandbox=there.sandbox,
        )

    async def start(
        self,
        argv: Sequence[str],
        *,
        cwd: str = "",
        env: Mapping[str, str] | None = None,
        stdin: bool = False,
        tty: bool | TerminalSize = False,
    ) -> Process:
        """Start a command; see `Box.start`."""
        there = await self.open()
        return await there.box.start(
            argv,
            cwd=there.locate(cwd),
            env=None if self._inherits_env else {},
            extra_env=self._env | dict(env or {}),
            stdin=stdin,
            tty=tty,
            sandbox=there.sandbox,
        )

    # --- files --------------------------------------------------------------

    async def path(self, path: str) -> RemotePath:
        """Return a confined path; resolve a relative one in the directory."""
        there = await self.open()
        return RemotePath(there.files, there.locate(path))

    async def read_bytes(self, path: str) -> bytes:
        """Return the content of a file, in one request. For what is not a regular file, the error is also an
        OSError."""
        there = await self.open()
        name = there.locate(path)
        try:
            return await there.files.read_file(name)
        except InvalidRequest as error:
            if isinstance(error, OSError):
                raise
            # The reference protocol's error for what is not a file has no error number.
            if (await there.files.metadata(name)).is_directory:
                raise FileIsDirectory(
                    f"can't read {name!r}: it is a directory", errno.EISDIR, name
                ) from error
            raise FileUnfit(str(error), errno.EINVAL, name) from error

    async def write_bytes(self, path: str, data: bytes) -> None:
        """Replace the content of a file, or create it with the directories above it."""
        target = await self.path(path)
        try:
            await target.write_bytes(data)
        except NotFound:
            await target.parent.mkdir(parents=True, exist_ok=True)
            await target.write_bytes(data)

    async def entries(self, path: str = "") -> list[DirectoryEntry]:
        """Return what is in a directory, sorted by name, without the names that only the sandbox holds."""
        there = await self.open()
        found, held = await _listing(there.files, there.locate(path))
        return sorted((e for e in found if e.file_name not in held), key=lambda entry: entry.file_name)

    async def walk(self, path: str = "", *, max_depth: int = MAX_DEPTH) -> Tree:
        """Return everything below a directory, without the names that only the sandbox holds."""
        there = await self.open()
        tree = await there.files.walk(there.locate(path), max_depth=max_depth)
        directories = set(tree.directories)
        doubtful = {
            each: DirectoryEntry(
                file_name=name, is_directory=each in directories, is_file=each not in directories
            )
            for each in (*tree.directories, *tree.files)
            if may_be_placeholder(name := posixpath.basename(each))
            # The walk returns the directory as the caller wrote it, perhaps with dots.
            and posixpath.normpath(posixpath.dirname(each)) == there.directory
        }
        answers = await asyncio.gather(
            *(_is_held(there.files, there.directory, entry) for entry in doubtful.values())
        )
        held = {each for each, is_held in zip(doubtful, answers, strict=True) if is_held}
        # A held directory is empty.
        return replace(
            tree,
            directories=[each for each in tree.directories if each not in held],
            files=[each for each in tree.files if each not in held],
        )

    async def export_tree(
        self, sink: IO[bytes], path: str = "", *, leaves_out: Callable[[str], bool] | None = None
    ) -> None:
        """Write a directory as a tar archive, in bounded memory.

        The archive leaves out members whose relative path `leaves_out` names, and everything below them.
        """
        there = await self.open()
        directory = there.locate(path)
        with SpooledTemporaryFile(SPOOL_BYTES) as spool:
            async with there.files.tree_reader(directory) as archive:
                async for piece in archive:
                    await asyncio.to_thread(spool.write, piece)
            spool.seek(0)
            # A held name may have been released by now: only a name that exists afterwards and is not held is
            # a file.
            found, held = await _listing(there.files, directory)
            real = {entry.file_name for entry in found} - held
            await asyncio.to_thread(copy_archive, spool, sink, real, leaves_out)

    async def import_tree(self, source: IO[bytes], path: str = "") -> None:
        """Unpack a tar archive into a directory, in bounded memory, replacing files of the same name.

        An archive that is broken or leads out of the directory changes nothing.
        """
        there = await self.open()
        target = there.locate(path)
        await there.files.create_directory(target)
        incoming = posixpath.join(target, f".{self._name}-{uuid4().hex}")
        async with there.files.tree_writer(incoming) as archive:
            await _copy(source, archive)
        try:
            for name in await _exact_names(there.files, incoming):
                await there.files.remove(posixpath.join(target, name))
                await there.files.rename(posixpath.join(incoming, name), posixpath.join(target, name))
        finally:
            await there.files.remove(incoming)

    # --- the end ------------------------------------------------------------

    async def destroy(self) -> None:
        """Remove the directory with everything in it, but only if this workspace made it."""
        if self._open is not None and self._is_ours:
            await self._open.box.fs.remove(self._open.directory)

    async def aclose(self) -> None:
        """End the commands that run here, and the connection unless it is the caller's. Idempotent."""
        box, self._own_box = self._own_box, None
        if box is not None:
            await box.aclose()

    async def __aenter__(self) -> Self:
        try:
            await self.open()
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            with suppress(PaddockError):
                await self.destroy()
        finally:
            await self.aclose()

    # --- inside -------------------------------------------------------------

    async def _opened(self) -> OpenWorkspace:
        box = await self._connected()
        if self._provider_id not in (None, box.environment.provider_id):
            raise NotFound(
                f"workspace {self._wanted!r} is on another host, or belongs to another user: "
                f"{self._provider_id!r}, and not {box.environment.provider_id!r}"
            )
        directory = self._wanted
        if directory is None:
            directory = posixpath.join(local_name(box.environment.temp_dir), self._name)
            # The directory may exist from an attempt that was cut short; nobody else knows its name.
            await box.fs.create_directory(directory)
            await box.path(directory).chmod(0o700)
        elif not await box.path(directory).is_dir():
            raise NotFound(f"workspace {directory!r} does not exist, or is not a directory")
        directory = await box.fs.canonicalize(directory)
        sandbox = Sandbox(self._profile, (directory,))
        return OpenWorkspace(box, directory, sandbox, box.fs.confined(sandbox))

    async def _connected(self) -> Box:
        if isinstance(self._target, Box):
            return self._target
        if self._own_box is None:
            connecting = self._target if isinstance(self._target, Connecting) else connect(self._target)
            self._own_box = await connecting
        return self._own_box


async def _listing(files: Files, directory: str) -> tuple[list[DirectoryEntry], set[str]]:
    """Return what is in a directory, and the names among it that only the sandbox holds."""
    found = await files.read_directory(directory)
    doubtful = [entry for entry in found if may_be_placeholder(entry.file_name)]
    held = await asyncio.gather(*(_is_held(files, directory, entry) for entry in doubtful))
    return found, {entry.file_name for entry, is_held in zip(doubtful, held, strict=True) if is_held}


async def _exact_names(files: Files, directory: str) -> list[str]:
    """Return the names in a directory, also those that are not UTF-8.

    A listing has another character for their bytes, and a walk has no links. Raises InvalidRequest for a link
    whose name neither of them has.
    """
    listed = await files.read_directory(directory)
    doubtful = [entry for entry in listed if _REPLACED in entry.file_name]
    names = [entry.file_name for entry in listed if _REPLACED not in entry.file_name]
    if not doubtful:
        return names
    tree = await files.walk(directory, max_depth=0)
    walked = (posixpath.basename(path) for path in (*tree.directories, *tree.files) if path != directory)
    links = [entry.file_name for entry in doubtful if entry.is_symlink is True]
    for name in links:
        try:
            await files.metadata(posixpath.join(directory, name), follow_symlinks=False)
        except NotFound as error:
            raise InvalidRequest(f"the name of the link {name!r} is not UTF-8") from error
        except InvalidRequest:
            # It is there, and a link.
            continue
    return list(dict.fromkeys((*names, *walked, *links)))


async def _is_held(files: Files, directory: str, entry: DirectoryEntry) -> bool:
    try:
        found = await files.metadata(posixpath.join(directory, entry.file_name))
    except NotFound:
        # The name was held until a moment ago, unless it is a dangling link.
        return entry.is_symlink is not True
    except RequestError:
        return False
    mode = found.mode if isinstance(found.mode, int) else 0
    return is_placeholder(mode, is_directory=entry.is_directory)


async def _copy(source: IO[bytes], archive: RemoteWriter) -> None:
    while piece := await asyncio.to_thread(source.read, BLOCK_BYTES):
        await archive.write(piece)
