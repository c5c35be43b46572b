"""The proxy of a command that `paddock sandbox` confines: an event loop in a thread while it runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from paddock.network.wire_server import Serve, WireServer
from paddock.shortage import start_thread

if TYPE_CHECKING:
    from paddock.sandbox.enforce.confined import Confined


class ConfinedNetwork:
    """Serves the ports of the command's loopback. `start` it with the command, `finish` it after its end."""

    def __init__(self, services: Mapping[int, Serve]) -> None:
        self._services = services
        self._loop = asyncio.new_event_loop()
        self._is_over = asyncio.Event()
        self._thread: threading.Thread | None = None

    @property
    def ports(self) -> Sequence[int]:
        """Return what the sandbox has to listen on."""
        return tuple(self._services)

    def start(self, confined: Confined) -> None:
        """Serve, as soon as there are listeners. Raises OSError."""
        thread = threading.Thread(target=self._run, args=(confined,), name="paddock-proxy", daemon=True)
        start_thread(thread)
        self._thread = thread

    def finish(self) -> None:
        """End every connection. Call it before the sandbox is cleared away."""
        if self._thread is not None:
            self._loop.call_soon_threadsafe(self._is_over.set)
            self._thread.join()

    def _run(self, confined: Confined) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve(confined))

    async def _serve(self, confined: Confined) -> None:
        server = WireServer()
        way_out = confined.listener_file
        assert way_out is not None
        # They come out one by one, in the order of the ports.
        waiting = list(self._services.values())
        begun: set[asyncio.Task[None]] = set()

        def take() -> None:
            listeners = confined.listeners()
            for listener in listeners:
                begun.add(self._loop.create_task(server.listen(listener, waiting.pop(0))))
            if not listeners:
                # It is at its end.
                self._loop.remove_reader(way_out)

        self._loop.add_reader(way_out, take)
        try:
            await self._is_over.wait()
        finally:
            self._loop.remove_reader(way_out)
            await asyncio.gather(*begun)
            await server.aclose()
