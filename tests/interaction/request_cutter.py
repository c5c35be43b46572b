"""A websocket proxy that breaks its connection at one request: in front of it, or of its answer.

It reads frames and JSON, and knows no method but the handshake's, which it does not count.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from tests.interaction.cutting_proxy import CuttingProxy, End, Pair

_TEXT: Final = 1


@dataclass(frozen=True, slots=True)
class RequestCut:
    """Where the connection breaks: at the request of this number, counted from 0."""

    number: int
    is_carried_out: bool
    """Whether the server gets the request, and the client not its answer."""
    is_reset: bool = False


class RequestCutter(CuttingProxy):
    """Breaks one connection after each `arm`. `methods` are the requests that have come since."""

    def __init__(self, target_url: str) -> None:
        super().__init__(target_url)
        self.methods: list[str] = []
        self.is_broken = False
        self._is_armed = False
        self._cut: RequestCut | None = None

    async def __aenter__(self) -> RequestCutter:
        await super().__aenter__()
        return self

    def arm(self, cut: RequestCut | None) -> None:
        """Count requests from now on, and break the connection at one of them."""
        self._cut = cut
        self._is_armed = True
        self.methods.clear()
        self.is_broken = False

    def disarm(self) -> None:
        """Let everything pass."""
        self._is_armed = False

    def make_pair(self) -> Pair:
        return _FramePair(self)

    def due(self, message: dict[str, Any]) -> RequestCut | None:
        """Count a message if it is a request, and give the cut if it is to be made here."""
        method = message.get("method")
        if not self._is_armed or method in (None, "initialize") or "id" not in message:
            return None
        self.methods.append(method)
        if self._cut is None or self.is_broken or len(self.methods) != self._cut.number + 1:
            return None
        self.is_broken = True
        return self._cut


class _FramePair(Pair):
    """One connection, of which whole frames are passed on."""

    def __init__(self, cutter: RequestCutter) -> None:
        super().__init__(cutter)
        self._cutter = cutter
        self._ways = {True: _Way(), False: _Way()}
        self._withheld: tuple[Any, bool] | None = None

    def arrived(self, data: bytes, source: End) -> None:
        is_upstream = source is self.client
        target = self.server if is_upstream else self.client
        for piece, message in self._ways[is_upstream].take(data):
            if message is not None and self._must_cut(message, is_upstream=is_upstream):
                return
            target.stream.write(piece)

    def _must_cut(self, message: dict[str, Any], *, is_upstream: bool) -> bool:
        if is_upstream:
            cut = self._cutter.due(message)
            if cut is None:
                return False
            if cut.is_carried_out:
                self._withheld = message["id"], cut.is_reset
                return False
            is_reset = cut.is_reset
        elif self._withheld is None or message.get("id") != self._withheld[0]:
            return False
        else:
            is_reset = self._withheld[1]
        for end in (self.server, self.client):
            end.close(is_reset=is_reset)
        return True


class _Way:
    """What comes in one direction: the head of the handshake, and frames."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._is_upgraded = False

    def take(self, data: bytes) -> list[tuple[bytes, dict[str, Any] | None]]:
        """Give the pieces that are whole now, and the messages in them."""
        self._data += data
        pieces: list[tuple[bytes, dict[str, Any] | None]] = []
        while size := self._next_bytes():
            piece = bytes(self._data[:size])
            del self._data[:size]
            pieces.append((piece, _message(piece) if self._is_upgraded else None))
            self._is_upgraded = True
        return pieces

    def _next_bytes(self) -> int:
        """How long the next piece is; 0 if it is not whole."""
        if not self._is_upgraded:
            return self._data.find(b"\r\n\r\n") + 4 if b"\r\n\r\n" in self._data else 0
        if len(self._data) < 10 and len(self._data) < 2 + _extension_bytes(self._data):
            return 0
        size = len(_head(self._data)) + _payload_bytes(self._data)
        return size if len(self._data) >= size else 0


def _extension_bytes(data: bytes | bytearray) -> int:
    return {126: 2, 127: 8}.get(data[1] & 0x7F, 0) if len(data) >= 2 else 0


def _head(data: bytes | bytearray) -> bytes:
    """Everything before the payload, the mask included."""
    return bytes(data[: 2 + _extension_bytes(data) + (4 if data[1] & 0x80 else 0)])


def _payload_bytes(data: bytes | bytearray) -> int:
    extension = _extension_bytes(data)
    return int.from_bytes(data[2 : 2 + extension], "big") if extension else data[1] & 0x7F


def _message(frame: bytes) -> dict[str, Any] | None:
    """Give the message of a frame; None if it has none."""
    if frame[0] & 0xF != _TEXT:
        return None
    head = _head(frame)
    payload = frame[len(head) :]
    if frame[1] & 0x80:
        count = len(payload) // 4 + 1
        padded = int.from_bytes(payload.ljust(count * 4, b"\0"), "big")
        payload = (padded ^ int.from_bytes(head[-4:] * count, "big")).to_bytes(count * 4, "big")[
            : len(payload)
        ]
    message: dict[str, Any] = json.loads(payload)
    return message
