"""A model's command that may outlive the call that started it, with its output since the last call."""

from __future__ import annotations

import asyncio
from collections import deque

from paddock.adapters.outcome import ending_notes
from paddock.client.ending import Ending
from paddock.client.process import Process
from paddock.client.workspace import Workspace
from paddock.errors import PaddockError


class Terminal:
    """A command that may outlive a call, and its output since the last one."""

    def __init__(self, process: Process, workspace: Workspace) -> None:
        self.process = process
        self.chunks: deque[bytes] = deque()
        self.lock = asyncio.Lock()
        self.news = asyncio.Event()
        self.is_done = False
        self._workspace = workspace
        self._task = asyncio.create_task(self._pump())

    async def _pump(self) -> None:
        try:
            async for output in self.process:
                self.chunks.append(output.data)
                self.news.set()
            exit_code = await self.process.wait()
            notes = ending_notes(self.process.ending or Ending(exit_code), self._workspace)
            self.chunks.extend(f"Note: {note}\n".encode() for note in notes)
        except PaddockError as error:
            self.chunks.append(f"Note: {error}\n".encode())
        finally:
            self.is_done = True
            self.news.set()
