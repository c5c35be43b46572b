"""Set-user-ID and set-group-ID bits of files that get new content.

The kernel clears them when a user writes to a file, so that nobody can replace a program that runs with
another user's rights. It keeps them when root writes (CAP_FSETID). Here root writes content of clients and
confined commands, into files that an attacker may have prepared.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

SET_ID: Final = stat.S_ISUID | stat.S_ISGID


def clear_set_id(descriptor: int, status: os.stat_result) -> None:
    """Clear the bits of an open regular file before it is written; `status` is its current status."""
    if status.st_mode & SET_ID and stat.S_ISREG(status.st_mode):
        # If we may not, we are neither its owner nor root, and the kernel clears them at the first write.
        with suppress(PermissionError):
            os.fchmod(descriptor, stat.S_IMODE(status.st_mode) & ~SET_ID)
