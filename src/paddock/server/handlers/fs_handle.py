"""`fs/open`, `fs/readBlock`, `fs/writeBlock` and `fs/close`: files that stay open between requests."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from paddock.errors import InvalidRequest, OperationFailed, RequestError
from paddock.fs.operation import SMALL_BYTES, Open, OpenMode, ReadBlock, WriteBlock
from paddock.protocol.call import Call
from paddock.protocol.envelope import write_block_result
from paddock.protocol.fs import (
    CloseParams,
    OpenParams,
    OpenResult,
    ReadBlockParams,
    ReadBlockResult,
    WriteBlockParams,
)
from paddock.protocol.structure import Empty
from paddock.server.connection import ClientConnection, HandlerTable
from paddock.server.dispatch import Encoded, Then
from paddock.server.files import ClientFile
from paddock.server.handlers.file_operations import local_path, operations_for

MAX_BLOCK_BYTES = 1024 * 1024
"""The limit of the reference protocol."""

EMPTY = Empty()


def open_file(connection: ClientConnection, call: Call[OpenParams]) -> Coroutine[Any, Any, OpenResult]:
    """Open a file. The id is taken before this returns, so that requests which follow find it."""
    params = call.params
    mode = OpenMode(params.mode)
    if params.atomic:
        if mode is not OpenMode.REPLACE:
            raise InvalidRequest(f"atomic needs mode replace; mode {mode.value} does not support it")
        mode = OpenMode.PUBLISH
    operation = Open(path=local_path(params.path), mode=mode)
    file = connection.files.reserve(params.handle_id, operations_for(connection, params.sandbox))
    # A client that asks how its close ended must not get another file's outcome if this one is lost.
    connection.session.closes.forget(params.handle_id)
    return _open(connection, file, operation)


async def _open(connection: ClientConnection, file: ClientFile, operation: Open) -> OpenResult:
    async with file.turn:
        try:
            await file.open(operation)
        except BaseException:
            connection.files.forget(file)
            raise
    return OpenResult(handle_id=file.handle_id)


def read_block(connection: ClientConnection, call: Call[ReadBlockParams]) -> Coroutine[Any, Any, Encoded]:
    """Read part of a file, in the order of the requests for it."""
    params = call.params
    if not 1 <= params.len <= MAX_BLOCK_BYTES:
        raise InvalidRequest(f"file read block length must be between 1 and {MAX_BLOCK_BYTES}")
    return _read(connection, connection.files.get(params.handle_id), call)


async def _read(connection: ClientConnection, file: ClientFile, call: Call[ReadBlockParams]) -> Encoded:
    params = call.params
    grant = await connection.room_for(params.len) if params.len > SMALL_BYTES else None
    try:
        async with file.turn:
            operation = ReadBlock(handle=file.handle, offset=params.offset, length=params.len)
            try:
                data = (await file.operations.perform(operation)).data
            except RequestError:
                _lose(connection, file)
                raise
    except BaseException:
        if grant is not None:
            grant.release()
        raise
    result = ReadBlockResult(chunk=data, eof=len(data) < params.len)
    return Encoded(write_block_result(call.id, result), grant)


def write_block(connection: ClientConnection, call: Call[WriteBlockParams]) -> Coroutine[Any, Any, Empty]:
    """Write part of a file, in the order of the requests."""
    params = call.params
    if not 1 <= len(params.chunk) <= MAX_BLOCK_BYTES:
        raise InvalidRequest(f"file write block length must be between 1 and {MAX_BLOCK_BYTES}")
    return _write(connection, connection.files.get(params.handle_id), params)


async def _write(connection: ClientConnection, file: ClientFile, params: WriteBlockParams) -> Empty:
    async with file.turn:
        operation = WriteBlock(handle=file.handle, offset=params.offset, data=params.chunk)
        try:
            await file.operations.perform(operation)
        except RequestError:
            _lose(connection, file)
            raise
        except asyncio.CancelledError:
            # Nobody knows whether it was written. A close that is under way must not publish the file.
            file.lose()
            raise
    return EMPTY


def _lose(connection: ClientConnection, file: ClientFile) -> None:
    """Note that a failed transfer has closed the file, as in the reference protocol."""
    file.lose()
    connection.files.forget(file)


def close(connection: ClientConnection, call: Call[CloseParams]) -> Empty | Coroutine[Any, Any, Empty | Then]:
    """Close a file after everything that was asked of it before; its id is free at once."""
    params = call.params
    if params.confirm:
        return _confirm(connection, params)
    file = connection.files.take(params.handle_id)
    return EMPTY if file is None else _close(file, discard=params.discard is True)


async def _close(file: ClientFile, *, discard: bool) -> Empty:
    async with file.turn:
        await file.close(discard=discard)
    return EMPTY


def _confirm(connection: ClientConnection, params: CloseParams) -> Coroutine[Any, Any, Empty | Then]:
    """Close a file as `close` does, or return the outcome of an earlier close. Raises NotFound."""
    session = connection.session
    file = connection.files.take(params.handle_id)
    if file is None:
        return _closed(session.closes.get(params.handle_id))
    # Once begun, it is not cut short with the connection: the session knows how it ended.
    closing = session.run(_close_confirmed(file, discard=params.discard is True))
    session.closes.add(params.handle_id, closing)
    return _closed(closing)


async def _close_confirmed(file: ClientFile, *, discard: bool) -> RequestError | None:
    """Return the outcome as a value: a task that raises keeps the frames that its exception comes through."""
    async with file.turn:
        try:
            await file.close_confirmed(discard=discard)
        except RequestError as error:
            return error.with_traceback(None)
    return None


async def _closed(closing: asyncio.Task[RequestError | None]) -> Empty | Then:
    # The request that waits for the close may be cancelled; the close is not.
    await asyncio.wait([closing])
    if closing.cancelled():
        raise OperationFailed(
            "the server ended while it closed the file; whether the file is in its place is unknown"
        )
    error = closing.result()
    return EMPTY if error is None else Then(error, lambda: None)


HANDLERS: HandlerTable = {
    "fs/open": open_file,
    "fs/readBlock": read_block,
    "fs/writeBlock": write_block,
    "fs/close": close,
}
