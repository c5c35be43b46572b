"""Bodies whose length nobody says: they pass without h11 reading every piece of them.

h11 reads the beginning of a body, its end and everything unusual. In between, chunks that are written just as
h11 writes them pass as they are, so no receiver reads them otherwise than h11 would. Anything else, such as
an extension, goes to h11 from the beginning of its chunk.
"""

from __future__ import annotations

import re
from typing import Final

import h11

from paddock.network.stream import Stream

_SIZE: Final = re.compile(rb"([1-9A-Fa-f][0-9A-Fa-f]{0,7})\r\n")
"""The line before a chunk: without leading zeros and extensions, and not that of the last chunk."""

_PART_OF_SIZE: Final = re.compile(rb"([1-9A-Fa-f][0-9A-Fa-f]{0,7}\r?)?")

_LINE_END: Final = b"\r\n"

CHUNKS_PER_TURN: Final = 1024
"""Chunks that pass in one turn of the loop: about a millisecond, if they are small."""


class PlainChunks:
    """Follows chunks, and so knows where one ends. Pure."""

    def __init__(self) -> None:
        self.left_bytes = 0
        """Bytes to come of the chunk that has begun, with its line end."""

    def follow(self, data: bytes, at: int) -> int:
        """Return the end of what may pass. The rest is for h11, or is incomplete, or waits for another turn.

        Raises RemoteProtocolError for a chunk without a line end.
        """
        for _ in range(CHUNKS_PER_TURN):
            if self.left_bytes:
                if len(data) - at < self.left_bytes:
                    # A part of a line end stays behind, so that it can be verified.
                    count = max(0, min(len(data) - at, self.left_bytes - len(_LINE_END)))
                    self.left_bytes -= count
                    return at + count
                at += self.left_bytes
                self.left_bytes = 0
                if data[at - len(_LINE_END) : at] != _LINE_END:
                    raise h11.RemoteProtocolError("a chunk has another length than it says")
            size = _SIZE.match(data, at)
            if size is None:
                break
            at = size.end()
            self.left_bytes = int(size[1], 16) + len(_LINE_END)
        return at


class ChunkedBody:
    """A body in chunks, from one stream to another. h11 has, or will have, read what has `begun`."""

    def __init__(self, source: Stream, onward: Stream, begun: bytes) -> None:
        self._source = source
        self._onward = onward
        self._chunks = PlainChunks()
        try:
            rest_bytes = len(begun) - self._chunks.follow(begun, 0)
        except h11.RemoteProtocolError:
            # h11 finds the same.
            rest_bytes = len(begun)
        left = self._chunks.left_bytes
        self._is_h11s = rest_bytes > 0 and rest_bytes >= left
        self._for_h11_bytes = left - rest_bytes
        """What h11 has to read before another chunk can begin."""

    async def receive(self) -> bytes:
        """Pass on what h11 need not read, and return what it has to read next; nothing at the end."""
        if self._is_h11s:
            return await self._source.receive()
        if self._for_h11_bytes:
            data = await self._source.receive()
            self._source.unread(data[self._for_h11_bytes :])
            data = data[: self._for_h11_bytes]
            self._for_h11_bytes -= len(data)
            return data
        self._chunks.left_bytes = 0
        rest = b""
        while data := await self._source.receive():
            rest = await self._pass_on(rest + data if rest else data)
            if not self._chunks.left_bytes and not _PART_OF_SIZE.fullmatch(rest):
                break
        self._is_h11s = True
        return rest

    async def _pass_on(self, data: bytes) -> bytes:
        """Pass on plain chunks, and return what stays behind."""
        at = 0
        while (end := self._chunks.follow(data, at)) > at:
            await self._onward.send(data[at:end])
            await _turn(self._source, self._onward)
            at = end
        return data[at:]


class LastBody:
    """A body that ends with its connection, from one stream to another, where it goes in chunks."""

    def __init__(self, source: Stream, onward: Stream) -> None:
        self._source = source
        self._onward = onward

    async def receive(self) -> bytes:
        """Pass on all of it, and return nothing: that is its end."""
        while data := await self._source.receive():
            await self._onward.send(b"%x\r\n%b\r\n" % (len(data), data))
            await _turn(self._source, self._onward)
        return b""


async def _turn(*streams: Stream) -> None:
    for stream in streams:
        await stream.turn()
