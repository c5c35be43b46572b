"""Tells when the host is short of something for the moment, which says nothing about the file asked for.

To take "too many open files" for "there is no such file" would leave out what must be denied, and to take it
for "somebody has changed it" would blame the wrong one.
"""

from __future__ import annotations

import errno
from typing import Final

_SHORT: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOMEM))


def raise_if_short(error: OSError) -> None:
    """Raise the error itself if it is only that: for whoever handles every other one."""
    if error.errno in _SHORT:
        raise error
