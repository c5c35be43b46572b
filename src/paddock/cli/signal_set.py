"""The signals that the command line does something about."""

from __future__ import annotations

import signal
from collections.abc import Iterable
from typing import Final

STOPPING_SERVER: Final = (signal.SIGTERM, signal.SIGINT)

LEAVING: Final = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)
"""Those by which people, terminals and supervisors end a program."""

PASSED_ON: Final = LEAVING
"""To a process on a server."""


def not_ignored(numbers: Iterable[signal.Signals]) -> list[signal.Signals]:
    """Return those to catch: a caller that starts us with a signal ignored, as nohup(1) does, wants it
    ignored."""
    return [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
