"""Recognises errors from a momentary shortage of the host, which say nothing about the file in question.

Reading "too many open files" as "there is no such file" would leave out paths that must be denied, and
reading it as "somebody has changed it" would blame the wrong party.
"""

from __future__ import annotations

import errno

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

_SHORT: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOMEM))


def raise_if_short(error: OSError) -> None:
    """Raise the error itself if it is a shortage, for a caller that handles every other error."""
    if error.errno in _SHORT:
        raise error
