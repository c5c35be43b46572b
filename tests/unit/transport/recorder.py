"""A receiver that writes down what happens to it, and a factory that keeps them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from paddock.transport.link import Link, Received

# Generous: only a test that would fail anyway waits that long.
PATIENCE_S = 20.0


class Recorder:
    """Remembers messages and events; a test awaits what it expects with `until`."""

    def __init__(self, link: Link) -> None:
        """Start with nothing seen."""
        self.link = link
        self.messages: list[bytes] = []
        self.events: list[str] = []
        self.error: Exception | None = None
        self.is_closed = False
        self.on_message: Callable[[bytes], None] | None = None
        self._changed = asyncio.Event()

    def message_received(self, message: Received) -> None:
        """Note the message, then let the test react to it."""
        assert not self.is_closed, "a message came after link_closed"
        self.messages.append(bytes(message))
        self._changed.set()
        if self.on_message is not None:
            self.on_message(self.messages[-1])

    def writing_paused(self) -> None:
        """Note it."""
        self.events.append("paused")
        self._changed.set()

    def writing_resumed(self) -> None:
        """Note it."""
        self.events.append("resumed")
        self._changed.set()

    def link_closed(self, error: Exception | None) -> None:
        """Note it, once."""
        assert not self.is_closed, "link_closed came twice"
        self.is_closed = True
        self.error = error
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something noted here makes the condition true."""
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def received(self, count: int) -> list[bytes]:
        """Wait for that many messages and give them."""
        await self.until(lambda: len(self.messages) >= count)
        return self.messages

    async def ended(self) -> Exception | None:
        """Wait for the end of the link and give its reason."""
        await self.until(lambda: self.is_closed)
        return self.error


class Acceptor:
    """Accepts links with recorders, in order of arrival."""

    def __init__(self) -> None:
        """Start with nobody."""
        self.recorders: list[Recorder] = []
        self._arrived = asyncio.Event()

    def __call__(self, link: Link) -> Recorder:
        """Make the recorder of a new link."""
        recorder = Recorder(link)
        self.recorders.append(recorder)
        self._arrived.set()
        return recorder

    async def arrived(self, index: int = 0) -> Recorder:
        """Wait for the link that arrives as number `index`."""
        async with asyncio.timeout(PATIENCE_S):
            while len(self.recorders) <= index:
                self._arrived.clear()
                await self._arrived.wait()
        return self.recorders[index]

    async def aclose(self) -> None:
        """Drop every link and wait until it is gone."""
        for recorder in self.recorders:
            if not recorder.is_closed:
                recorder.link.abort()
                await recorder.ended()
