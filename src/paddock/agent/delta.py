"""Output in pieces for an event stream: bounded in size and number, no character split. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

DELTA_BYTES: Final = 8192
"""Size of one piece."""

DELTAS_LIMIT: Final = 10_000
"""Number of pieces of one command; with their size, 80 MiB."""

_CONTINUATION: Final = 0b1000_0000
_CONTINUATION_MASK: Final = 0b1100_0000
_CARRY_LIMIT: Final = 3
"""The longest beginning of a character that is not one yet."""


class DeltaSplitter:
    """Splits the output of one command. What follows the last allowed piece is counted, not sent."""

    def __init__(self) -> None:
        self._carried = b""
        self._sent = 0
        self.unsent_bytes = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the pieces that are complete. The beginning of a character waits for the rest of it."""
        data = self._carried + data
        border = _border(data, len(data))
        self._carried = data[border:]
        yield from self._pieces(data[:border])

    def finish(self) -> Iterator[bytes]:
        """Yield what waited in vain."""
        carried, self._carried = self._carried, b""
        yield from self._pieces(carried)

    def _pieces(self, data: bytes) -> Iterator[bytes]:
        while data:
            end = len(data) if len(data) <= DELTA_BYTES else _border(data, DELTA_BYTES)
            if self._sent == DELTAS_LIMIT:
                self.unsent_bytes += len(data)
                return
            self._sent += 1
            yield data[:end]
            data = data[end:]


def _border(data: bytes, end: int) -> int:
    """Return where to cut at `end` or before, so that no character is split; bytes that are none may be."""
    for back in range(1, min(_CARRY_LIMIT, end) + 1):
        byte = data[end - back]
        if byte & _CONTINUATION_MASK == _CONTINUATION:
            continue
        # A first byte says how many follow it.
        if byte >= 0xF0:
            length = 4
        elif byte >= 0xE0:
            length = 3
        elif byte >= 0xC0:
            length = 2
        else:
            length = 1
        return end - back if length > back else end
    return end
