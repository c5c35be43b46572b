"""`fs/*`, except open files: from parameters to an operation, and from its answer to a result.

A restricted sandbox is refused as long as nothing can enforce it.
"""

from __future__ import annotations

import os
from functools import partial

from paddock.errors import InvalidParams, InvalidRequest
from paddock.fs.operation import MAX_BLOCK_BYTES, Close, Open, OpenMode, ReadBlock
from paddock.fs.operations import Operations
from paddock.protocol.envelope import write_result
from paddock.protocol.fs import FollowablePathParams, ReadFileResult
from paddock.protocol.path import HostPath
from paddock.protocol.sandbox import ManagedProfile, SandboxContext, UnrestrictedFileSystem
from paddock.server.connection import ClientConnection, HandlerTable
from paddock.server.dispatch import Encoded

MAX_READ_FILE_BYTES = 512 * 1024 * 1024
"""The limit of the reference protocol."""


def files_for(connection: ClientConnection, sandbox: SandboxContext | None) -> Operations:
    """Where operations under this sandbox are carried out. Raises InvalidParams if it can't be enforced."""
    match sandbox:
        case None:
            return connection.files
        case SandboxContext(permissions=ManagedProfile(file_system=file_system)) if not isinstance(
            file_system, UnrestrictedFileSystem
        ):
            raise InvalidParams("params.sandbox: sandbox intent cannot be enforced on this executor")
    return connection.files


def local_path(path: HostPath) -> bytes:
    """The path as the kernel wants it. Raises InvalidRequest if it is not of this host."""
    if path.is_foreign:
        raise InvalidRequest(f"{path.text!r} is invalid on 'linux'; it names no file of this host")
    return os.fsencode(path.path)


async def read_file(connection: ClientConnection, params: FollowablePathParams) -> Encoded:
    """The whole content, read piece by piece."""
    request_id = connection.call.id
    files = files_for(connection, params.sandbox)
    path = local_path(params.path)
    follow = params.follow_symlinks is not False
    opened = await files.perform(Open(path=path, mode=OpenMode.READ, follow=follow))
    pieces: list[bytes] = []
    offset = 0
    try:
        while True:
            block = await files.perform(
                ReadBlock(handle=opened.handle, offset=offset, length=MAX_BLOCK_BYTES)
            )
            pieces.append(block.data)
            offset += len(block.data)
            if offset > MAX_READ_FILE_BYTES:
                raise InvalidRequest(f"file is too large to read: limit is {MAX_READ_FILE_BYTES} bytes")
            if len(block.data) < MAX_BLOCK_BYTES:
                break
    finally:
        await files.perform(Close(handle=opened.handle))
    result = ReadFileResult(data_base64=b"".join(pieces))
    return Encoded(await connection.services.lanes.run(partial(write_result, request_id, result)))


HANDLERS: HandlerTable = {"fs/readFile": read_file}
