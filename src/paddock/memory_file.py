"""Files in memory, by which Paddock hands text to programs of its own: whole, or not at all.

A program can't tell a list of words that was cut off from a shorter one. The kernel cuts off what is written
beyond the limit on the size of files (RLIMIT_FSIZE, which a caller of Paddock may have set), and says so only
by the count that write(2) returns.
"""

from __future__ import annotations

import errno
import fcntl
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

SEALS: Final = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
"""Nobody who has the descriptor can change the file (memfd_create(2))."""


def memory_file(name: str, content: bytes) -> int:
    """Return the descriptor of a new file with this content, positioned at its beginning and closed on exec.

    Nobody can change the file any more. Raises OSError, which names the limit if that is too low.
    """
    file = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        _write(file, content)
        os.lseek(file, 0, os.SEEK_SET)
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, SEALS)
    except BaseException:
        os.close(file)
        raise
    return file


def _write(file: int, content: bytes) -> None:
    view = memoryview(content)
    try:
        # Beyond the limit, a write fails: Python ignores the signal that would end the process (SIGXFSZ).
        while view:
            view = view[os.write(file, view) :]
    except OSError as error:
        if error.errno != errno.EFBIG:
            raise
        raise OSError(
            errno.EFBIG,
            f"the limit on the size of files (ulimit -f) is too low: {len(content)} bytes have to pass",
        ) from error
