"""Carries operations out in the calling thread.

Everything here blocks, but waits only for the kernel. Several threads may call `perform` at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from paddock.fs import content, copy, directory, edit, handle, metadata, remove, rename, search, walk
from paddock.fs.answer import Answer
from paddock.fs.handle import HandleTable
from paddock.fs.operation import (
    A,
    Canonicalize,
    ChangeMode,
    Close,
    Copy,
    CreateDirectory,
    Edit,
    GetMetadata,
    Open,
    Operation,
    ReadBlock,
    ReadDirectory,
    Remove,
    Rename,
    Search,
    Walk,
    WriteBlock,
    WriteFile,
)

_ON_PATHS: dict[type[Operation[Any]], Callable[[Any], Answer]] = {
    GetMetadata: metadata.get_metadata,
    Canonicalize: metadata.canonicalize,
    ReadDirectory: directory.read_directory,
    CreateDirectory: directory.create_directory,
    Walk: walk.walk,
    WriteFile: content.write_file,
    Copy: copy.copy,
    Remove: remove.remove,
    Rename: rename.rename,
    ChangeMode: rename.change_mode,
    Edit: edit.edit,
    Search: search.search,
}

_ON_HANDLES: dict[type[Operation[Any]], Callable[[Any, HandleTable], Answer]] = {
    Open: handle.open_file,
    ReadBlock: handle.read_block,
    WriteBlock: handle.write_block,
    Close: handle.close,
}


def perform(operation: Operation[A], handles: HandleTable) -> A:
    """Carry one operation out; open files are kept in `handles`. Raises RequestError."""
    on_path = _ON_PATHS.get(type(operation))
    answer = on_path(operation) if on_path is not None else _ON_HANDLES[type(operation)](operation, handles)
    # The tables map each operation to the function that returns its answer.
    return cast("A", answer)
