"""Replacing parts of a file by their text, all or none.

Works on bytes: everything else stays as it is, including line endings and bytes that are not UTF-8. The new
version replaces the old one as a whole.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from itertools import islice

from paddock.errors import InvalidRequest
from paddock.fs.answer import Edited
from paddock.fs.content import open_to_read, read_fully, write_all
from paddock.fs.diff import PIECE_BYTES, unified_diff
from paddock.fs.failure import map_os_error
from paddock.fs.operation import Edit, TextEdit
from paddock.fs.replacement import Replacement

SURPLUS_COUNTED = 100
"""Limit of surplus occurrences to count: a large file may hold millions, for each edit."""

REPLACED_TEXTS = 500_000
"""Limit of the occurrences that the edits of one operation replace: about a second."""

SEARCHED_BYTES = 512 * 1024 * 1024
"""Limit of the content that the edits of one operation search, each the whole file: some seconds."""

ATTEMPTS = 16
"""How often to try. A try fails if somebody else has changed the file since it was read. Of edits at the same
time one succeeds each time, and hardly anybody makes more of them than this in one file."""

ATTEMPTS_S = 5.0
"""Time after which not to try again: nobody keeps a thread busy by changing a file again and again."""


def edit(operation: Edit) -> Edited:
    """Make all of the edits, or raise RequestError and change nothing.

    Edits of one file at the same time are made one after the other, and none is lost.
    """
    path = operation.path
    until = time.monotonic() + ATTEMPTS_S
    try:
        for number in range(ATTEMPTS):
            if number and time.monotonic() >= until:
                break
            if (versions := _attempt(operation)) is not None:
                return Edited(diff=unified_diff(path.decode("utf-8", "replace"), *versions))
    except OSError as error:
        raise map_os_error(error, "edit", path) from error
    raise InvalidRequest(
        f"{os.fsdecode(path)!r} has changed in the meantime, again and again, so nothing was written; "
        "try again when it is left alone"
    )


def _attempt(operation: Edit) -> tuple[bytes, bytes] | None:
    """Return the old and the new content; None if somebody else has changed the file in the meantime."""
    path = operation.path
    # Open until the end: the kernel gives its number to no other file.
    descriptor = open_to_read(path, follow=operation.follow)
    try:
        status = os.fstat(descriptor)
        old = read_fully(descriptor, operation.max_bytes + 1, 0)
        _refuse_large(path, len(old), operation.max_bytes)
        new = apply(old, operation.edits, operation.max_bytes)
        if new == old:
            return old, new
        replacement = Replacement(path, follow=operation.follow)

        def is_unchanged() -> bool:
            # Ask about the file that will be replaced: its path could lead to another one by now.
            now = replacement.status()
            if now is None or _version(now) != _version(status):
                return False
            # A write within one tick of the kernel's clock leaves the time of the last one.
            return read_fully(descriptor, len(old) + 1, 0) == old

        try:
            write_all(replacement.descriptor, new)
        except BaseException:
            replacement.discard()
            raise
        return (old, new) if replacement.publish_if(is_unchanged) else None
    finally:
        os.close(descriptor)


def apply(data: bytes, edits: Sequence[TextEdit], max_bytes: int) -> bytes:
    """Make the edits one after the other. Raises InvalidRequest that names the first that does not match, for
    which there is too much to do, or after which the text is too large.

    There may be millions of occurrences: none is remembered, and the result is not made if it is too large.
    """
    replaced = searched = 0
    for number, wanted in enumerate(edits, 1):
        replaced += wanted.count
        searched += len(data)
        _refuse_long(number, replaced, searched)
        _check_occurrences(data, wanted, number)
        size_bytes = len(data) + wanted.count * (len(wanted.new) - len(wanted.old))
        if size_bytes > max_bytes:
            raise InvalidRequest(
                f"edit {number}: the file would become too large to edit: limit is {max_bytes} bytes"
            )
        data = _replaced(data, wanted)
    return data


def _refuse_long(number: int, replaced: int, searched: int) -> None:
    if replaced > REPLACED_TEXTS:
        raise InvalidRequest(
            f"edit {number}: the edits up to this one replace {replaced} texts, and one request may replace "
            f"{REPLACED_TEXTS}; nothing was changed; use a command for so many"
        )
    if searched > SEARCHED_BYTES:
        raise InvalidRequest(
            f"edit {number}: the edits up to this one search {searched} bytes, and one request may search "
            f"{SEARCHED_BYTES}; nothing was changed; send fewer edits at once"
        )


def _check_occurrences(data: bytes, wanted: TextEdit, number: int) -> None:
    enough = wanted.count + SURPLUS_COUNTED
    found, free_from, overlaps = 0, 0, False
    for position in islice(_occurrences(data, wanted.old), enough):
        found += 1
        overlaps = overlaps or position < free_from
        free_from = position + len(wanted.old)
    if found != wanted.count:
        occurs = f"at least {_times(enough)}" if found == enough else _times(found)
        raise InvalidRequest(
            f"edit {number}: its old text occurs {occurs} and must occur {_times(wanted.count)}; "
            f"nothing was changed{_hint(data, wanted, found)}"
        )
    if overlaps:
        raise InvalidRequest(
            f"edit {number}: the occurrences of its old text overlap; nothing was changed; "
            "give more of the text around them"
        )


def _replaced(data: bytes, wanted: TextEdit) -> bytes:
    made, kept_from = bytearray(), 0
    for position in _occurrences(data, wanted.old):
        made += memoryview(data)[kept_from:position]
        made += wanted.new
        kept_from = position + len(wanted.old)
    made += memoryview(data)[kept_from:]
    return bytes(made)


def _occurrences(data: bytes, text: bytes) -> Iterator[int]:
    """Yield where a text occurs, overlaps included: the caller could mean any of them."""
    # The interpreter serves no other thread during a search. A long text is searched for in long pieces,
    # because each search looks at all of it first.
    piece_bytes = max(PIECE_BYTES, len(text))
    for start in range(0, len(data), piece_bytes):
        end = start + piece_bytes + len(text) - 1
        position = data.find(text, start, end)
        while position >= 0:
            yield position
            position = data.find(text, position + 1, end)


def _hint(data: bytes, wanted: TextEdit, found: int) -> str:
    if found > wanted.count:
        return "; give more of the text around it, or another count"
    if b"\n" in wanted.old and b"\r\n" not in wanted.old and b"\r\n" in data:
        return "; the lines of the file end with CR LF"
    return "; read the file again"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _refuse_large(path: bytes, size_bytes: int, limit_bytes: int) -> None:
    if size_bytes > limit_bytes:
        raise InvalidRequest(f"{os.fsdecode(path)!r} is too large to edit: limit is {limit_bytes} bytes")


def _version(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
