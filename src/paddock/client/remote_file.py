"""Open files on the server's host: read or written piece by piece, with several pieces under way.

Memory is bounded by the window, whatever the size of the file. An open file belongs to one link of the
connection. When that link is lost, a reader opens the file again and continues, if it has not changed; a
writer can't, and reports the state of the file. A writer that failed stays failed: no later call succeeds.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from types import TracebackType
from typing import Final, Literal
from uuid import uuid4

from paddock.client.connection import Connection
from paddock.client.request import Answer
from paddock.errors import ConnectionLost, NotFound, OperationFailed, PaddockError, WriteLost
from paddock.protocol.fs import (
    CloseParams,
    MetadataResult,
    OpenParams,
    OpenResult,
    PathParams,
    ReadBlockParams,
    ReadBlockResult,
    WriteBlockParams,
)
from paddock.protocol.path import HostPath
from paddock.protocol.sandbox import SandboxContext
from paddock.protocol.structure import Empty

BLOCK_BYTES: Final = 1024 * 1024
"""The largest block that servers accept."""

WINDOW_BLOCKS: Final = 4
"""Blocks under way at once: enough to keep disk, processor and network busy together."""

CLOSE_TIMEOUT_S: Final = 5.0
"""How long to wait when closing a file that is no longer wanted."""

Version = tuple[int, int]
"""Size and modification time, which show whether a file has changed."""


class RemoteReader:
    """A file, or a directory as a tar archive, that is open for reading.

    Use it with `async with`. It is an asynchronous iterator over the pieces of the file.
    """

    def __init__(
        self,
        connection: Connection,
        path: HostPath,
        *,
        is_tree: bool = False,
        sandbox: SandboxContext | None = None,
    ) -> None:
        self._connection = connection
        self._path = path
        self._sandbox = sandbox
        self._mode: Literal["read", "readTree"] = "readTree" if is_tree else "read"
        self._handle_id = ""
        self._link_number = 0
        self._version: Version | None = None
        self._opening = asyncio.Lock()
        self.size_bytes: int | None = None
        """The size of the file when it was opened; None for a directory."""

    async def read_block(self, offset: int, length: int = BLOCK_BYTES) -> bytes:
        """Read part of the file, at most `BLOCK_BYTES`.

        Returns fewer bytes than requested only at the end of the file.
        """
        while True:
            handle_id = self._handle_id
            answer = self._submit(offset, length)
            try:
                return (await self._connection.result(answer, ReadBlockResult)).chunk
            except NotFound:
                await self._reopen(handle_id)

    async def read(self) -> bytes:
        """Read the whole file."""
        return b"".join([piece async for piece in self])

    async def __aiter__(self) -> AsyncIterator[bytes]:
        window: deque[tuple[int, Answer, str]] = deque()
        offset = 0
        try:
            while True:
                while len(window) < WINDOW_BLOCKS:
                    window.append((offset, self._submit(offset, BLOCK_BYTES), self._handle_id))
                    offset += BLOCK_BYTES
                start, answer, handle_id = window.popleft()
                try:
                    piece = (await self._connection.result(answer, ReadBlockResult)).chunk
                except NotFound:
                    await self._reopen(handle_id)
                    piece = await self.read_block(start)
                if piece:
                    yield piece
                if len(piece) < BLOCK_BYTES:
                    return
        finally:
            for _, answer, _ in window:
                self._connection.forget(answer)

    async def aclose(self) -> None:
        """Close the file. Idempotent; never fails."""
        if self._handle_id:
            handle_id, self._handle_id = self._handle_id, ""
            await _close_quietly(self._connection, CloseParams(handle_id=handle_id), self._link_number)

    async def __aenter__(self) -> RemoteReader:
        await self._open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    # --- inside -------------------------------------------------------------

    def _submit(self, offset: int, length: int) -> Answer:
        params = ReadBlockParams(handle_id=self._handle_id, offset=offset, len=length)
        if self._mode == "readTree":
            # The server makes a tree as it is read, and another link would get a different one.
            return self._connection.submit("fs/readBlock", params, link_number=self._link_number)
        # Repeated on another link, where the handle is unknown, it does no harm.
        return self._connection.submit("fs/readBlock", params, can_repeat=True)

    async def _open(self) -> None:
        handle_id = uuid4().hex
        params = OpenParams(handle_id=handle_id, path=self._path, mode=self._mode, sandbox=self._sandbox)
        # An open changes nothing, so it can be repeated; the handle belongs to the last link it was sent on.
        answer = self._connection.submit("fs/open", params, can_repeat=True)
        try:
            await self._connection.result(answer, OpenResult)
            await self._look()
        except BaseException:
            _close_unheard(self._connection, CloseParams(handle_id=handle_id), answer.link_number)
            raise
        self._handle_id = handle_id
        self._link_number = answer.link_number

    async def _look(self) -> None:
        """Note which version of the file is open. Raises OperationFailed if it is another than before."""
        if self._mode != "read":
            return
        question = PathParams(path=self._path, sandbox=self._sandbox)
        answer = self._connection.submit("fs/getMetadata", question, can_repeat=True)
        found = await self._connection.result(answer, MetadataResult)
        version = (found.size, found.modified_at_ms)
        if self._version not in (None, version):
            raise OperationFailed(f"{self._path} changed while it was read; read it again")
        self._version = version
        self.size_bytes = found.size

    async def _reopen(self, lost_handle_id: str) -> None:
        """Open the file again after the connection was lost, unless another task has done so."""
        async with self._opening:
            if self._handle_id == lost_handle_id:
                await self._open()


class RemoteWriter:
    """A file, or a directory as a tar archive, that is open for writing, from its beginning.

    Use it with `async with`: at the end of the block everything is written, and a directory, or a file opened
    as `atomic`, appears in its place; if the block raises, it does not. Every method raises WriteLost when
    the connection is lost, and raises the error of an earlier failed call again.
    """

    def __init__(
        self,
        connection: Connection,
        path: HostPath,
        *,
        is_atomic: bool = False,
        is_tree: bool = False,
        is_confirmed: bool = False,
        sandbox: SandboxContext | None = None,
    ) -> None:
        self._connection = connection
        self._path = path
        self._sandbox = sandbox
        self._is_confirmed = is_confirmed
        """Whether the client can ask the server again how the file was closed."""
        self._mode: Literal["replace", "writeTree"] = "writeTree" if is_tree else "replace"
        self._is_atomic = is_atomic
        self._is_published = is_atomic or is_tree
        """Whether the file stays invisible until it is closed."""
        self._handle_id = uuid4().hex
        self._link_number = 0
        self._is_open = False
        self._failure: PaddockError | None = None
        self._window: deque[Answer] = deque()
        self._offset = 0

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        """Write the next bytes. Return when there is room for more; an error may appear in a later call."""
        view = memoryview(data)
        while view:
            piece = bytes(view[:BLOCK_BYTES])
            view = view[BLOCK_BYTES:]
            params = WriteBlockParams(handle_id=self._handle_id, offset=self._offset, chunk=piece)
            self._window.append(self._submit("fs/writeBlock", params))
            self._offset += len(piece)
            while len(self._window) >= WINDOW_BLOCKS:
                await self._settle()

    async def aclose(self) -> None:
        """Wait until everything is written, and put it in its place. Idempotent. Raises any error of the
        writing."""
        self._check()
        if not self._is_open:
            return
        while self._window:
            await self._settle()
        params = CloseParams(handle_id=self._handle_id, confirm=True if self._is_confirmed else None)
        answer = self._submit("fs/close", params, can_repeat=self._is_confirmed)
        self._is_open = False
        try:
            await self._result(answer)
        except NotFound as error:
            if answer.attempts == 1:
                raise
            # The first link was lost before the server read the request, and the server closed the file as
            # the link ended.
            if self._is_published:
                reason = f"the connection was lost while it was closed, and the server answered: {error}"
                raise self._fail(WriteLost(self._name, "unchanged", reason)) from error
            # The server answered every block, so all of them are written.
            self._failure = None

    async def discard(self) -> None:
        """Give up: a file or directory that is not yet in place never appears. Idempotent; never fails."""
        self._forget_window()
        if self._is_open:
            self._is_open = False
            await _close_quietly(self._connection, self._discarding, self._link_number)

    async def __aenter__(self) -> RemoteWriter:
        params = OpenParams(
            handle_id=self._handle_id,
            path=self._path,
            mode=self._mode,
            atomic=True if self._is_atomic else None,
            sandbox=self._sandbox,
        )
        try:
            # Opening a file that is not published yet changes nothing. Opening any other empties it.
            answer = self._connection.submit("fs/open", params, can_repeat=self._is_published)
        except ConnectionLost as loss:
            raise self._lost(loss) from loss
        try:
            await self._connection.result(answer, OpenResult)
        except ConnectionLost as loss:
            raise self._lost(loss) from loss
        except BaseException:
            _close_unheard(self._connection, self._discarding, answer.link_number)
            raise
        self._link_number = answer.link_number
        self._is_open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                await self.aclose()
        finally:
            await self.discard()

    # --- inside -------------------------------------------------------------

    def _submit(
        self, method: str, params: WriteBlockParams | CloseParams, *, can_repeat: bool = False
    ) -> Answer:
        """Send a request on the file's own link: on any other the server does not know the handle.

        A server reports success for closing an unknown handle, unless it is asked to confirm the close.
        """
        self._check()
        try:
            return self._connection.submit(
                method, params, can_repeat=can_repeat, link_number=self._link_number
            )
        except ConnectionLost as loss:
            raise self._fail(self._lost(loss)) from loss

    @property
    def _discarding(self) -> CloseParams:
        return CloseParams(handle_id=self._handle_id, discard=True if self._is_published else None)

    async def _settle(self) -> None:
        await self._result(self._window.popleft())

    async def _result(self, answer: Answer) -> None:
        try:
            await self._connection.result(answer, Empty)
        except ConnectionLost as loss:
            raise self._fail(self._lost(loss)) from loss
        except PaddockError as error:
            # The server has closed the file, so the blocks that follow would only fail because of that.
            self._fail(error)
            raise
        except BaseException:
            self._fail(OperationFailed(f"{self._name!r} was given up while it was written; write it again"))
            raise

    def _lost(self, loss: ConnectionLost) -> WriteLost:
        """Return an error that says what state the file is in.

        `_is_open` is false once the client has told the server to put the file in its place.
        """
        reason = str(loss.__cause__ if isinstance(loss.__cause__, ConnectionLost) else loss)
        is_closing = self._link_number and not self._is_open
        if is_closing:
            return WriteLost(self._name, "unknown", reason)
        return WriteLost(self._name, "unchanged" if self._is_published else "incomplete", reason)

    def _fail(self, failure: PaddockError) -> PaddockError:
        self._failure = failure
        self._forget_window()
        return failure

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure.with_traceback(None)

    def _forget_window(self) -> None:
        for answer in self._window:
            self._connection.forget(answer)
        self._window.clear()

    @property
    def _name(self) -> str:
        return self._path.path


async def _close_quietly(connection: Connection, params: CloseParams, link_number: int) -> None:
    try:
        async with asyncio.timeout(CLOSE_TIMEOUT_S):
            answer = connection.submit("fs/close", params, link_number=link_number)
            await connection.result(answer, Empty)
    except (TimeoutError, PaddockError):
        # The server closes the file at the latest when the link ends.
        pass


def _close_unheard(connection: Connection, params: CloseParams, link_number: int) -> None:
    """Close a file that the server may have opened, or may be about to, without waiting for the answer.

    Files that nobody closes stay open until the link ends, and the server opens only so many.
    """
    # If the link has ended, the server has closed the file. If it opened none, this does nothing.
    with suppress(PaddockError):
        connection.submit("fs/close", params, link_number=link_number)
