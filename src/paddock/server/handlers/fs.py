"""`fs/*`, except open files (see `fs_handle`): parameters to an operation, and its answer to a result."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from msgspec import UNSET, UnsetType

from paddock.errors import InvalidRequest, RequestError
from paddock.fs import operation as engine
from paddock.fs.answer import Metadata, Opened, Walked
from paddock.fs.operations import Operations
from paddock.protocol.bulk import Splicing
from paddock.protocol.call import Call
from paddock.protocol.envelope import begin_file, write_result
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
    RemoveParams,
    WalkEntry,
    WalkError,
    WalkParams,
    WalkResult,
    WriteFileParams,
)
from paddock.protocol.path import HostPath
from paddock.protocol.structure import Empty
from paddock.server.confined_operations import ConfinedOperations
from paddock.server.connection import ClientConnection, HandlerTable
from paddock.server.dispatch import Encoded
from paddock.server.handlers.file_operations import local_path, operations_for

KIB = 1024
MIB = 1024 * KIB

MAX_READ_FILE_BYTES = 512 * MIB
MAX_DIRECTORY_ENTRIES = 50_000
MAX_WALK_DEPTH = 64
MAX_WALK_DIRECTORIES = 10_000
MAX_WALK_ENTRIES = 50_000
MAX_WALK_BYTES = 4 * MIB
"""The limits of the reference protocol."""

FIRST_PIECE_BYTES = 48 * KIB
"""What a file is read with when it is opened; one that is shorter is done with that."""
PIECE_BYTES = 3 * MIB
"""What is read of a larger file at once. Both are multiples of three, as base64 wants it."""

MAX_ALIASED_PATHS = 40
"""Paths on a way of which to look for others: as many as the kernel follows links. With a thousand mounts,
each takes a millisecond."""

EMPTY = Empty()


# --- content ----------------------------------------------------------------


async def read_file(connection: ClientConnection, call: Call[FollowablePathParams]) -> Encoded:
    """Return the whole content of a file. Read a large one piece by piece, once there is memory for it."""
    params, answer = call.params, begin_file(call.id)
    operations = operations_for(connection, params.sandbox)
    follow = params.follow_symlinks is not False
    opened = await operations.perform(
        engine.Open(path=local_path(params.path), follow=follow, prefetch_bytes=FIRST_PIECE_BYTES)
    )
    answer.add(opened.beginning)
    if opened.handle is None:
        return Encoded(answer.finish())
    try:
        encoded = await _read_rest(connection, operations, opened, opened.handle, answer)
    except RequestError:
        await operations.perform(engine.Close(handle=opened.handle))
        raise
    # A cancelled call does not get here: its connection has ended, and closes its files by itself.
    await operations.perform(engine.Close(handle=opened.handle))
    return encoded


async def _read_rest(
    connection: ClientConnection, operations: Operations, opened: Opened, handle: int, answer: Splicing
) -> Encoded:
    _refuse_too_large(opened.size_bytes)
    grant = await connection.room_for(opened.size_bytes * 4 // 3)
    try:
        offset = len(opened.beginning)
        while True:
            block = await operations.perform(
                engine.ReadBlock(handle=handle, offset=offset, length=PIECE_BYTES)
            )
            await connection.services.lanes.run(partial(answer.add, block.data))
            offset += len(block.data)
            _refuse_too_large(offset)
            if len(block.data) < PIECE_BYTES:
                return Encoded(answer.finish(), grant)
    except BaseException:
        grant.release()
        raise


def _refuse_too_large(size_bytes: int) -> None:
    if size_bytes > MAX_READ_FILE_BYTES:
        raise InvalidRequest(
            f"file is too large to read: limit is {MAX_READ_FILE_BYTES} bytes; use fs/open and fs/readBlock"
        )


async def write_file(connection: ClientConnection, call: Call[WriteFileParams]) -> Empty:
    """Replace the content of a file."""
    params = call.params
    operations = operations_for(connection, params.sandbox)
    try:
        data = params.data_base64.decode()
    except ValueError as error:
        raise InvalidRequest(f"fs/writeFile requires valid base64 dataBase64: {error}") from error
    operation = engine.WriteFile(
        path=local_path(params.path),
        data=data,
        follow=params.follow_symlinks is not False,
        is_atomic=params.atomic is True,
    )
    await operations.perform(operation)
    return EMPTY


# --- what is there ----------------------------------------------------------


def get_metadata(
    connection: ClientConnection, call: Call[FollowablePathParams]
) -> MetadataResult | Coroutine[Any, Any, MetadataResult]:
    """Describe what a path is, at once if the kernel has it in memory."""
    params = call.params
    operations = operations_for(connection, params.sandbox)
    path = local_path(params.path)
    follow = params.follow_symlinks is not False
    found = operations.metadata_at_once(path) if follow else None
    with_mode = connection.capabilities.extensions
    if found is not None:
        return _metadata_result(found, with_mode)
    return _get_metadata(operations, engine.GetMetadata(path=path, follow=follow), with_mode)


async def _get_metadata(
    operations: Operations, operation: engine.GetMetadata, with_mode: bool
) -> MetadataResult:
    return _metadata_result(await operations.perform(operation), with_mode)


def _metadata_result(found: Metadata, with_mode: bool) -> MetadataResult:
    return MetadataResult(
        is_directory=found.is_directory,
        is_file=found.is_file,
        is_symlink=found.is_link,
        size=found.size_bytes,
        created_at_ms=found.created_at_ms,
        modified_at_ms=found.modified_at_ms,
        mode=found.mode if with_mode else UNSET,
    )


async def canonicalize(connection: ClientConnection, call: Call[CanonicalizeParams]) -> CanonicalizeResult:
    """Return the path without links and dots."""
    params = call.params
    operation = engine.Canonicalize(
        path=local_path(params.path),
        tells_read_only=params.tells_read_only is True,
        tells_way=params.tells_way is True,
    )
    operations = operations_for(connection, params.sandbox)
    found = await operations.perform(operation)
    way = found.way
    is_written: bool | UnsetType = UNSET
    # Inside a sandbox the host's mounts would tell of what it hides.
    if way is not None and not isinstance(operations, ConfinedOperations):
        way = await asyncio.to_thread(_with_aliases, way)
        if params.written_places is not None:
            places = list(map(local_path, params.written_places))
            is_written = await asyncio.to_thread(_may_be_written, way, places)
    return CanonicalizeResult(
        path=params.path.like(found.path),
        read_only=UNSET if found.is_read_only is None else found.is_read_only,
        way=UNSET if way is None else [params.path.like(path) for path in way],
        other_names=UNSET if found.has_other_names is None else found.has_other_names,
        written=is_written,
    )


def _with_aliases(way: Sequence[bytes]) -> list[bytes]:
    """Return a way with other paths in front by which mounts show what is on it. Raises InvalidRequest."""
    if len(way) > MAX_ALIASED_PATHS:
        raise InvalidRequest(f"the path leads through more than {MAX_ALIASED_PATHS} others")
    # Few clients ask for this.
    from paddock.sandbox.host.mount_alias import aliases_of
    from paddock.sandbox.host.overlay_layer import layers_in
    from paddock.sandbox.host.propagation import read_table
    from paddock.sandbox.host.question import real_directories

    table = read_table()
    aliases = aliases_of(table, tuple(map(os.fsdecode, way)), layers_in(table, real_directories))
    return [*(alias for each in aliases if (alias := os.fsencode(each)) not in way), *way]


def _may_be_written(way: Sequence[bytes], places: Sequence[bytes]) -> bool:
    """Return whether a way with aliases leads through one of these places, or may."""
    from paddock.sandbox.host.written_place import WrittenPlaces

    written = WrittenPlaces(map(os.fsdecode, places))
    return any(written.may_hold(os.fsdecode(path)) for path in way)


async def read_directory(connection: ClientConnection, call: Call[ReadDirectoryParams]) -> Encoded:
    """Return the names in a directory. Those that are not UTF-8 get replacement characters."""
    params = call.params
    with_links = params.all_links is True
    operation = engine.ReadDirectory(
        path=local_path(params.path), max_entries=MAX_DIRECTORY_ENTRIES, has_all_links=with_links
    )
    listing = await operations_for(connection, params.sandbox).perform(operation)

    def encode() -> bytes:
        entries = [
            DirectoryEntry(
                file_name=entry.name.decode("utf-8", "replace"),
                is_directory=entry.is_directory,
                is_file=entry.is_file,
                is_symlink=entry.is_link if with_links else UNSET,
            )
            for entry in listing.entries
        ]
        return write_result(call.id, ReadDirectoryResult(entries=entries))

    return await _encoded(connection, len(listing.entries), encode)


def walk(connection: ClientConnection, call: Call[WalkParams]) -> Coroutine[Any, Any, Encoded]:
    """Return a tree, within the limits that the caller and the protocol set."""
    params = call.params
    options = params.options
    if not options.max_directories or not options.max_entries:
        raise InvalidRequest("filesystem walk limits must be greater than zero")
    if (
        options.max_depth > MAX_WALK_DEPTH
        or options.max_directories > MAX_WALK_DIRECTORIES
        or options.max_entries > MAX_WALK_ENTRIES
    ):
        raise InvalidRequest(
            f"filesystem walk limits exceed maximums: depth={MAX_WALK_DEPTH}, "
            f"directories={MAX_WALK_DIRECTORIES}, entries={MAX_WALK_ENTRIES}"
        )
    operation = engine.Walk(
        path=local_path(params.path),
        max_depth=options.max_depth,
        max_directories=options.max_directories,
        max_entries=options.max_entries,
        max_bytes=MAX_WALK_BYTES,
        follow_directory_links=options.follow_directory_symlinks,
        prune_hidden=options.prune_hidden_directories,
    )
    return _walk(connection, call, operation)


async def _walk(connection: ClientConnection, call: Call[WalkParams], operation: engine.Walk) -> Encoded:
    params = call.params
    walked = await operations_for(connection, params.sandbox).perform(operation)
    entries = sum(len(directory.names) for directory in walked.directories)
    return await _encoded(
        connection, entries, lambda: write_result(call.id, _walk_result(params.path, walked))
    )


def _walk_result(root: HostPath, walked: Walked) -> WalkResult:
    return WalkResult(
        entries=[
            WalkEntry(path=path, kind="directory" if is_directory else "file")
            for directory in walked.directories
            for path, is_directory in zip(
                root.all_like(directory.path, directory.names), directory.are_directories, strict=True
            )
        ],
        errors=[WalkError(path=root.like(error.path), message=error.message) for error in walked.errors],
        truncated=walked.is_truncated,
    )


ENCODED_HERE = 100
"""Entries that are encoded in less time than it takes to have a thread do it."""


async def _encoded(connection: ClientConnection, entries: int, encode: Callable[[], bytes]) -> Encoded:
    """Make the message of a result, in a thread if it is long."""
    return Encoded(encode() if entries <= ENCODED_HERE else await connection.services.lanes.run(encode))


# --- changes ----------------------------------------------------------------


async def create_directory(connection: ClientConnection, call: Call[CreateDirectoryParams]) -> Empty:
    """Make a directory."""
    params = call.params
    operation = engine.CreateDirectory(
        path=local_path(params.path),
        recursive=params.recursive is not False,
        follow=params.follow_symlinks is not False,
    )
    await operations_for(connection, params.sandbox).perform(operation)
    return EMPTY


async def remove(connection: ClientConnection, call: Call[RemoveParams]) -> Empty:
    """Remove a file or a tree."""
    params = call.params
    operation = engine.Remove(
        path=local_path(params.path),
        recursive=params.recursive is not False,
        force=params.force is not False,
        follow=params.follow_symlinks is not False,
    )
    await operations_for(connection, params.sandbox).perform(operation)
    return EMPTY


async def move(connection: ClientConnection, call: Call[MoveParams]) -> Empty:
    """Give something another name."""
    params = call.params
    operation = engine.Rename(
        source=local_path(params.source_path), destination=local_path(params.destination_path)
    )
    await operations_for(connection, params.sandbox).perform(operation)
    return EMPTY


async def chmod(connection: ClientConnection, call: Call[ChmodParams]) -> Empty:
    """Set permissions."""
    params = call.params
    operation = engine.ChangeMode(
        path=local_path(params.path), mode=params.mode, follow=params.follow_symlinks is not False
    )
    await operations_for(connection, params.sandbox).perform(operation)
    return EMPTY


async def copy(connection: ClientConnection, call: Call[CopyParams]) -> Empty:
    """Copy a file, a link or a tree."""
    params = call.params
    operation = engine.Copy(
        source=local_path(params.source_path),
        destination=local_path(params.destination_path),
        recursive=params.recursive,
    )
    await operations_for(connection, params.sandbox).perform(operation)
    return EMPTY


HANDLERS: HandlerTable = {
    "fs/readFile": read_file,
    "fs/writeFile": write_file,
    "fs/getMetadata": get_metadata,
    "fs/readDirectory": read_directory,
    "fs/canonicalize": canonicalize,
    "fs/walk": walk,
    "fs/createDirectory": create_directory,
    "fs/remove": remove,
    "fs/copy": copy,
    "fs/move": move,
    "fs/chmod": chmod,
}
