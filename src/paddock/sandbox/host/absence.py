"""Names the failures that prove a path has nothing to protect; any other failure is a refusal.

Others can cause failures: a lease on a file makes everybody fail to open it for up to 45 seconds
(`F_SETLEASE` in fcntl(2)), and a directory can be made too deep to be named. Paddock must not take that for
"nothing there", or it would leave files unprotected.
"""

from __future__ import annotations

import errno

from paddock.shortage import raise_if_short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

ABSENT: Final = frozenset((errno.ENOENT, errno.ENOTDIR))
"""There is nothing."""

NO_FILE: Final = ABSENT | {errno.ELOOP, errno.ENXIO, errno.ENAMETOOLONG}
"""There is nothing, a link or a socket, or there can't be anything."""

OUT_OF_REACH: Final = ABSENT | {errno.EACCES}
"""There is nothing, or nothing within this user's reach."""


def refuse_unless(expected: frozenset[int], error: OSError, path: str) -> None:
    """Raise ProfileRefused unless a failure is expected; raise the error itself if resources are short."""
    raise_if_short(error)
    if error.errno not in expected:
        from paddock.errors import ProfileRefused

        raise ProfileRefused(
            path, f"can't be looked at: {error.strerror}", "find out who uses it, or try again"
        ) from error
