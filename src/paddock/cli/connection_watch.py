"""Reports at the terminal that a connection is lost or restored."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Final

from paddock.cli.message import line, show
from paddock.cli.signal_set import LEAVING

GIVE_UP_KEYS: Final = (b"\x03", b"\x1c")
"""Ctrl-C and Ctrl-\\, where the terminal is raw."""


class ConnectionWatch:
    """Reports losses at once, and lets the user give up in the meantime. Belongs to one event loop."""

    def __init__(self, verb: str, patience_s: float) -> None:
        self._verb = verb
        self._patience_s = patience_s
        self.is_lost = False
        self.is_raw = False
        """Whether the terminal goes to the first column only when told so."""
        self.is_over: Callable[[], bool] = lambda: False
        """Tells whether everything has arrived, so that nobody needs the connection any more."""
        self.given_up: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def changed(self, is_connected: bool) -> None:
        """Report that the connection is lost or restored."""
        self.is_lost = not is_connected
        if self.is_over():
            # A server that ends says so to its clients, and then closes the connection.
            return
        if is_connected:
            self._tell("connected again")
        else:
            self._tell(f"connection lost, trying again for {self._patience_s:g} s; Ctrl-C gives up")

    def typed(self, data: bytes) -> bool:
        """Take keys while there is no connection to send them by; return whether they were taken."""
        if self.is_lost and any(key in data for key in GIVE_UP_KEYS):
            self._give_up()
        return self.is_lost

    def signalled(self, number: signal.Signals) -> bool:
        """Take a signal that can't be passed on now; return whether it was taken."""
        if self.is_lost and number in LEAVING:
            self._give_up()
            return True
        return False

    def _give_up(self) -> None:
        if not self.given_up.done():
            self.given_up.set_result(None)

    def _tell(self, text: str) -> None:
        start, end = ("\r\n", "\r\n") if self.is_raw else ("", "\n")
        show(f"{start}{line(text, self._verb).rstrip()}{end}")
