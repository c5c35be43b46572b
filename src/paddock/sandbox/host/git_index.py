"""Reads the submodules that a git index names, checked out or not.

`git status` looks for a repository in each of these directories, and obeys what it finds. The index is
protected with the rest of `.git`, unlike `.gitmodules`. A sparse index names a directory instead of all that
is in it, submodules too. The format is in gitformat-index(5). Pure.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import islice
from typing import Final

from msgspec import Struct

SIGNATURE: Final = b"DIRC"
GITLINK: Final = 0o160000
GITLINK_BYTES: Final = GITLINK.to_bytes(4, "big")
SPARSE_DIRECTORY: Final = 0o040000
MODES: Final = frozenset({SPARSE_DIRECTORY, 0o100644, 0o100755, 0o100664, 0o120000, GITLINK})
SPLIT: Final = b"link"
"""The extension that names the file with the rest of the entries."""
SPARSE: Final = b"sdir"
"""The extension that says that there may be sparse directories."""

GITLINKS_LIMIT: Final = 1000
"""Submodules and sparse directories of one repository. Each takes some mounts; the largest that we know has
about 300 submodules."""

NAME_LIMIT_BYTES: Final = 4096
"""Limit for a path (PATH_MAX): git could not check out a longer one."""

NAMES_LIMIT_BYTES: Final = 256 * 1024
"""Limit for the names of all of these together, which are kept in memory."""

_HEADER: Final = struct.Struct(">4sII")
_EXTENSION: Final = struct.Struct(">4sI")
_BITMAP: Final = struct.Struct(">II")
_BITMAP_WORD: Final = struct.Struct(">Q")
_BITMAP_END_BYTES: Final = 4
_MODE_OFFSET: Final = 24
_HASH_OFFSET: Final = 40
_HASHES_BYTES: Final = (20, 32)
_EXTENDED: Final = 0x4000
"""In the flags: there are more."""
_LENGTH: Final = 0x0FFF
"""In the flags: how long the name is; all of these bits for one that is longer."""


class Index(Struct, frozen=True):
    """What an index says about submodules."""

    gitlinks: tuple[bytes, ...] = ()
    """Also those with skip-worktree: git counts them as soon as something is there."""
    sparse_directories: tuple[bytes, ...] = ()
    """Directories whose content only their tree tells. Git reads that as soon as something is there."""
    shared: bytes | None = None
    """The name of the file that has the other entries, in the same directory."""
    places: tuple[int, ...] = ()
    """The places of the submodules among all entries."""
    replaced: tuple[int, ...] = ()
    """The places in the shared file of entries that a submodule replaces. Their names are only there."""


class UnreadableIndex(Exception):
    """The index is damaged, of an unknown version, or beyond the limits. The text says which."""


class _Malformed(Exception):
    """The data is not an index, or one with hashes of another length."""


def can_name_submodules(data: bytes) -> bool:
    """Return whether a part of an index may name submodules. Parts must overlap by three bytes."""
    # Most have none, and searching all of it takes less time than reading one entry in a thousand.
    return GITLINK_BYTES in data or SPLIT in data or SPARSE in data


def read_index(data: bytes) -> Index:
    """Return the submodules in an index; none if the data does not begin like one. Raises UnreadableIndex."""
    if not data.startswith(SIGNATURE) or not can_name_submodules(data):
        return Index()
    for hash_bytes in _HASHES_BYTES:
        try:
            return _read(data, hash_bytes)
        except (_Malformed, struct.error, IndexError, ValueError):
            continue
    raise UnreadableIndex("is not an index that Paddock can read")


def _read(data: bytes, hash_bytes: int) -> Index:
    _, version, count = _HEADER.unpack_from(data)
    if version not in (2, 3, 4) or count * (_HASH_OFFSET + hash_bytes) > len(data):
        raise _Malformed
    gitlinks: list[bytes] = []
    sparse_directories: list[bytes] = []
    places: list[int] = []
    nameless = 0
    replacing: list[int] = []
    names_bytes = 0
    name = b""
    start = _HEADER.size
    for place in range(count):
        mode = int.from_bytes(data[start + _MODE_OFFSET : start + _MODE_OFFSET + 4], "big")
        if mode not in MODES:
            raise _Malformed
        position = start + _HASH_OFFSET + hash_bytes
        flags = int.from_bytes(data[position : position + 2], "big")
        position += 4 if flags & _EXTENDED else 2
        dropped, position = _offset(data, position) if version == 4 else (len(name), position)
        end = data.index(b"\0", position)
        if dropped > len(name) or len(name) - dropped + end - position > NAME_LIMIT_BYTES:
            raise _Malformed
        name = name[: len(name) - dropped] + data[position:end]
        # This check finds hashes of another length. An entry without a name replaces one of the shared file.
        if flags & _LENGTH != min(len(name), _LENGTH):
            raise _Malformed
        nameless += not name
        if mode in (GITLINK, SPARSE_DIRECTORY):
            if not name:
                replacing.append(nameless - 1)
            elif mode == GITLINK:
                gitlinks.append(name)
                places.append(place)
            else:
                sparse_directories.append(name)
            names_bytes += len(name)
            found = len(gitlinks) + len(sparse_directories) + len(replacing)
            if found > GITLINKS_LIMIT or names_bytes > NAMES_LIMIT_BYTES:
                raise UnreadableIndex(
                    f"names more than {GITLINKS_LIMIT} submodules and sparse directories, or very long ones"
                )
        start = end + 1 if version == 4 else start + ((end - start + 8) & ~7)
    shared, replaced = _shared(data, start, hash_bytes, replacing)
    return Index(tuple(gitlinks), tuple(sparse_directories), shared, tuple(places), replaced)


def _offset(data: bytes, position: int) -> tuple[int, int]:
    """Return the number at a position, and the position after it."""
    value = data[position] & 0x7F
    while data[position] & 0x80:
        position += 1
        value = ((value + 1) << 7) | (data[position] & 0x7F)
        if value > NAME_LIMIT_BYTES:
            raise _Malformed
    return value, position + 1


def _shared(
    data: bytes, start: int, hash_bytes: int, replacing: list[int]
) -> tuple[bytes | None, tuple[int, ...]]:
    """Return the file that the extensions after the entries name, and the places there that entries replace.

    `replacing` tells which of the entries without a name to look up. The extensions end where the checksum
    begins.
    """
    end = len(data) - hash_bytes
    found = None
    replaced: list[int] = []
    while start < end:
        name, size = _EXTENSION.unpack_from(data, start)
        start += _EXTENSION.size
        if name == SPLIT:
            found = b"sharedindex." + data[start : start + hash_bytes].hex().encode()
            if replacing:
                places = list(islice(_replaced(data, start + hash_bytes), replacing[-1] + 1))
                replaced = [places[number] for number in replacing]
        start += size
    if start != end or len(replaced) != len(replacing):
        raise _Malformed
    return found, tuple(replaced)


def _replaced(data: bytes, start: int) -> Iterator[int]:
    """Yield the places in the shared file that are replaced: the second of two bitmaps, after the deleted."""
    _, words = _BITMAP.unpack_from(data, start)
    return _set_bits(data, start + _BITMAP.size + words * _BITMAP_WORD.size + _BITMAP_END_BYTES)


def _set_bits(data: bytes, start: int) -> Iterator[int]:
    """Yield the bits that are set in a compressed bitmap (EWAH, gitformat-bitmap(5)).

    In a word that begins a part, bit 0 is the value of the words that follow in the bitmap, the next 32 bits
    are their number, and the rest is the number of words that are written out after it.
    """
    _, words = _BITMAP.unpack_from(data, start)
    start += _BITMAP.size
    end = start + words * _BITMAP_WORD.size
    place = 0
    while start < end:
        (marker,) = _BITMAP_WORD.unpack_from(data, start)
        start += _BITMAP_WORD.size
        run = 64 * (marker >> 1 & 0xFFFFFFFF)
        if marker & 1:
            yield from range(place, place + run)
        place += run
        for _ in range(marker >> 33):
            (word,) = _BITMAP_WORD.unpack_from(data, start)
            start += _BITMAP_WORD.size
            yield from (place + bit for bit in range(64) if word >> bit & 1)
            place += 64
