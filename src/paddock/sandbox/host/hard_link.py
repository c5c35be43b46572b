"""Finds denied files with several names, which could be read under another.

Neither a directory nor its change time tells whether a file has another name, so each command looks at the
denied files again.
"""

from __future__ import annotations

import os
from collections import deque
from itertools import islice

from paddock.sandbox.host.absence import NO_FILE, OUT_OF_REACH, refuse_unless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Final

LOOKED_AT_LIMIT: Final = 1000
"""Entries of denied directories to look at, those near the top first: a few milliseconds for each command.
Directories of secrets hold fewer; a denied home directory holds millions."""

_UNSEEN: Final = NO_FILE | OUT_OF_REACH

FileId = tuple[int, int]
"""Device and inode."""


def files_with_several_names(denied: Iterable[str], granted: frozenset[str]) -> frozenset[FileId]:
    """Return those of the denied files, and of the files in denied directories, that have other names.

    Does not enter what is `granted` below a denied directory. All paths are resolved. Raises ProfileRefused
    if one exists within reach but can't be examined.
    """
    files: set[FileId] = set()
    directories = []
    for path in denied:
        if os.path.isdir(path):
            directories.append(path)
        else:
            try:
                _add(files, os.stat(path, follow_symlinks=False))
            except OSError as error:
                refuse_unless(_UNSEEN, error, path)
    for entry in islice(_entries_below(directories, granted), LOOKED_AT_LIMIT):
        try:
            if entry.is_file(follow_symlinks=False):
                _add(files, entry.stat(follow_symlinks=False))
        except OSError as error:
            refuse_unless(_UNSEEN, error, entry.path)
    return frozenset(files)


def file_id(path: str) -> FileId | None:
    """Return the identity of a file, without following links; None if there is no file.

    Raises ProfileRefused if that can't be told.
    """
    try:
        status = os.stat(path, follow_symlinks=False)
    except OSError as error:
        refuse_unless(OUT_OF_REACH, error, path)
        return None
    return status.st_dev, status.st_ino


def _add(files: set[FileId], status: os.stat_result) -> None:
    if status.st_nlink > 1:
        files.add((status.st_dev, status.st_ino))


def _entries_below(directories: Iterable[str], skipped: frozenset[str]) -> Iterator[os.DirEntry[str]]:
    waiting = deque(directories)
    while waiting:
        directory = waiting.popleft()
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    if entry.path not in skipped:
                        yield entry
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(entry.path)
        except OSError as error:
            # The directory is gone again, or can't be read.
            refuse_unless(_UNSEEN, error, directory)
