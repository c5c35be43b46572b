"""Hands what an HTTP server sends to the HTTP library in pieces that take bounded time to read.

The library reads all that one call brings before it lets go of the loop. Of the smallest chunks of a body
those are ten thousand, and the smallest headers of one head are thirty thousand: everybody else would wait.
All of them are lines. So a piece has a bounded number of lines, and waits for its turn; and the heads of
one answer, the informational ones before it and the trailers behind its chunks included, have a bounded
number together.
"""

from __future__ import annotations

import re
import ssl
from typing import Any, Final

import httpcore

from paddock.fetch.record_stream import RecordStream
from paddock.fetch.turn import Turn

LINES_PER_TURN: Final = 256
"""Lines that the library reads in one turn: 128 chunks, which take 3 ms."""

HEAD_LINES_LIMIT: Final = 1024
"""Lines before and behind the body of an answer. Servers send less than a hundred."""

_INFORMATIONAL: Final = re.compile(rb"HTTP/1\.[01] 1(?!01)\d\d\b")
"""How an informational head begins, which another head follows."""

_HEAD_END: Final = re.compile(rb"\n\r?\n")
"""What the library takes for the end of a head."""

_CHUNKED: Final = re.compile(rb"\ntransfer-encoding:\s*chunked\s", re.IGNORECASE)
"""What a head says of a body in chunks. A line that begins with white space continues the one before."""

_CHUNK_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,20})[;\s]")

_CHUNK_END_BYTES: Final = len(b"\r\n")


class GatedStream(httpcore.AsyncNetworkStream):
    """A connection to a server, in front of the library. A request that is written begins an answer."""

    def __init__(
        self, stream: httpcore.AsyncNetworkStream, turn: Turn, records: RecordStream | None = None
    ) -> None:
        self._stream = stream
        self._records = records
        self._turn = turn
        self._received = b""
        """What has come and was not handed over."""
        self._head: bytes | None = None
        """The end of what was handed over of the heads of an answer, or of its trailers; None in a body."""
        self._head_lines = 0
        self._size_line: bytes | None = None
        """The beginning of the line before a chunk; None unless a body is in chunks."""
        self._chunk_left_bytes = 0

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        """Return the next bytes, of a bounded number of lines. Raises RemoteProtocolError for too many
        headers."""
        if not self._received:
            try:
                self._received = await self._stream.read(max_bytes, timeout)
            except ssl.SSLError as error:
                # The library expects others.
                raise httpcore.ReadError(
                    f"the server does not speak TLS as it should: {error.reason}"
                ) from error
        await self._turn()
        end = min(max_bytes, _end_of_lines(self._received, LINES_PER_TURN))
        data, self._received = self._received[:end], self._received[end:]
        if self._head is not None:
            self._follow_head(data)
        elif self._size_line is not None:
            self._follow_chunks(data)
        return data

    def _follow_head(self, data: bytes) -> None:
        assert self._head is not None
        at = 0
        self._head += data
        while (end := _HEAD_END.search(self._head, at)) is not None:
            self._head_lines += self._head.count(b"\n", at, end.end())
            is_last = _INFORMATIONAL.match(self._head, at) is None
            self._refuse_many_lines()
            if is_last:
                self._begin_body(at, end.end())
                return
            at = end.end()
        self._head = self._head[at:]
        self._refuse_many_lines(self._head.count(b"\n"))

    def _begin_body(self, start: int, end: int) -> None:
        assert self._head is not None
        head, body = self._head[start:end], self._head[end:]
        self._head = None
        self._size_line = b"" if _CHUNKED.search(head) else None
        if self._size_line is not None:
            self._follow_chunks(body)

    def _follow_chunks(self, data: bytes) -> None:
        at = 0
        while at < len(data) and self._size_line is not None:
            if self._chunk_left_bytes:
                passed = min(self._chunk_left_bytes, len(data) - at)
                self._chunk_left_bytes -= passed
                at += passed
                continue
            end = data.find(b"\n", at) + 1 or len(data)
            self._size_line += data[at:end]
            at = end
            if not self._size_line.endswith(b"\n"):
                return
            size = _CHUNK_SIZE.match(self._size_line)
            self._size_line = b""
            if size is None:
                # The library refuses it.
                self._size_line = None
            elif left := int(size[1], 16):
                self._chunk_left_bytes = left + _CHUNK_END_BYTES
            else:
                # An empty line may follow at once.
                self._size_line, self._head = None, b"\n"
                self._follow_head(data[at:])

    def _refuse_many_lines(self, more: int = 0) -> None:
        if self._head_lines + more > HEAD_LINES_LIMIT:
            raise httpcore.RemoteProtocolError(
                f"the answer has more than {HEAD_LINES_LIMIT} lines of headers"
            )

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Send a part of a request."""
        self._head, self._head_lines = b"", 0
        self._size_line, self._chunk_left_bytes = None, 0
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        """End the connection."""
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> httpcore.AsyncNetworkStream:
        """Return the stream inside of TLS."""
        records = RecordStream(self._stream._stream, self._turn)  # type: ignore[attr-defined]
        self._stream._stream = records  # type: ignore[attr-defined]
        inside = await self._stream.start_tls(ssl_context, server_hostname, timeout)
        return GatedStream(inside, self._turn, records)

    def get_extra_info(self, info: str) -> Any:
        """Ask the connection. One that has sent more than was read is of no use for another request."""
        has_kept = bool(self._received) or (self._records is not None and self._records.has_kept)
        if info == "is_readable" and has_kept:
            return True
        return self._stream.get_extra_info(info)


def _end_of_lines(data: bytes, limit: int) -> int:
    """Return where so many lines end, or the end of the data if there are no more."""
    if data.count(b"\n") <= limit:
        return len(data)
    at = 0
    for _ in range(limit):
        at = data.index(b"\n", at) + 1
    return at
