"""The file operations of one request, and the files that it opens, under a profile.

Operations that only read run under the profile without its write access: such a sandbox leaves no trace in
the tree while it is kept, and serves reads under many profiles.
"""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import AsyncExitStack
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from paddock.errors import NotFound, RequestError
from paddock.fs.answer import Done, Metadata, Opened
from paddock.fs.operation import (
    A,
    Canonicalize,
    Close,
    GetMetadata,
    Open,
    OpenMode,
    Operation,
    ReadBlock,
    ReadDirectory,
    Search,
    Walk,
    WriteBlock,
    is_bulky,
)
from paddock.fs.remote import WorkerOperations
from paddock.model.profile import Access, ManagedProfile, Profile
from paddock.sandbox.profile.enforced import restricted_files
from paddock.server.confinement import Confinement
from paddock.server.file_workers import FileWorkers


class _OpenFile(Struct, frozen=True):
    """A file that is open in a worker, which is kept for it until `keeping` is closed."""

    worker: WorkerOperations
    handle: int
    keeping: AsyncExitStack


class ConfinedOperations:
    """Operations under a profile. Files that are open keep the workers that have them.

    They belong to `client`, a number. The object is in `open_ones` while files are open; the owner of that
    set calls `aclose` in the end.
    """

    def __init__(
        self,
        workers: FileWorkers,
        confinement: Confinement,
        client: int,
        open_ones: set[ConfinedOperations],
    ) -> None:
        self._workers = workers
        self._confinement = confinement
        self._client = client
        self._open_ones = open_ones
        self._files: dict[int, _OpenFile] = {}
        self._last_handle = 0

    def metadata_at_once(self, path: bytes) -> Metadata | None:
        """See `Operations`. A worker has to be asked."""
        return None

    async def perform(self, operation: Operation[A]) -> A:
        """Carry one operation out. Raises RequestError."""
        if isinstance(operation, ReadBlock | WriteBlock):
            file = self._files[operation.handle]
            return await file.worker.perform(cast("Operation[A]", replace(operation, handle=file.handle)))
        if isinstance(operation, Close):
            return cast("A", await self._close(operation))
        await self._workers.admit(self._confinement)
        async with AsyncExitStack() as keeping:
            using = self._workers.worker(self._wanted(operation), self._client)
            worker = await keeping.enter_async_context(using)
            if isinstance(operation, Open):
                return cast("A", await self._open(worker, operation, keeping))
            if is_bulky(operation):
                await keeping.enter_async_context(worker.bulk_share(self._client))
            return await worker.perform(operation)

    async def aclose(self) -> None:
        """Close every open file, and discard files that were not published yet."""
        for handle in list(self._files):
            with contextlib.suppress(RequestError):
                await self._close(Close(handle=handle, discard=True))

    def _wanted(self, operation: Operation[A]) -> Confinement:
        wanted = self._confinement
        if not is_reading(operation):
            return wanted
        return Confinement(without_writing(wanted.profile), wanted.project_roots, client=wanted.client)

    async def _open(self, worker: WorkerOperations, operation: Open, keeping: AsyncExitStack) -> Opened:
        opening = asyncio.ensure_future(worker.perform(operation))
        try:
            opened = await asyncio.shield(opening)
        except asyncio.CancelledError:
            self._workers.run(_close_late(opening, worker, keeping.pop_all()))
            raise
        if opened.handle is None:
            return opened
        # Two workers may give their files the same number.
        self._last_handle += 1
        self._files[self._last_handle] = _OpenFile(worker, opened.handle, keeping.pop_all())
        self._open_ones.add(self)
        return replace(opened, handle=self._last_handle)

    async def _close(self, operation: Close) -> Done:
        file = self._files.pop(operation.handle, None)
        if file is None:
            raise NotFound(f"file {operation.handle} is not open, and was not published")
        if not self._files:
            self._open_ones.discard(self)
        async with file.keeping:
            return await file.worker.perform(replace(operation, handle=file.handle))


async def _close_late(
    opening: asyncio.Future[Opened], worker: WorkerOperations, keeping: AsyncExitStack
) -> None:
    """Close a file that nobody waits for any more, when it is open."""
    async with keeping:
        with contextlib.suppress(RequestError):
            handle = (await opening).handle
            if handle is not None:
                await worker.perform(Close(handle=handle, discard=True))


def is_reading(operation: Operation[A]) -> bool:
    """Return whether an operation changes nothing, whatever it is allowed to."""
    if isinstance(operation, Open):
        return operation.mode is OpenMode.READ
    if isinstance(operation, Canonicalize):
        # Where nothing can be written, everything is read-only.
        return not operation.tells_read_only
    return isinstance(operation, GetMetadata | ReadDirectory | Walk | Search)


def without_writing(profile: Profile) -> Profile:
    """Return the profile with read access wherever it grants write access."""
    files = restricted_files(profile)
    if not isinstance(profile, ManagedProfile) or files is None:
        return profile
    entries = tuple(
        replace(entry, access=Access.READ) if entry.access is Access.WRITE else entry
        for entry in files.entries
    )
    return replace(profile, file_system=replace(files, entries=entries))
