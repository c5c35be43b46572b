"""Set-user-ID and set-group-ID bits of files that get new content.

The kernel takes them away when a user writes to a file, so that nobody exchanges a program that acts for
another. It leaves them when root does (CAP_FSETID). Root writes for others here: content of clients and
of confined commands, into files that may be prepared for it.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import Final

SET_ID: Final = stat.S_ISUID | stat.S_ISGID


def clear_set_id(descriptor: int, status: os.stat_result) -> None:
    """Take the bits from an open regular file that is about to be written; `status` is that of now."""
    if status.st_mode & SET_ID and stat.S_ISREG(status.st_mode):
        # Who may not is neither its owner nor root; then the kernel does it with the first write.
        with suppress(PermissionError):
            os.fchmod(descriptor, stat.S_IMODE(status.st_mode) & ~SET_ID)
