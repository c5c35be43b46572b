"""Rows about what flows through a process: output of pipes and terminals, and input."""

from __future__ import annotations

import fcntl
import os
import pty
import time
from base64 import b64encode
from collections.abc import Sequence
from itertools import chain
from typing import ClassVar

from bench.client import Client, frame_head, start_request
from bench.errors import BenchError
from bench.row import Figure, Row, Unit
from bench.servers import Contender

MIB = 1 << 20
BLOCK_BYTES = 64 << 10
WRITES_IN_FLIGHT = 20
BARE_PIPE_BYTES = MIB
"""What an ordinary user may have (/proc/sys/fs/pipe-max-size): the limit is the best that Python can do."""

DD = "/bin/dd"
CHUNK = b'"chunk":"'
ACCEPTED = b'"accepted"'
EXITED = b'"process/exited"'
CLOSED = b'"process/closed"'


class Output(Row):
    """A process that writes zeros, from its start to `process/closed`."""

    size_bytes: ClassVar[int]
    is_terminal: ClassVar[bool] = False

    def measure(self, contender: Contender) -> Sequence[float]:
        with contender.server.connect() as client:
            begun = time.perf_counter()
            client.send(start_request(1, "p", self._argv(), tty=self.is_terminal))
            received = _payload_until_closed(client)
            elapsed_s = time.perf_counter() - begun
        if received != self.size_bytes:
            raise BenchError(f"{contender.name} delivered {received} of {self.size_bytes} bytes")
        return (received / elapsed_s,)

    def limit(self) -> Sequence[float | None]:
        reading, writing = pty.openpty() if self.is_terminal else os.pipe()
        if not self.is_terminal:
            fcntl.fcntl(reading, fcntl.F_SETPIPE_SZ, BARE_PIPE_BYTES)
        begun = time.perf_counter()
        pid = os.posix_spawn(DD, self._argv(), {}, file_actions=[(os.POSIX_SPAWN_DUP2, writing, 1)])
        left = self.size_bytes
        while left:
            left -= len(os.read(reading, BARE_PIPE_BYTES))
        elapsed_s = time.perf_counter() - begun
        # Until here it is held: a terminal that nobody has open on this side fails to be read.
        os.close(writing)
        os.close(reading)
        os.waitpid(pid, 0)
        return (self.size_bytes / elapsed_s,)

    def _argv(self) -> list[str]:
        count = self.size_bytes // BLOCK_BYTES
        return [DD, "if=/dev/zero", f"bs={BLOCK_BYTES}", f"count={count}", "status=none"]


class PipeOutput(Output):
    name = "stdout"
    size_bytes = 128 * MIB
    figures = (Figure("stdout of one process", Unit.BYTES_PER_SECOND, goal=1.5),)
    bare = "reading a pipe in Python"


class TerminalOutput(Output):
    name = "pty"
    size_bytes = 16 * MIB
    is_terminal = True
    figures = (Figure("terminal output of one process", Unit.BYTES_PER_SECOND, goal=1),)
    bare = "reading a terminal in Python"


class Input(Row):
    """Writes of 64 KiB, from the start of a process that reads them all to its exit.

    The exit counts, not the last answer: a server may accept what it has only queued.
    """

    bare = "writing to a pipe in Python"
    writes: ClassVar[int] = 1024
    refill_from: ClassVar[int]
    """How many of those in flight must be answered before the next are sent."""

    def __init__(self) -> None:
        self._data = os.urandom(BLOCK_BYTES)
        self._chunk = b64encode(self._data)
        count = f"count={self.writes}"
        self._argv = [DD, "of=/dev/null", f"bs={BLOCK_BYTES}", count, "iflag=fullblock", "status=none"]
        self._requests = [self._request(number) for number in range(self.writes)]

    def measure(self, contender: Contender) -> Sequence[float]:
        with contender.server.connect() as client:
            begun = time.perf_counter()
            client.send(start_request(1, "p", self._argv, stdin=True))
            client.result(1)
            self._write_all(client, contender.name)
            return (self.writes * BLOCK_BYTES / (time.perf_counter() - begun),)

    def limit(self) -> Sequence[float | None]:
        reading, writing = os.pipe()
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, BARE_PIPE_BYTES)
        begun = time.perf_counter()
        pid = os.posix_spawn(DD, self._argv, {}, file_actions=[(os.POSIX_SPAWN_DUP2, reading, 0)])
        os.close(reading)
        for _ in range(self.writes):
            os.write(writing, self._data)
        os.waitpid(pid, 0)
        elapsed_s = time.perf_counter() - begun
        os.close(writing)
        return (self.writes * BLOCK_BYTES / elapsed_s,)

    def _write_all(self, client: Client, server: str) -> None:
        sent = answered = 0
        while True:
            room = min(self.writes, answered + WRITES_IN_FLIGHT) - sent
            if room and (room >= self.refill_from or sent + room == self.writes):
                client.send(*chain.from_iterable(self._requests[sent : sent + room]))
                sent += room
            for begin, end in client.receive():
                if client.buffer.find(ACCEPTED, begin, end) >= 0:
                    answered += 1
                # The peer now and then tells that a process is closed before it tells that it has exited.
                elif any(client.buffer.find(ending, begin, end) >= 0 for ending in (EXITED, CLOSED)):
                    return
                else:
                    message = client.buffer[begin:end].decode()
                    raise BenchError(f"{server} did not accept a write: {message}")

    def _request(self, number: int) -> tuple[bytes, bytes, bytes]:
        """A write in parts: the chunk is one for all, so that it stays in the processor's cache."""
        head = b'{"id":%d,"method":"process/write","params":{"processId":"p","chunk":"' % (number + 2)
        tail = b'","writeId":"w%d"}}' % number
        length = len(head) + len(self._chunk) + len(tail)
        return frame_head(length) + head, self._chunk, tail


class BatchedInput(Input):
    """Twenty writes, their answers, the next twenty: what `gather` in a loop comes to."""

    name = "stdin-batch"
    figures = (Figure("stdin in 64 KiB writes, batches of 20", Unit.BYTES_PER_SECOND, goal=3),)
    refill_from = WRITES_IN_FLIGHT


class WindowedInput(Input):
    """A write for each answer, so that twenty are always under way."""

    name = "stdin-window"
    figures = (Figure("stdin in 64 KiB writes, window of 20", Unit.BYTES_PER_SECOND, goal=3),)
    refill_from = 1


def _payload_until_closed(client: Client) -> int:
    """Count the output of the only process without decoding any of it."""
    buffer = client.buffer
    total = 0
    while True:
        for begin, end in client.receive():
            at = buffer.find(CHUNK, begin, min(end, begin + 256))
            if at >= 0:
                at += len(CHUNK)
                stop = buffer.find(b'"', at, end)
                total += (stop - at) // 4 * 3 - buffer.count(b"=", stop - 2, stop)
            elif buffer.find(CLOSED, begin, end) >= 0:
                return total
