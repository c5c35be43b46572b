"""Tells what SIGHUP means to a server: the end of its terminal, or a request to read its settings again.

The kernel sends SIGHUP when a terminal goes, and people send it to a daemon to have it reload. The server
tells the two apart by whether the terminal that it was started on is still there.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Final

LEADER_END_S: Final = 0.5
"""When to look again. If the leader of a session ends, the kernel sends the signal first and takes the
terminal away afterwards (disassociate_ctty in drivers/tty/tty_jobctrl.c)."""


def has_terminal() -> bool:
    """Return whether this process has a controlling terminal."""
    # The program's name, in parentheses, may hold spaces. The terminal is the fifth field after it (proc(5)).
    fields = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    return fields[4] != "0"


class Hangup:
    """Calls `stop` or `reload` for each SIGHUP.

    A server whose starter ignores the signal, as nohup(1) does, is to outlive its terminal: it only reloads.
    """

    def __init__(self, stop: Callable[[], None], reload: Callable[[], None]) -> None:
        self._stop = stop
        self._reload = reload
        is_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        self._follows_terminal = not is_ignored and has_terminal()

    def received(self) -> None:
        """Decide what one signal means."""
        if self._is_terminal_gone():
            self._stop()
            return
        self._reload()
        if self._follows_terminal:
            asyncio.get_running_loop().call_later(LEADER_END_S, self._look_again)

    def _look_again(self) -> None:
        if self._is_terminal_gone():
            self._stop()

    def _is_terminal_gone(self) -> bool:
        return self._follows_terminal and not has_terminal()
