"""A directory tree read as one stream.

The stream is a tar archive of directories, regular files and symbolic links, with modes and times of
modification; owners are not kept, and hard links become files of their own. It is made while it is read,
never follows a link, and keeps at most one piece of a file in memory.
"""

from __future__ import annotations

import os
import stat
import tarfile
from collections.abc import Generator

from paddock.errors import InvalidRequest, OperationFailed
from paddock.fs import resolve

PIECE_BYTES = 256 * 1024
"""How much of a file to hold at once."""

END = bytes(2 * tarfile.BLOCKSIZE)
"""Two blocks of zeros end an archive (pax(1))."""

MODE_BITS = 0o777
"""Without the set-id bits, because the file would get another owner."""

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class TreeReader:
    """The archive of a directory, made while it is read. `close` must follow.

    Raises OSError. If the tree changes meanwhile, the archive has each entry as it was when its turn came. A
    file that shrinks is an error, because its size was already sent.
    """

    def __init__(self, path: bytes) -> None:
        self._path = path
        self._root = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._pieces = self._archive()
        self._rest = b""
        self.offset = 0
        """Number of bytes read so far."""

    def read(self, length: int) -> bytes:
        """Read the next bytes; fewer than requested only at the end. Raises OSError and RequestError."""
        gathered = [self._rest]
        missing = length - len(self._rest)
        while missing > 0 and (piece := next(self._pieces, None)) is not None:
            gathered.append(piece)
            missing -= len(piece)
        data = b"".join(gathered)
        data, self._rest = data[:length], data[length:]
        self.offset += len(data)
        return data

    def close(self) -> None:
        """Close everything that is open in the tree."""
        self._pieces.close()
        os.close(self._root)

    # --- inside -------------------------------------------------------------

    def _archive(self) -> Generator[bytes, None, None]:
        # Depth first, each directory before its entries. Keep only paths: a descriptor per level would exceed
        # the limit in a deep tree.
        waiting = [b"."]
        while waiting:
            relative = waiting.pop()
            directory = resolve.open_beneath(self._root, relative)
            try:
                yield self._header(relative, os.fstat(directory))
                names = sorted(map(os.fsencode, os.listdir(directory)))
                subdirectories = []
                for name in names:
                    path = os.path.join(relative, name)
                    status = os.stat(name, dir_fd=directory, follow_symlinks=False)
                    if stat.S_ISDIR(status.st_mode):
                        subdirectories.append(path)
                    elif stat.S_ISLNK(status.st_mode):
                        yield self._header(path, status, os.readlink(name, dir_fd=directory))
                    elif stat.S_ISREG(status.st_mode):
                        yield from self._file(path, name, directory)
                    else:
                        raise InvalidRequest(
                            f"{self._shown(path)} is neither a file, a directory nor a symbolic link, "
                            "and can't be transferred; remove it, or transfer the rest without it"
                        )
                waiting.extend(reversed(subdirectories))
            finally:
                os.close(directory)
        yield END

    def _file(self, path: bytes, name: bytes, directory: int) -> Generator[bytes, None, None]:
        descriptor = os.open(name, _READ, dir_fd=directory)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise OperationFailed(f"{self._shown(path)} was replaced while it was being read; try again")
            yield self._header(path, status)
            missing = status.st_size
            while missing:
                piece = os.read(descriptor, min(missing, PIECE_BYTES))
                if not piece:
                    raise OperationFailed(f"{self._shown(path)} shrank while it was being read; try again")
                missing -= len(piece)
                yield piece
            yield bytes(-status.st_size % tarfile.BLOCKSIZE)
        finally:
            os.close(descriptor)

    def _header(self, path: bytes, status: os.stat_result, target: bytes | None = None) -> bytes:
        entry = tarfile.TarInfo(os.fsdecode(os.path.normpath(path)))
        entry.mode = status.st_mode & MODE_BITS
        entry.mtime = int(status.st_mtime)
        if target is not None:
            entry.type, entry.linkname = tarfile.SYMTYPE, os.fsdecode(target)
        elif stat.S_ISDIR(status.st_mode):
            entry.type = tarfile.DIRTYPE
        else:
            entry.size = status.st_size
        return entry.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")

    def _shown(self, path: bytes) -> str:
        return repr(os.fsdecode(os.path.normpath(os.path.join(self._path, path))))
