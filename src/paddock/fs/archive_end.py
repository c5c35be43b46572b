"""Tells the end of a tar archive from damage in it.

For tarfile, an archive also ends at a header that it can't read, or where its data ends. Whoever takes a part
of an archive for all of it loses files and reports success.
"""

from __future__ import annotations

import tarfile
from typing import Self

_AT_END = tarfile.EOFHeaderError  # type: ignore[attr-defined]
_CUT = tarfile.EmptyHeaderError, tarfile.TruncatedHeaderError  # type: ignore[attr-defined]


class WholeEntry(tarfile.TarInfo):
    """An entry whose description is whole. Reading one that is not raises ReadError."""

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> Self:
        """Read a header, and what follows it: attributes, a long name and the like."""
        # Not in `frombuf`, which newer versions of tarfile do not call (CPython issue 141707).
        try:
            return super().fromtarfile(archive)
        except _AT_END:
            raise
        except _CUT as error:
            raise tarfile.ReadError("it ends too early") from error
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(f"the description of an entry is damaged: {error}") from error


def finish_archive(archive: tarfile.TarFile) -> None:
    """Read what follows the last entry of an archive in mode `r|`.

    Raises ReadError unless it is all zeros.
    """
    stream = archive.fileobj
    assert stream is not None
    while data := stream.read(tarfile.RECORDSIZE):
        if data.count(0) != len(data):
            raise tarfile.ReadError("more follows after its end")
