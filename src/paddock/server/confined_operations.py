"""The place for the file operations of one request, or of one open file, under a profile.

What only reads is done under the profile without its write access: such a sandbox leaves no
trace in the tree while it is kept, and serves reads under many profiles.
"""

from __future__ import annotations

import contextlib
from contextlib import AsyncExitStack
from typing import cast

from msgspec.structs import replace

from paddock.errors import RequestError
from paddock.fs.answer import Opened
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
)
from paddock.fs.remote import WorkerOperations
from paddock.model.profile import Access, ManagedProfile, Profile, RestrictedFileSystem
from paddock.server.file_workers import FileWorkers
from paddock.server.sandboxes import Confinement


class ConfinedOperations:
    """Operations under a profile. A file that is open keeps the worker that has it; `aclose` closes it."""

    def __init__(self, workers: FileWorkers, confinement: Confinement) -> None:
        self._workers = workers
        self._confinement = confinement
        self._keeping = AsyncExitStack()
        self._kept: WorkerOperations | None = None
        self._handle: int | None = None

    def at_once(self, operation: Operation[A]) -> A | None:
        """See `Operations`. A worker has to be asked."""
        return None

    async def perform(self, operation: Operation[A]) -> A:
        """Carry one operation out. Raises RequestError."""
        if isinstance(operation, ReadBlock | WriteBlock | Close):
            assert self._kept is not None, "only a file that was opened here is read, written or closed"
            try:
                return await self._kept.perform(cast("Operation[A]", operation))
            finally:
                if isinstance(operation, Close):
                    await self._let_go()
        wanted = self._confinement
        if is_reading(operation):
            wanted = Confinement(without_writing(wanted.profile), wanted.project_roots)
        async with AsyncExitStack() as stack:
            worker = await stack.enter_async_context(self._workers.worker(wanted))
            answer = await worker.perform(operation)
            if isinstance(answer, Opened) and answer.handle is not None:
                self._kept, self._handle = worker, answer.handle
                self._keeping = stack.pop_all()
            return answer

    async def aclose(self) -> None:
        """Close the file that is open, if one is; what was to be published is discarded."""
        if self._kept is not None and self._handle is not None:
            with contextlib.suppress(RequestError):
                await self.perform(Close(handle=self._handle, discard=True))

    async def _let_go(self) -> None:
        self._kept = self._handle = None
        await self._keeping.aclose()


def is_reading(operation: Operation[A]) -> bool:
    """Whether an operation changes nothing, whatever it is allowed to."""
    if isinstance(operation, Open):
        return operation.mode is OpenMode.READ
    return isinstance(operation, GetMetadata | ReadDirectory | Canonicalize | Walk | Search)


def without_writing(profile: Profile) -> Profile:
    """The profile with read access wherever it grants write access."""
    if not isinstance(profile, ManagedProfile) or not isinstance(profile.file_system, RestrictedFileSystem):
        return profile
    entries = tuple(
        replace(entry, access=Access.READ) if entry.access is Access.WRITE else entry
        for entry in profile.file_system.entries
    )
    return replace(profile, file_system=replace(profile.file_system, entries=entries))
