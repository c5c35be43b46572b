"""Readers of the output of one process: pieces, text, lines, up to a pattern, and into a sink until the end.

All of them take from the same inbox, so each piece goes to one of them. The next reader gets what a reader of
text has taken and not returned.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from threading import get_ident
from typing import Final, Generic, Protocol, TypeVar

from msgspec.structs import replace

from paddock.client.event_sequence import Gap, Piece
from paddock.client.inbox import Inbox, Output
from paddock.client.text_output import MATCH_LIMIT_BYTES, LineBuffer, PatternSearch, TextDecoder
from paddock.errors import OutputGap, PatternNotFound
from paddock.model.stream import Stream
from paddock.protocol.process import OutputChunk

QUIET_S: Final = 0.1
"""How long an exited process must be silent before its output counts as ended, unless it closes first."""

DRAIN_LIMIT_S: Final = 2.0
"""How long to keep waiting for output after the exit, even if another process keeps writing."""

T = TypeVar("T")


class OutputSink(Protocol):
    """Takes output as it arrives."""

    def add(self, output: Output) -> None:
        """Take one piece."""


class OutputExcess(Exception):
    """A stream has more output than its gatherer's limit."""


class Gathered:
    """The output of a process so far, at most `limit_bytes` of each stream."""

    def __init__(self, limit_bytes: int | None = None) -> None:
        self._limit_bytes = limit_bytes
        self._stdout = bytearray()
        self._stderr = bytearray()

    def add(self, output: Output) -> None:
        """Append one piece; a terminal's output counts as stdout. Raises OutputExcess."""
        gathered = self._stderr if output.stream is Stream.STDERR else self._stdout
        gathered.extend(output.data)
        if self._limit_bytes is not None and len(gathered) > self._limit_bytes:
            del gathered[self._limit_bytes :]
            raise OutputExcess

    @property
    def stdout(self) -> bytes:
        """Return what the process wrote to stdout or the terminal."""
        return bytes(self._stdout)

    @property
    def stderr(self) -> bytes:
        """Return what the process wrote to stderr."""
        return bytes(self._stderr)


