"""Making and listing directories."""

from __future__ import annotations

import os
from contextlib import suppress

from paddock.errors import OperationFailed
from paddock.fs import resolve
from paddock.fs.answer import DirectoryEntry, Done, Listing
from paddock.fs.failure import map_os_error
from paddock.fs.operation import CreateDirectory, ReadDirectory

_STEP = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def create_directory(operation: CreateDirectory) -> Done:
    """Make a directory. If a later step fails, the parents made before stay."""
    path = operation.path
    try:
        if operation.follow:
            make_with_parents(path) if operation.recursive else os.mkdir(path)
        elif operation.recursive:
            _make_by_steps(path)
        else:
            with resolve.parent_of(path) as entry:
                os.mkdir(entry.name, dir_fd=entry.directory)
    except OSError as error:
        raise map_os_error(error, "make directory", path) from error
    return Done()


def make_with_parents(path: bytes) -> None:
    """Make what is missing of an absolute path, and accept a directory that exists. Raises OSError.

    Follows links. A path may have more names than the interpreter allows calls within calls, which is what
    `os.makedirs` does.
    """
    missing = []
    above = _parent(path)
    while not os.path.exists(above):
        missing.append(above)
        above = _parent(above)
    for each in reversed(missing):
        # Somebody else has made it meanwhile, or its name is `.` or `..`.
        with suppress(FileExistsError):
            os.mkdir(each)
    try:
        os.mkdir(path)
    except OSError:
        if not os.path.isdir(path):
            raise


def _parent(path: bytes) -> bytes:
    return os.path.dirname(path.rstrip(b"/")) or b"/"


def _make_by_steps(path: bytes) -> None:
    """Make what is missing, name by name, each from an open directory and without following a link."""
    directory = os.open(b"/", _STEP)
    try:
        for name in path.split(b"/"):
            if name in (b"", b"."):
                continue
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=directory)
            deeper = os.open(name, _STEP, dir_fd=directory)
            os.close(directory)
            directory = deeper
    finally:
        os.close(directory)


def read_directory(operation: ReadDirectory) -> Listing:
    """List a directory; a link counts as what it leads to."""
    path = operation.path
    entries: list[DirectoryEntry] = []
    try:
        with os.scandir(path) as found:
            for entry in found:
                if (target := _target(entry)) is not None:
                    entries.append(target)
                elif operation.has_all_links:
                    entries.append(
                        DirectoryEntry(name=entry.name, is_directory=False, is_file=False, is_link=True)
                    )
                if len(entries) > operation.max_entries:
                    raise OperationFailed(
                        f"directory {os.fsdecode(path)!r} has more than {operation.max_entries} entries, "
                        "which is the limit"
                    )
    except OSError as error:
        raise map_os_error(error, "list", path) from error
    return Listing(entries=entries)


def _target(entry: os.DirEntry[bytes]) -> DirectoryEntry | None:
    """Return what an entry is or leads to.

    Returns None for a link that dangles, loops, or leads where this user may not look.
    """
    try:
        is_directory, is_file = entry.is_dir(), entry.is_file()
        if entry.is_symlink() and not (is_directory or is_file):
            # Both methods also return False for what does not exist.
            entry.stat()
    except OSError:
        return None
    return DirectoryEntry(
        name=entry.name, is_directory=is_directory, is_file=is_file, is_link=entry.is_symlink()
    )
