"""Makes the empty file that is mounted on files which must not be read.

Each user has one, in a directory that is hidden from every sandbox.
"""

from __future__ import annotations

import contextlib
import os
import stat

from paddock.errors import SandboxUnavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

NAME: Final = "unreadable"


def unreadable_file(directory: str | os.PathLike[str]) -> str:
    """Make the file if need be, and return its path. The directory must be writable by this user alone."""
    path = os.path.join(directory, NAME)
    try:
        status = _status(path)
    except OSError as error:
        raise SandboxUnavailable(
            f"{path} can't be made: {error.strerror}", "make room, or name another directory"
        ) from error
    if not stat.S_ISREG(status.st_mode) or stat.S_IMODE(status.st_mode) or status.st_size:
        raise SandboxUnavailable(
            f"{path} is no longer an empty file of mode 0000", "remove it, and find out who changed it"
        )
    return path


def _status(path: str) -> os.stat_result:
    """Return the file's status, without following a link; make the file if it is missing."""
    try:
        return os.lstat(path)
    except FileNotFoundError:
        # Another thread may be faster.
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0))
        return os.lstat(path)
