"""The file handles of one connection: maps the client's ids to open files.

Requests that use one file are carried out one after the other, in the order in which they came, beginning
with the one that opens it. Files end with their connection. The session remembers how a file was closed if
the client wants that confirmed.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING

from paddock.errors import InvalidRequest, NotFound, RequestError
from paddock.fs.operations import Operations

if TYPE_CHECKING:
    from paddock.fs.operation import Open

MAX_HANDLES = 128
MAX_HANDLE_ID_BYTES = 32

REMEMBERED_CLOSES = 1024
"""Closes remembered per session: eight times what a client has under way when it loses its connection."""


class ClientFile:
    """A file under the id that the client chose. `turn` is held while a request uses it."""

    __slots__ = ("_handle", "handle_id", "operations", "turn")

    def __init__(self, handle_id: str, operations: Operations) -> None:
        self.handle_id = handle_id
        self.operations = operations
        self.turn = asyncio.Lock()
        self._handle: int | None = None

    @property
    def handle(self) -> int:
        """Return the engine's handle.

        Raises NotFound when the file is not open, or an error has closed it.
        """
        if self._handle is None:
            raise NotFound(f"unknown file handle {self.handle_id!r}: it is closed, or was never open")
        return self._handle

    async def open(self, operation: Open) -> None:
        """Open it; within its turn. Raises RequestError."""
        self._handle = (await self.operations.perform(operation)).handle

    async def close(self, *, discard: bool) -> None:
        """Close it; within its turn. Idempotent. Raises RequestError when it can't be published."""
        handle, self._handle = self._handle, None
        if handle is not None:
            await self._close(handle, discard=discard)

    async def close_confirmed(self, *, discard: bool) -> None:
        """Close it; within its turn. Raises NotFound when it is not open, or was closed by an error."""
        handle = self.handle
        self._handle = None
        await self._close(handle, discard=discard)

    async def _close(self, handle: int, *, discard: bool) -> None:
        from paddock.fs.operation import Close

        await self.operations.perform(Close(handle=handle, discard=discard))

    def lose(self) -> None:
        """Note that an error has closed the file, or left out a part of it."""
        self._handle = None


class ClientFiles:
    """The files of one connection by their ids."""

    def __init__(self) -> None:
        self._files: dict[str, ClientFile] = {}

    def reserve(self, handle_id: str, operations: Operations) -> ClientFile:
        """Take an id for a file that is to be opened. Raises InvalidRequest."""
        _refuse_long(handle_id)
        if handle_id in self._files:
            raise InvalidRequest(
                f"file handle {handle_id!r} already exists; close it or choose another handleId"
            )
        if len(self._files) >= MAX_HANDLES:
            raise InvalidRequest(
                f"at most {MAX_HANDLES} file handles may be open per connection; close one first"
            )
        file = self._files[handle_id] = ClientFile(handle_id, operations)
        return file

    def get(self, handle_id: str) -> ClientFile:
        """Return the file of an id, though it may not be open yet. Raises NotFound or InvalidRequest."""
        _refuse_long(handle_id)
        file = self._files.get(handle_id)
        if file is None:
            raise NotFound(f"unknown file handle {handle_id!r}: it is closed, or was never open")
        return file

    def forget(self, file: ClientFile) -> None:
        """Free its id."""
        if self._files.get(file.handle_id) is file:
            del self._files[file.handle_id]

    def take(self, handle_id: str) -> ClientFile | None:
        """Free an id and return its file, for the caller to close. Raises InvalidRequest."""
        _refuse_long(handle_id)
        return self._files.pop(handle_id, None)


class ConfirmedCloses:
    """How the files of a session were closed, for clients that ask again over another connection."""

    def __init__(self) -> None:
        self._closes: OrderedDict[str, asyncio.Task[RequestError | None]] = OrderedDict()

    def get(self, handle_id: str) -> asyncio.Task[RequestError | None]:
        """Return the close of a file, under way or over. Raises NotFound."""
        close = self._closes.get(handle_id)
        if close is None:
            raise NotFound(
                f"unknown file handle {handle_id!r}: it was never open, or its connection was lost"
            )
        return close

    def forget(self, handle_id: str) -> None:
        """Forget how an earlier file of this id was closed: another one has it now."""
        self._closes.pop(handle_id, None)

    def add(self, handle_id: str, close: asyncio.Task[RequestError | None]) -> None:
        """Remember a close. It must go on if its connection is lost."""
        self._closes[handle_id] = close
        self._closes.move_to_end(handle_id)
        # The client may never ask how the close ended, and asyncio would complain of an unread failure.
        close.add_done_callback(lambda close: close.cancelled() or close.exception())
        if len(self._closes) > REMEMBERED_CLOSES:
            self._closes.popitem(last=False)


def _refuse_long(handle_id: str) -> None:
    if len(handle_id.encode("utf-8", "surrogatepass")) > MAX_HANDLE_ID_BYTES:
        raise InvalidRequest(f"file handle ID must not exceed {MAX_HANDLE_ID_BYTES} bytes")
