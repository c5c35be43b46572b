"""Talks to a program in a sandbox that keeps running between the calls of a model.

A `Conversation` reads all the time, so that the program never blocks, and keeps the beginning and the end of
output that nobody has taken yet. It does not know the language of the conversation.
"""

from __future__ import annotations

import asyncio
import re
from typing import Final

from paddock.client.event_sequence import Gap
from paddock.client.process import Process
from paddock.errors import PaddockError

LIMIT_BYTES: Final = 1 << 20
"""The most untaken output to keep: half from the beginning, half from the end."""


class ConversationOver(Exception):
    """The program has ended, or its fate is unknown."""


class Conversation:
    """Talks to one process. Call `end`: nothing else ends the process."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self._said = bytearray()
        self._omitted_bytes = 0
        self._news = asyncio.Event()
        self._is_over = False
        self._listening = asyncio.create_task(self._listen())

    @property
    def is_over(self) -> bool:
        """Return whether no more output will arrive."""
        return self._is_over

    async def tell(self, text: str) -> None:
        """Write to the program. Raises the errors that `Process.write` raises."""
        await self.process.write(text.encode("utf-8", "surrogateescape"))

    async def answer(self, pattern: re.Pattern[bytes], timeout_s: float | None = None) -> re.Match[bytes]:
        """Wait until the output matches the pattern; take all up to the end of the match.

        The match's string is everything that was taken. Raises TimeoutError, and ConversationOver if the
        program ends first; in both cases this takes nothing.
        """
        async with asyncio.timeout(timeout_s):
            while (found := pattern.search(self._said)) is None:
                if self._is_over:
                    raise ConversationOver
                self._news.clear()
                await self._news.wait()
        rest = self._said[found.end() :]
        # Again, for the match must not hold on to what is changed below.
        found = pattern.search(bytes(self._said[: found.end()]))
        assert found is not None
        self._said[:] = rest
        return found

    def take(self, match: re.Match[bytes] | None = None) -> bytes:
        """Return the output before a match, or all untaken output, with a note about what is missing."""
        if match is None:
            said, self._said = bytes(self._said), bytearray()
        else:
            said = match.string[: match.start()]
        omitted, self._omitted_bytes = self._omitted_bytes, 0
        if not omitted:
            return said
        note = f"\n[… {omitted} bytes are left out …]\n".encode()
        return said[: LIMIT_BYTES // 2] + note + said[LIMIT_BYTES // 2 :]

    async def end(self) -> None:
        """Kill the program with everything that it has started, and wait for its end. Idempotent."""
        self.process.kill_now()
        self._listening.cancel()
        await asyncio.gather(self._listening, return_exceptions=True)

    async def _listen(self) -> None:
        try:
            async for output in self.process.output(on_gap="yield"):
                if not isinstance(output, Gap):
                    self._keep(output.data)
            await self.process.wait()
        except PaddockError:
            # The process is lost: waiting callers learn that the conversation is over.
            pass
        finally:
            self._is_over = True
            self._news.set()

    def _keep(self, data: bytes) -> None:
        self._said += data
        excess = len(self._said) - LIMIT_BYTES
        if excess > 0:
            del self._said[LIMIT_BYTES // 2 : LIMIT_BYTES // 2 + excess]
            self._omitted_bytes += excess
        self._news.set()
