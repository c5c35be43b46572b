"""Waits for a log to grow: inotify(7) on its directory."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from paddock.errors import AuditLogError

IN_MODIFY = 0x002
IN_CREATE = 0x100
"""From <sys/inotify.h>."""

EVENTS_BYTES = 64 * 1024
"""What is taken of the queue at once; events only say that it is time to look."""


class Watch:
    """Begin it before the log is read for the first time, and nothing is missed. Raises AuditLogError."""

    def __init__(self, directory: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.inotify_init1(os.O_CLOEXEC)
        is_watching = self._fd >= 0 and (
            libc.inotify_add_watch(self._fd, os.fsencode(directory), IN_MODIFY | IN_CREATE) >= 0
        )
        if not is_watching:
            reason = os.strerror(ctypes.get_errno())
            self.close()
            raise AuditLogError(str(directory), f"can't be watched: {reason}")

    def wait(self) -> None:
        """Return when something was written since the last call."""
        os.read(self._fd, EVENTS_BYTES)

    def close(self) -> None:
        """Give the descriptor back."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
