"""Notifies the service manager that started a server, by the protocol of sd_notify(3).

Without NOTIFY_SOCKET there is nobody to tell, and all of this does nothing. The variables are taken out of
the environment: a command that the server starts must not speak in its name.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import MutableMapping
from typing import Final

NOTIFY_SOCKET: Final = "NOTIFY_SOCKET"
WATCHDOG: Final = ("WATCHDOG_USEC", "WATCHDOG_PID")


class ServiceManager:
    """The service manager. Notifying it never blocks and never fails: the service does not depend on it."""

    def __init__(self, environment: MutableMapping[str, str] = os.environ) -> None:
        address = environment.pop(NOTIFY_SOCKET, "")
        usec, pid = (environment.pop(name, "") for name in WATCHDOG)
        is_ours = pid in ("", str(os.getpid()))
        self.watchdog_s = int(usec) / 1e6 if usec.isdigit() and is_ours else None
        """The time within which it wants a sign of life; None if it does not watch."""
        # Also in the abstract namespace, which a leading @ stands for.
        self._address = f"\0{address[1:]}" if address.startswith("@") else address

    def ready(self, url: str | None = None) -> None:
        """Report that the server serves clients: at this URL after the start, as before after a reload."""
        self._tell("READY=1", *(() if url is None else (f"STATUS=Listening on {url}",)))

    def reloading(self) -> None:
        """Report that the server reads its settings again; `ready` must follow."""
        self._tell("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        """Report that the server ends on purpose."""
        self._tell("STOPPING=1")

    async def feed_watchdog(self) -> None:
        """Give signs of life from the loop that serves the clients, until this is cancelled."""
        if self.watchdog_s is None:
            return
        while True:
            self._tell("WATCHDOG=1")
            # Half of the time, as sd_watchdog_enabled(3) recommends.
            await asyncio.sleep(self.watchdog_s / 2)

    def _tell(self, *assignments: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as manager:
                manager.sendto("\n".join(assignments).encode(), self._address)
        except OSError:
            # Its queue is full, or it has ended: there is nobody else to notify.
            return