class OutputReader:
    """Reads one inbox. A task that reads counts as a reader while it does; see `OutputIterator`."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._text = TextDecoder()
        self._lines = LineBuffer()

    # --- pieces -------------------------------------------------------------

    async def next_output(self) -> Output | None:
        """Return the next piece, or None at the end. Raises OutputGap; reading may continue after it."""
        piece = await self._next_piece()
        return None if piece is None else Output(piece.stream, piece.chunk)

    async def next_output_or_gap(self) -> Output | Gap | None:
        """Return the next piece, or the gap in its place, or None at the end."""
        return await self._inbox.next_output()

    def put_back_lines(self) -> None:
        """Give other readers what a reader of lines took and did not return."""
        seq = self._inbox.read_seq
        lines = [OutputChunk(seq=seq, stream=line.stream, chunk=line.data) for line in self._lines.take_all()]
        self._inbox.put_back(lines)

    async def _next_piece(self) -> Piece | None:
        item = await self._inbox.next_item()
        return self._without_gap(item)

    def _without_gap(self, item: Piece | Gap | None) -> Piece | None:
        if isinstance(item, Gap):
            raise OutputGap(self._inbox.process_id, item.from_seq, item.to_seq, item.size_bytes)
        return item

    # --- text ---------------------------------------------------------------

    async def next_text(self) -> str | None:
        """Return the next characters, or None at the end."""
        while (piece := await self._next_piece()) is not None:
            if text := self._text.feed(piece.stream, piece.chunk):
                return text
        return self._text.finish() or None

    async def next_line(self) -> str | None:
        """Return the next line without its line end, or None at the end."""
        while (line := self._lines.take()) is None:
            piece = await self._next_piece()
            if piece is None:
                self._lines.finish()
                line = self._lines.take()
                break
            self._lines.feed(piece.stream, piece.chunk)
        return None if line is None else str(line)

    async def read_until(self, pattern: str | re.Pattern[str]) -> str:
        """Return the text up to the end of the first match; see `Process.read_until`."""
        search = PatternSearch(pattern)
        taken: list[Piece] = []
        unused_bytes: int | None = None
        try:
            while search.size_bytes < MATCH_LIMIT_BYTES:
                piece = await self._next_piece()
                if piece is None:
                    break
                taken.append(piece)
                if (found := search.feed(piece.chunk)) is not None:
                    text, unused_bytes = found
                    return text
            raise PatternNotFound(
                self._inbox.process_id, search.pattern.pattern, search.seen, search.size_bytes
            )
        finally:
            self._inbox.put_back(taken if unused_bytes is None else _last_bytes(taken, unused_bytes))

    # --- everything ---------------------------------------------------------

    async def gather(self, sink: OutputSink) -> None:
        """Pass all output to the sink until both streams end."""
        while (output := await self.next_output()) is not None:
            sink.add(output)

    async def gather_until_exit(self, sink: OutputSink, ask: Callable[[], Awaitable[object]]) -> bool:
        """Pass output to the sink until the process has exited; return whether that was all of it.

        Output from before the exit may arrive after it. A child that the process left behind may hold the
        streams open for ever, and write to them. So this ends when the streams close. If nothing arrives for
        a moment, or output keeps arriving for long, it asks the server and ends after what the server had by
        then. `ask` waits for any answer from the server.
        """
        inbox = self._inbox
        while not inbox.is_closed:
            item = self._without_gap(await inbox.next_item(or_exit=True))
            if item is None:
                break
            sink.add(Output(item.stream, item.chunk))
        loop = asyncio.get_running_loop()
        deadline = loop.time() + DRAIN_LIMIT_S
        while True:
            last_seq = inbox.last_seq
            quiet = asyncio.timeout_at(min(loop.time() + QUIET_S, deadline))
            try:
                async with quiet:
                    await self.gather(sink)
                    return True
            except TimeoutError:
                if not quiet.expired():
                    raise
            # A connection keeps the order: whatever was sent before the answer has arrived before it.
            await ask()
            is_silent = not inbox.needs_read and inbox.last_seq == last_seq
            if is_silent or loop.time() >= deadline:
                while (item := self._without_gap(inbox.take_unread())) is not None:
                    sink.add(Output(item.stream, item.chunk))
                return inbox.is_closed


class OutputIterator(Generic[T]):
    """One reader of a process. It counts as a reader until it is garbage-collected."""

    def __init__(self, process: object, inbox: Inbox, take: Callable[[], Awaitable[T | None]]) -> None:
        # The reader holds the process, so that its output is not discarded during the reading.
        self._process = process
        self._take = take
        self._let_go = homeward(inbox.remove_reader)
        inbox.add_reader()

    def __del__(self) -> None:
        if let_go := getattr(self, "_let_go", None):
            let_go()

    def __aiter__(self) -> AsyncIterator[T]:
        return self

    async def __anext__(self) -> T:
        item = await self._take()
        if item is None:
            raise StopAsyncIteration
        return item


def homeward(action: Callable[[], None]) -> Callable[[], None]:
    """Return a function that runs the action in this thread: Python may collect garbage in any thread."""
    loop, home = asyncio.get_running_loop(), get_ident()

    def run() -> None:
        if get_ident() == home:
            action()
        else:
            # RuntimeError: the loop is closed, so nothing is left to do.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(action)

    return run


def _last_bytes(pieces: list[Piece], size_bytes: int) -> list[Piece]:
    """Return the end of the pieces, this many bytes in all, in order."""
    kept: list[Piece] = []
    for piece in reversed(pieces):
        if size_bytes == 0:
            break
        chunk = piece.chunk[-size_bytes:]
        kept.append(replace(piece, chunk=chunk))
        size_bytes -= len(chunk)
    return kept[::-1]
