"""The paths that a patch changes. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

from paddock.agent.patch import AddFile, Change, DeleteFile, UpdateFile


def absolute_path(base: str, path: str) -> str:
    """Return the path that a patch means, which is below a directory or absolute."""
    return posixpath.normpath(posixpath.join(base, path))


def changed_paths(changes: Iterable[Change], base: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the paths that get a content, and those that are only removed."""
    written: dict[str, None] = {}
    removed: dict[str, None] = {}
    for change in changes:
        path = absolute_path(base, change.path)
        match change:
            case AddFile() | UpdateFile(target=None):
                written[path] = None
            case DeleteFile():
                removed[path] = None
            case UpdateFile(target=str(target)):
                removed[path] = None
                written[absolute_path(base, target)] = None
    return tuple(written), tuple(path for path in removed if path not in written)
