"""Changes that wait for their notification, one per path. Does no I/O."""

from __future__ import annotations

from itertools import islice

from msgspec import Struct

from paddock.model.change import ChangeKind

MAX_PATHS = 4096
MAX_BYTES = 512 * 1024
"""Limit for the changes that wait for a client; beyond it, only the overflow is remembered."""

TOLD_AT_ONCE = 512
"""Changes per message, which takes about a millisecond to write."""


_MERGED = {
    (ChangeKind.CREATED, ChangeKind.MODIFIED): ChangeKind.CREATED,
    (ChangeKind.MODIFIED, ChangeKind.CREATED): ChangeKind.MODIFIED,
    # The path existed before and exists now; its content may differ.
    (ChangeKind.DELETED, ChangeKind.CREATED): ChangeKind.MODIFIED,
}
"""The sum of two changes to one path; where there is no entry, the later one."""


class Batch(Struct, frozen=True):
    """Changes in the order in which the paths changed first; if `is_overflowed`, there were more."""

    changes: list[tuple[bytes, ChangeKind]]
    is_overflowed: bool


class Changes:
    """The changes that one watch has not reported yet."""

    def __init__(self) -> None:
        self._kinds: dict[bytes, ChangeKind] = {}
        self._bytes = 0
        self._is_overflowed = False

    def __bool__(self) -> bool:
        return bool(self._kinds) or self._is_overflowed

    def add(self, path: bytes, kind: ChangeKind) -> None:
        """Note that a path has changed."""
        earlier = self._kinds.get(path)
        if earlier is not None:
            self._kinds[path] = _MERGED.get((earlier, kind), kind)
        elif len(self._kinds) < MAX_PATHS and self._bytes + len(path) <= MAX_BYTES:
            self._kinds[path] = kind
            self._bytes += len(path)
        else:
            self._is_overflowed = True

    def overflow(self) -> None:
        """Note that something unknown has changed."""
        self._is_overflowed = True

    def take(self) -> Batch:
        """Take the oldest waiting changes, TOLD_AT_ONCE at most."""
        changes = list(islice(self._kinds.items(), TOLD_AT_ONCE))
        for path, _ in changes:
            del self._kinds[path]
            self._bytes -= len(path)
        batch = Batch(changes, self._is_overflowed)
        self._is_overflowed = False
        return batch
