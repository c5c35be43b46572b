"""The newest part of some output, by lines or by bytes, gaps included. Pure.

Takes chunks and gaps in order and holds no more than the answer needs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from msgspec import structs

from paddock.protocol.process import OutputChunk, OutputGap

Piece = OutputChunk | OutputGap


class ByteTail:
    """The last so many bytes."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._pieces: deque[Piece] = deque()
        self._total = 0

    def add(self, piece: Piece) -> None:
        """Take the next piece; older ones that are not needed any more go."""
        self._pieces.append(piece)
        self._total += _size(piece)
        while self._pieces and self._total - _size(self._pieces[0]) >= self._limit_bytes:
            self._total -= _size(self._pieces.popleft())

    def __iter__(self) -> Iterator[Piece]:
        excess = self._total - self._limit_bytes
        for piece in self._pieces:
            if excess > 0 and isinstance(piece, OutputChunk):
                piece, excess = structs.replace(piece, chunk=piece.chunk[excess:]), 0
            yield piece


class LineTail:
    """The last so many lines, whichever stream they are of. What comes after the last newline is a line."""

    def __init__(self, limit_lines: int) -> None:
        self._limit_lines = limit_lines
        self._pieces: deque[Piece] = deque()
        self._newlines = 0

    def add(self, piece: Piece) -> None:
        """Take the next piece; older ones that are not needed any more go."""
        self._pieces.append(piece)
        self._newlines += _newlines(piece)
        # One newline more than lines: the last may end the output, and one ends what comes before.
        while self._pieces and self._newlines - _newlines(self._pieces[0]) > self._limit_lines:
            self._newlines -= _newlines(self._pieces.popleft())

    def __iter__(self) -> Iterator[Piece]:
        excess = self._newlines + (0 if self._is_at_line_start() else 1) - self._limit_lines
        for piece in self._pieces:
            if isinstance(piece, OutputGap):
                if excess <= 0:
                    yield piece
                continue
            start = 0
            while excess > 0 and (newline := piece.chunk.find(b"\n", start)) >= 0:
                start = newline + 1
                excess -= 1
            if excess <= 0 and start < len(piece.chunk):
                yield structs.replace(piece, chunk=piece.chunk[start:])

    def _is_at_line_start(self) -> bool:
        for piece in reversed(self._pieces):
            if isinstance(piece, OutputChunk) and piece.chunk:
                return piece.chunk.endswith(b"\n")
        return True


def _size(piece: Piece) -> int:
    return len(piece.chunk) if isinstance(piece, OutputChunk) else 0


def _newlines(piece: Piece) -> int:
    return piece.chunk.count(b"\n") if isinstance(piece, OutputChunk) else 0
