"""Submodules that an index of git names, whether they are there or not.

`git status` looks for a repository in each of these places, and obeys what it finds. The index is
protected with the rest of `.git`, unlike `.gitmodules`. The format is in gitformat-index(5). Pure.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

SIGNATURE: Final = b"DIRC"
GITLINK: Final = 0o160000
GITLINK_BYTES: Final = GITLINK.to_bytes(4, "big")
MODES: Final = frozenset({0o040000, 0o100644, 0o100755, 0o100664, 0o120000, GITLINK})
SPLIT: Final = b"link"
"""The extension that names another file with the rest of the entries."""

_HEADER: Final = struct.Struct(">4sII")
_EXTENSION: Final = struct.Struct(">4sI")
_MODE_OFFSET: Final = 24
_HASH_OFFSET: Final = 40
_HASHES_BYTES: Final = (20, 32)
_EXTENDED: Final = 0x4000
"""In the flags: there are more. In those: the entry is left out of the working tree (skip-worktree)."""


@dataclass(frozen=True, slots=True)
class Index:
    """What an index tells of submodules."""

    gitlinks: tuple[bytes, ...] = ()
    shared: bytes | None = None
    """The name of the file that has the other entries, in the same directory."""


class _Malformed(Exception):
    """It is no index, or one with hashes of another length."""


def read_index(data: bytes) -> Index:
    """Return the submodules in an index. One that git could not read either has none."""
    # Most have none, and to search all of it takes less time than to read one entry in a thousand.
    if not data.startswith(SIGNATURE) or not (GITLINK_BYTES in data or SPLIT in data):
        return Index()
    for hash_bytes in _HASHES_BYTES:
        try:
            return _read(data, hash_bytes)
        except (_Malformed, struct.error, IndexError, ValueError):
            continue
    return Index()


def _read(data: bytes, hash_bytes: int) -> Index:
    _, version, count = _HEADER.unpack_from(data)
    if version not in (2, 3, 4):
        raise _Malformed
    gitlinks = []
    name = b""
    start = _HEADER.size
    for _ in range(count):
        mode = int.from_bytes(data[start + _MODE_OFFSET : start + _MODE_OFFSET + 4], "big")
        if mode not in MODES:
            raise _Malformed
        place = start + _HASH_OFFSET + hash_bytes
        is_extended = bool(int.from_bytes(data[place : place + 2], "big") & _EXTENDED)
        is_left_out = is_extended and bool(int.from_bytes(data[place + 2 : place + 4], "big") & _EXTENDED)
        place += 4 if is_extended else 2
        if version == 4:
            dropped, place = _offset(data, place)
            name = name[: len(name) - dropped]
        else:
            name = b""
        end = data.index(b"\0", place)
        name += data[place:end]
        if mode == GITLINK and not is_left_out:
            gitlinks.append(name)
        start = end + 1 if version == 4 else start + ((end - start + 8) & ~7)
    return Index(tuple(gitlinks), _shared(data, start, hash_bytes))


def _offset(data: bytes, place: int) -> tuple[int, int]:
    """Return the number at a place, and the place behind it."""
    value = data[place] & 0x7F
    while data[place] & 0x80:
        place += 1
        value = ((value + 1) << 7) | (data[place] & 0x7F)
    return value, place + 1


def _shared(data: bytes, start: int, hash_bytes: int) -> bytes | None:
    for name, content in _extensions(data[start : len(data) - hash_bytes]):
        if name == SPLIT:
            return b"sharedindex." + content[:hash_bytes].hex().encode()
    return None


def _extensions(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    start = 0
    while start < len(data):
        name, size = _EXTENSION.unpack_from(data, start)
        start += _EXTENSION.size
        yield name, data[start : start + size]
        start += size
