"""Raises the descriptor limit of this process while a server runs in it.

The limit belongs to the process, so the servers that run in it share one rise, whatever
their threads: the first raises it and the last puts it back.
"""

from __future__ import annotations

import logging
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from paddock.journal import Journal

journal = Journal(logging.getLogger(__name__))

Limit = tuple[int, int]
"""Soft and hard."""


class DescriptorLimit:
    """RLIMIT_NOFILE of this process, raised while any server needs it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._holders = 0
        self._former: Limit = (0, 0)
        self._raised: Limit = (0, 0)

    @contextmanager
    def raised(self) -> Iterator[Limit]:
        """Allow as many descriptors as possible in the block: each live child needs up to four.

        Yields the earlier limit, which is the one for children. The end of the last such block restores it,
        unless the program has set another one in the meantime.
        """
        with self._lock:
            if self._holders == 0:
                self._raise()
            self._holders += 1
        try:
            yield self._former
        finally:
            with self._lock:
                self._holders -= 1
                if self._holders == 0 and resource.getrlimit(resource.RLIMIT_NOFILE) == self._raised:
                    resource.setrlimit(resource.RLIMIT_NOFILE, self._former)

    def _raise(self) -> None:
        self._former = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._raised = (self._former[1], self._former[1])
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, self._raised)
        except (ValueError, OSError) as error:
            journal.warning("the limit of open files can't be raised", reason=str(error))


DESCRIPTOR_LIMIT = DescriptorLimit()
"""The limit of this process."""
