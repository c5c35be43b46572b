"""Looks at many files again, and says which are not as they were.

Compiled where Python's headers were available: then all looks together take as long as a few in Python. The
other side is native/linkless.c.
"""

from __future__ import annotations

import os
import struct

from paddock.sandbox.host.linkless import Identity, identity_at, identity_without_links, status_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Final

_EXPECTED: Final = struct.Struct("=IiQQ")


# An enumeration would take longer to make than all looks of a command: most processes confine one.
_STATUS, _FAILURE, _NOTHING, _IDENTITY, _IDENTITY_WITHOUT_LINKS = range(5)


class Recheck:
    """What is expected at paths. Add everything before the first `differing`; then any thread may call it."""

    def __init__(self) -> None:
        self._names: list[bytes] = []
        self._all: list[bytes] = []
        self._ready: tuple[tuple[bytes, ...], bytes] | None = None

    def expect_status(self, path: str, mode: int, owner: int) -> None:
        """Expect a file of this mode and owner, which may be a link."""
        self._expect(path, _STATUS, 0, mode, owner)

    def expect_failure(self, path: str, number: int) -> None:
        """Expect that a look fails with this errno."""
        self._expect(path, _FAILURE, number)

    def expect_identity(self, path: str, identity: Identity, *, without_links: bool = False) -> None:
        """Expect what `identity_at` returned, or `identity_without_links`."""
        if identity is None:
            self._expect(path, _NOTHING)
        else:
            self._expect(path, _IDENTITY_WITHOUT_LINKS if without_links else _IDENTITY, 0, *identity)

    def differing(self) -> Sequence[int]:
        """Look at every path, and return the numbers of those at which something else is, in their order.

        Blocks meanwhile. A path that can't be looked at differs.
        """
        if self._ready is None:
            self._ready = tuple(self._names), b"".join(self._all)
        return _differing(*self._ready)

    def _expect(self, path: str, kind: int, number: int = 0, first: int = 0, second: int = 0) -> None:
        self._names.append(os.fsencode(path))
        self._all.append(_EXPECTED.pack(kind, number, first, second))


def _is_as_expected(path: str, kind: int, number: int, first: int, second: int) -> bool:
    if kind == _STATUS:
        found = status_at(path)
        return isinstance(found, tuple) and found[:2] == (first, second)
    if kind == _FAILURE:
        return status_at(path) == number
    if kind == _NOTHING:
        return identity_at(path) is None
    if kind == _IDENTITY:
        return identity_at(path) == (first, second)
    try:
        return identity_without_links(path) == (first, second)
    except OSError:
        return False


def _differing_in_python(paths: tuple[bytes, ...], expected: bytes) -> list[int]:
    looks = zip(paths, _EXPECTED.iter_unpack(expected), strict=True)
    return [
        number for number, (path, what) in enumerate(looks) if not _is_as_expected(os.fsdecode(path), *what)
    ]


_differing: Callable[[tuple[bytes, ...], bytes], list[int]]
try:
    from paddock.sandbox.host import _linkless
except ImportError:
    _differing = _differing_in_python
else:
    _differing = _linkless.differing
