"""Waits for a log to grow."""

from __future__ import annotations

import os
import select
from pathlib import Path
from types import TracebackType
from typing import Self

from paddock.errors import AuditLogError
from paddock.inotify import Inotify, Notice


class Watch:
    """Watches a log for growth. Start it before the first read, to miss nothing. Raises AuditLogError."""

    def __init__(self, directory: Path) -> None:
        try:
            self._inotify = Inotify()
        except OSError as error:
            raise _unwatchable(directory, error) from error
        try:
            self._inotify.add(os.fsencode(directory), Notice.MODIFY | Notice.CREATE, follow=True)
        except OSError as error:
            self._inotify.close()
            raise _unwatchable(directory, error) from error

    def wait(self) -> None:
        """Wait until something has been written since the last call."""
        select.select([self._inotify.descriptor], [], [])
        # A notice only says that it is time to read.
        self._inotify.read()

    def close(self) -> None:
        """Give the descriptor back."""
        self._inotify.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _unwatchable(directory: Path, error: OSError) -> AuditLogError:
    return AuditLogError(str(directory), f"can't be watched: {error.strerror}")
