"""Tells when nothing of a command is left: a fifo that every process of it holds open for writing."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

LIMIT_S = 30.0
"""For what takes milliseconds, on a busy machine."""


class LifeLine:
    """Put `hold` in front of a command; whatever it starts inherits the descriptor."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "life-line"
        os.mkfifo(self._path)
        self._reader = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK)
        self.hold = f"exec 9> '{self._path}'; echo alive >&9; "

    async def held(self) -> None:
        """Wait until the command runs."""
        async with asyncio.timeout(LIMIT_S):
            assert await self._read() == b"alive\n"

    async def cut(self) -> None:
        """Wait until nothing of it is left."""
        async with asyncio.timeout(LIMIT_S):
            while await self._read():
                pass

    def close(self) -> None:
        os.close(self._reader)

    async def _read(self) -> bytes:
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        loop.add_reader(self._reader, readable.set)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(self._reader)
        return os.read(self._reader, 4096)
