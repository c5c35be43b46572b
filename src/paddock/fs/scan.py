"""Searching with Python's own engine, in this thread.

The engine may take any time for a pattern and a line, and no other thread runs meanwhile. `search` decides
where that may happen.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator

from paddock.errors import InvalidRequest
from paddock.fs.answer import Found, Match
from paddock.fs.match_collector import BINARY_PROBE_BYTES, OPEN_FLAGS, MatchCollector
from paddock.fs.operation import Search, SearchKind
from paddock.fs.pattern import compile_pattern


def scan(operation: Search) -> Found:
    """Search everything below a directory. Raises InvalidRequest for an invalid pattern."""
    pattern = compile_wanted(operation)
    collector = MatchCollector(operation)
    for path, is_directory in _entries(root_of(operation), operation, collector):
        if collector.is_over:
            break
        if operation.kind is SearchKind.NAME:
            if pattern.search(os.path.basename(path)):
                collector.add(Match(path=path))
        elif not is_directory:
            try:
                _scan_file(path, pattern, operation, collector)
            except OSError as error:
                collector.fail(path, error)
    return collector.found()


def root_of(operation: Search) -> bytes:
    """Return the directory, without slashes at its end."""
    return operation.path.rstrip(b"/") or b"/"


def compile_wanted(operation: Search) -> re.Pattern[bytes]:
    """Compile the pattern of a search. Raises InvalidRequest if it is invalid."""
    try:
        return compile_pattern(
            operation.pattern,
            is_regex=operation.is_regex,
            is_case_sensitive=operation.is_case_sensitive,
        )
    except (ValueError, re.error) as error:
        raise InvalidRequest(f"the pattern {operation.pattern!r} can't be searched for: {error}") from error


def _entries(root: bytes, operation: Search, collector: MatchCollector) -> Iterator[tuple[bytes, bool]]:
    """Yield all directories and regular files below a directory, each directory before its content."""
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
            collector.fail(path, error)
            continue
        waiting += sorted(found, reverse=True)


def _scan_file(path: bytes, pattern: re.Pattern[bytes], operation: Search, collector: MatchCollector) -> None:
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
            collector.add_line(path, number, line, match.start())
        if collector.is_over:
            return


def _lines(data: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(data):
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        yield data[start:end]
        start = end + 1
