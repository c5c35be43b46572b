"""A client that knows nothing of Paddock: one websocket, and the messages nobody has asked for yet.

It is made of another websocket implementation than the server, so that a mistake
in one does not hide behind the same mistake in the other.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import Callable, Iterable
from typing import Any

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from tests.conformance.pattern import Mismatch, check, shown

Message = dict[str, Any]

MESSAGE_TIMEOUT_S = 20.0
"""Far beyond any pause in the recordings: only a message that never comes takes so long."""

CHUNK_SHAPE = {"seq": "<int>", "stream": "<str>", "chunk": "<str>"}
EVENT_SHAPES = {
    "process/output": {"processId": "<str>", **CHUNK_SHAPE},
    "process/exited": {
        "processId": "<str>",
        "seq": "<int>",
        "exitCode": "<int>",
        "sandboxDenied": "<any>",
    },
    "process/closed": {"processId": "<str>", "seq": "<int>"},
}


class Client:
    """One connection. Messages are taken in any order; each is taken once."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._unread: list[Message] = []
        self._seqs: dict[str, list[int]] = {}

    async def send(self, frame: str | bytes) -> None:
        """Send one frame: text, or binary for bytes. A connection that is gone shows when receiving."""
        with contextlib.suppress(ConnectionClosed):
            await self._socket.send(frame)

    async def next(self) -> Message:
        """The oldest message that was not taken. Raises Mismatch when there is none and none comes."""
        message = self._unread.pop(0) if self._unread else await self._receive()
        return self._taken(message)

    async def pick(self, is_wanted: Callable[[Message], bool]) -> Message:
        """The oldest such message that was not taken. Raises Mismatch when none comes."""
        for place, message in enumerate(self._unread):
            if is_wanted(message):
                return self._taken(self._unread.pop(place))
        while not is_wanted(message := await self._receive()):
            self._unread.append(message)
        return self._taken(message)

    async def process_events(self, process_id: str) -> list[Message]:
        """The events of a process that were not taken, to the last, in the order of their numbers.

        Raises Mismatch unless its numbers, with those of events taken before, run
        from 1 to that of `process/closed` without gap or repetition.
        """
        events: list[Message] = []
        last_seq: int | None = None
        while last_seq is None or len(self._seqs[process_id]) < last_seq:
            event = await self.pick(lambda message: is_event_of(process_id, message))
            events.append(event)
            if event["method"] == "process/closed":
                last_seq = event["params"]["seq"]
        seqs = sorted(self._seqs[process_id])
        if seqs != list(range(1, last_seq + 1)):
            raise Mismatch(f"the events of {process_id!r} are numbered {seqs}, and the last is {last_seq}")
        return sorted(events, key=lambda event: int(event["params"]["seq"]))

    async def closed(self) -> None:
        """Wait until the server drops the connection. Raises Mismatch if it says anything before."""
        try:
            message = await self.next()
        except Dropped:
            return
        raise Mismatch(f"expected the connection to be dropped, got {shown(message)}")

    async def silence(self, duration_s: float) -> None:
        """Wait so long. Raises Mismatch if a message comes or has come."""
        try:
            async with asyncio.timeout(duration_s):
                message = await self.next()
        except TimeoutError:
            return
        raise Mismatch(f"expected silence, got {shown(message)}")

    async def close(self) -> None:
        """Close from this side."""
        await self._socket.close()

    async def _receive(self) -> Message:
        try:
            async with asyncio.timeout(MESSAGE_TIMEOUT_S):
                frame = await self._socket.recv()
        except ConnectionClosed:
            raise Dropped("the server has dropped the connection") from None
        except TimeoutError:
            raise Mismatch(f"the message did not come; there are {shown(self._unread)}") from None
        if not isinstance(frame, str):
            raise Mismatch("the server sent a binary frame")
        message = json.loads(frame)
        if not isinstance(message, dict):
            raise Mismatch(f"the server sent no object: {shown(message)}")
        return message

    def _taken(self, message: Message) -> Message:
        if (shape := EVENT_SHAPES.get(message.get("method", ""))) is not None:
            check({"method": "<str>", "params": shape}, message)
            params = message["params"]
            self._seqs.setdefault(params["processId"], []).append(params["seq"])
        return message


class Dropped(Mismatch):
    """The connection is gone."""


def is_answer_to(request_id: int | str, message: Message) -> bool:
    """Whether the message answers this id, its type included."""
    found = message.get("id")
    return "method" not in message and type(found) is type(request_id) and found == request_id


def is_event_of(process_id: str, message: Message) -> bool:
    """Whether the message tells something of this process."""
    return message.get("method") in EVENT_SHAPES and message["params"].get("processId") == process_id


def joined(chunks: Iterable[dict[str, Any]]) -> dict[str, bytes]:
    """The bytes of each stream. Each chunk has `stream` and `chunk`."""
    streams: dict[str, bytes] = {}
    for chunk in chunks:
        data = base64.b64decode(chunk["chunk"], validate=True)
        streams[chunk["stream"]] = streams.get(chunk["stream"], b"") + data
    return streams
