"""`fs/watchMissing`, `fs/watch` and `fs/unwatch`."""

from __future__ import annotations

from functools import partial

from paddock.protocol.call import Call
from paddock.protocol.structure import Empty
from paddock.protocol.watch import (
    UnwatchParams,
    WatchMissingParams,
    WatchMissingResult,
    WatchParams,
    WatchResult,
)
from paddock.server.connection import ClientConnection, HandlerTable
from paddock.server.dispatch import Then
from paddock.server.handlers.file_operations import local_path, read_filter_for, real_path_for

EMPTY = Empty()


async def watch(connection: ClientConnection, call: Call[WatchParams]) -> Then:
    """Begin to report changes; the first notification follows the answer."""
    params = call.params
    path, watches = local_path(params.path), connection.watches
    real = await real_path_for(connection, params.sandbox, path)
    read_filter = await read_filter_for(connection, params.sandbox)
    watch_id = await watches.watch(
        params.path, path, is_recursive=params.recursive, read_filter=read_filter, real=real
    )
    return Then(WatchResult(watch_id=watch_id), partial(watches.announce, watch_id))


def unwatch(connection: ClientConnection, call: Call[UnwatchParams]) -> Empty:
    """End a watch."""
    params = call.params
    connection.watches.unwatch(params.watch_id)
    return EMPTY


async def watch_missing(connection: ClientConnection, call: Call[WatchMissingParams]) -> WatchMissingResult:
    """Wait for paths to appear. A path that is not of this host never does."""
    params = call.params
    read_filter = await read_filter_for(connection, params.sandbox)
    paths = [*params.missing, *([params.present] if params.present is not None else [])]
    if any(path.is_foreign for path in paths):
        return WatchMissingResult(watching=False)
    missing = [local_path(path) for path in params.missing]
    present = local_path(params.present) if params.present is not None else None
    is_watching = await connection.watches.watch_missing(params.watch_id, missing, present, read_filter)
    return WatchMissingResult(watching=is_watching)


HANDLERS: HandlerTable = {
    "fs/watch": watch,
    "fs/unwatch": unwatch,
    "fs/watchMissing": watch_missing,
}
