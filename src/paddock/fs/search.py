"""Finding files by what is in them, or by their names.

Directories are entered in the order of their names' bytes, links are not followed, and what begins
with a dot is left out unless it is asked for; ignore files mean nothing. A file with a NUL in its first
8 KiB is binary, and left out, as is one over the size limit. ripgrep is used where there is one, and
gives the same answers (see `ripgrep`).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator

from paddock.errors import InvalidRequest
from paddock.fs.answer import Found, Match
from paddock.fs.failure import map_os_error
from paddock.fs.gathering import BINARY_PROBE_BYTES, OPEN_FLAGS, Gathering
from paddock.fs.operation import Search, SearchKind
from paddock.fs.pattern import compile_pattern
from paddock.fs.ripgrep import find_ripgrep, search_with


def search(operation: Search) -> Found:
    """Find what is asked for. Raises RequestError when it makes no sense, or the root can't be read."""
    try:
        pattern = compile_pattern(
            operation.pattern,
            is_regex=operation.is_regex,
            is_case_sensitive=operation.is_case_sensitive,
        )
    except (ValueError, re.error) as error:
        raise InvalidRequest(f"the pattern {operation.pattern!r} can't be searched for: {error}") from error
    root = operation.path.rstrip(b"/") or b"/"
    try:
        # To be a directory and to be readable: everything below may fail without failing the search.
        os.listdir(root)
    except OSError as error:
        raise map_os_error(error, "search", root) from error
    gathering = Gathering(operation)
    program = find_ripgrep(root) if operation.kind is SearchKind.CONTENT and operation.use_ripgrep else None
    if program is not None:
        search_with(program, operation, root, gathering)
    else:
        _search_here(root, pattern, operation, gathering)
    return gathering.found()


def _search_here(root: bytes, pattern: re.Pattern[bytes], operation: Search, gathering: Gathering) -> None:
    for path, is_directory in _entries(root, operation, gathering):
        if gathering.is_over:
            return
        if operation.kind is SearchKind.NAME:
            if pattern.search(os.path.basename(path)):
                gathering.add(Match(path=path))
        elif not is_directory:
            try:
                _search_file(path, pattern, operation, gathering)
            except OSError as error:
                gathering.fail(path, error)


def _entries(root: bytes, operation: Search, gathering: Gathering) -> Iterator[tuple[bytes, bool]]:
    """Everything below a directory but links and special files, each directory before what is in it."""
    waiting = [(root, True)]
    while waiting:
        path, is_directory = waiting.pop()
        if path is not root:
            yield path, is_directory
        if not is_directory:
            continue
        try:
            with os.scandir(path) as entries:
                found = [
                    (entry.path, entry.is_dir(follow_symlinks=False))
                    for entry in entries
                    if (operation.is_hidden_included or not entry.name.startswith(b"."))
                    and (entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False))
                ]
        except OSError as error:
            gathering.fail(path, error)
            continue
        waiting += sorted(found, reverse=True)


def _search_file(path: bytes, pattern: re.Pattern[bytes], operation: Search, gathering: Gathering) -> None:
    descriptor = os.open(path, OPEN_FLAGS)
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > operation.max_file_bytes:
            return
        data = file.read(operation.max_file_bytes)
    if b"\0" in data[:BINARY_PROBE_BYTES]:
        return
    for number, line in enumerate(_lines(data), 1):
        match = pattern.search(line)
        if match is not None:
            gathering.add_line(path, number, line, match.start())
        if gathering.is_over:
            return


def _lines(data: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(data):
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        yield data[start:end]
        start = end + 1
