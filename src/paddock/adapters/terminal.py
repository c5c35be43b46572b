"""A model's command that may outlive the call that started it, with its output since the last call."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Final

from paddock.adapters.outcome import ending_text
from paddock.agent.head_tail import HeadTail
from paddock.client.ending import Ending
from paddock.client.event_sequence import Gap
from paddock.client.process import Process
from paddock.client.workspace import Workspace
from paddock.errors import PaddockError

LIMIT_BYTES: Final = 1 << 20
"""The most output to keep between two calls: half from the beginning, half from the end."""


class Terminal:
    """Reads all the time, so that the command never blocks, and keeps what a call has not taken, bounded."""

    def __init__(self, process: Process, workspace: Workspace) -> None:
        self.process = process
        self.chunks: deque[bytes] = deque()
        """What `settle` has handed over to a call; at most `LIMIT_BYTES` and a note."""
        self.lock = asyncio.Lock()
        self.end = asyncio.Event()
        self.is_done = False
        self.used_at_s = time.monotonic()
        self._workspace = workspace
        self._kept = HeadTail(LIMIT_BYTES)
        self._task = asyncio.create_task(self._pump())

    async def settle(self) -> None:
        """Hand the output since the last call over to `chunks`, with a note about what is missing."""
        kept = self._kept.drain()
        note = f"\n[… {kept.omitted_bytes} bytes are left out …]\n" if kept.omitted_bytes else ""
        self.chunks.extend(piece for piece in (kept.head, note.encode(), kept.tail) if piece)

    async def _pump(self) -> None:
        try:
            async for output in self.process.output(on_gap="yield"):
                if isinstance(output, Gap):
                    self._kept.add("\n[… some output was lost …]\n".encode())
                else:
                    self._kept.add(output.data)
            exit_code = await self.process.wait()
            notes = ending_text(self.process.ending or Ending(exit_code), self._workspace)
            self._kept.add(notes.encode())
        except PaddockError as error:
            self._kept.add(f"Note: {error}\n".encode())
        finally:
            self.is_done = True
            self.end.set()
