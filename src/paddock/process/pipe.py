"""Pipes that carry bulk."""

from __future__ import annotations

import contextlib
import fcntl

BULK_PIPE_BYTES = 1024 * 1024
"""The largest pipe an ordinary user may ask for (/proc/sys/fs/pipe-max-size)."""


def widen_pipe(fd: int) -> None:
    """Make a pipe as large as it may be, so that both sides wait for each other less often.

    The kernel refuses (EPERM) if the user's pipes already hold too many pages; the pipe then keeps its size.
    """
    with contextlib.suppress(OSError):
        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, BULK_PIPE_BYTES)
