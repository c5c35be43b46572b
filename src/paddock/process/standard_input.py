"""The standard input of one process, from before its start to after its end.

Input that is written while the process starts waits for it, so that the order of writes is the order of
calls, however long the start takes. An `InputStream` does the rest.
"""

from __future__ import annotations

from paddock.errors import StdinClosed, StdinFull
from paddock.process.input_stream import InputStream


class StandardInput:
    """What a process reads; `is_given` says whether it has an input at all."""

    __slots__ = ("_early", "_has_end", "_is_given", "_process_id", "_stream")

    def __init__(self, process_id: str, *, is_given: bool) -> None:
        self._process_id = process_id
        self._is_given = is_given
        self._stream: InputStream | None = None
        self._early: list[bytes] | None = [] if is_given else None
        """What waits for the start; None if nothing may any more."""
        self._has_end = False

    def connect(self, stream: InputStream | None) -> None:
        """Take over the stream of the process that has started; None if it has none."""
        early, self._early = self._early or (), None
        self._stream = stream
        if stream is not None:
            for data in early:
                stream.write(data)
            if self._has_end:
                stream.end()

    def write(self, data: bytes) -> bool:
        """Queue input. Return whether there is room for more; if not, await `drain` before the next.

        Raises StdinClosed or StdinFull.
        """
        stream = self._stream
        if stream is None:
            if self._early is None or self._has_end:
                raise StdinClosed(self._process_id)
            self._early.append(data)
            return True
        # A stream is closed when the process has exited or was lost.
        if not stream.is_open:
            raise StdinClosed(self._process_id)
        if stream.is_full:
            raise StdinFull(self._process_id)
        stream.write(data)
        return stream.has_room

    @property
    def has_room(self) -> bool:
        """Return whether the process reads its input fast enough."""
        return self._stream is None or self._stream.has_room

    @property
    def waiting_bytes(self) -> int:
        """Return how much input waits for the process to start, or to read it."""
        if self._stream is None:
            return sum(map(len, self._early or ()))
        return self._stream.queued_bytes

    async def drain(self) -> None:
        """Wait until the process has read enough, or its input is closed."""
        if self._stream is not None:
            await self._stream.drain()

    def end(self) -> None:
        """Let the process read the end of its input; repeatable. Raises StdinClosed if it never had one."""
        if not self._is_given:
            raise StdinClosed(self._process_id)
        self._has_end = True
        if self._stream is not None:
            self._stream.end()

    def flush(self) -> None:
        """Write what waits for the end of the turn, as far as the process accepts it."""
        if self._stream is not None:
            self._stream.flush()

    def close(self) -> None:
        """Drop what the process has not read: it has ended."""
        self._early = None
        if self._stream is not None:
            self._stream.close()
