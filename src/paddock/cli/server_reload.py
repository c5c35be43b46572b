"""Makes a running server read its settings, tokens and certificates again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from paddock.cli.service_manager import ServiceManager
from paddock.config import Settings, locate
from paddock.errors import ConfigError, PaddockError
from paddock.journal import Journal
from paddock.server import log
from paddock.server.app import Server

if TYPE_CHECKING:
    from paddock.server.http_listener import HttpListener

journal = Journal(logging.getLogger(__name__))


class Reloader:
    """Reloads one server, and the `listener` to it if it listens by another protocol.

    `read` returns the settings as they are now, and blocks; `config` is the file that they come from.
    """

    def __init__(
        self,
        server: Server,
        read: Callable[[], Settings],
        config: Path | None,
        listener: HttpListener | None = None,
    ) -> None:
        self._server = server
        self._read = read
        self._config = config
        self._listener = listener

    async def whenever(self, wanted: asyncio.Event, manager: ServiceManager) -> None:
        """Reload each time that `wanted` is set, and tell the service manager. It ends by being cancelled."""
        while True:
            await wanted.wait()
            wanted.clear()
            manager.reloading()
            try:
                await self._reload()
            except PaddockError as error:
                if isinstance(error, ConfigError) and self._config is not None:
                    locate(error, self._config)
                journal.error("settings not reloaded; the earlier ones stay in force", reason=str(error))
            manager.ready()

    async def _reload(self) -> None:
        await self._server.reload(await asyncio.to_thread(self._read))
        if self._listener is not None:
            await asyncio.to_thread(self._listener.renew, self._server.settings)
        log.set_level(self._server.settings.log_level)
