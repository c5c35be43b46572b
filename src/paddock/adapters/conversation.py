"""Talks to a program in a sandbox that keeps running between the calls of a model.

A `Conversation` reads all the time, so that the program never blocks, and keeps the beginning and the end of
output that nobody has taken yet. It does not know the language of the conversation.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Final

from paddock.adapters.pattern_search import Sought, Span, find_apart
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
                await self._more()
        rest = self._said[found.end() :]
        # Again, for the match must not hold on to what is changed below.
        found = pattern.search(bytes(self._said[: found.end()]))
        assert found is not None
        self._said[:] = rest
        return found

    async def answer_to(
        self, patterns: Sequence[bytes], timeout_s: float | None = None
    ) -> tuple[Span, bytes]:
        """Do what `answer` does for the expressions of a caller, which may take any time to search for.

        Returns where the first match is in what was taken, and that. Raises OperationFailed as well, if an
        expression means nothing or a search takes too long.
        """
        async with asyncio.timeout(timeout_s):
            while True:
                said, omitted = bytes(self._said), self._omitted_bytes
                self._news.clear()
                found = await find_apart(Sought(tuple(patterns), said))
                # What came meanwhile may have taken the place of the middle.
                if found is not None and (omitted == self._omitted_bytes or found.end <= LIMIT_BYTES // 2):
                    del self._said[: found.end]
                    return found, said[: found.end]
                if found is None and len(self._said) == len(said) and omitted == self._omitted_bytes:
                    await self._more()

    async def _more(self) -> None:
        """Wait for more output. Raises ConversationOver if none will come."""
        if self._is_over:
            raise ConversationOver
        self._news.clear()
        await self._news.wait()

    def take(self, before: re.Match[bytes] | bytes | None = None) -> bytes:
        """Return the output before a match, or all untaken output, with a note about what is missing.

        Bytes are that output, as `answer_to` took it.
        """
        if before is None:
            said, self._said = bytes(self._said), bytearray()
        else:
            said = before if isinstance(before, bytes) else before.string[: before.start()]
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
