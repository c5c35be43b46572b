"""`python -m paddock.fs.worker`: carries operations out in a separate process.

Operations come on standard input and answers go to standard output (see `framing`). The starter can confine
it: it opens files with its own rights, and keeps them open itself. It ends when its input ends, and discards
files not yet published.
"""

from __future__ import annotations

import os
import sys
import threading
from queue import SimpleQueue
from typing import cast

from paddock.errors import RequestError
from paddock.fs.answer import AnyAnswer, Failure, FailureKind
from paddock.fs.failure import to_failure
from paddock.fs.framing import HEADER, MAX_IN_FLIGHT, Reply, Request, read_length, read_request, write_frame
from paddock.fs.handle import HandleTable
from paddock.fs.operation import is_bulky
from paddock.fs.perform import perform

QUICK_THREADS = 2
BULK_THREADS = 5

FAULT_CHARS = 150
"""What is told of an error: a field of a log entry holds this, and where it was."""

ANSWERS = 1
"""Standard output, which nothing else writes to."""


class Worker:
    """Threads that take requests from two queues, so that quick ones never wait for bulky ones."""

    def __init__(self) -> None:
        self._handles = HandleTable()
        self._quick: SimpleQueue[Request | None] = SimpleQueue()
        self._bulk: SimpleQueue[Request | None] = SimpleQueue()
        self._room = threading.Semaphore(MAX_IN_FLIGHT)
        self._writing = threading.Lock()
        queues = [self._quick] * QUICK_THREADS + [self._bulk] * BULK_THREADS
        self._threads = [threading.Thread(target=self._work, args=(queue,), daemon=True) for queue in queues]

    def run(self) -> None:
        """Serve until the input ends."""
        for thread in self._threads:
            thread.start()
        source = sys.stdin.buffer
        while len(header := source.read(HEADER.size)) == HEADER.size:
            body = source.read(read_length(header))
            request = read_request(body)
            self._room.acquire()
            (self._bulk if is_bulky(request.operation) else self._quick).put(request)
        self._handles.end()
        for queue, count in ((self._quick, QUICK_THREADS), (self._bulk, BULK_THREADS)):
            for _ in range(count):
                queue.put(None)
        for thread in self._threads:
            thread.join()
        self._handles.close_all()

    def _work(self, queue: SimpleQueue[Request | None]) -> None:
        while (request := queue.get()) is not None:
            self._answer(request)
            self._room.release()

    def _answer(self, request: Request) -> None:
        frame = memoryview(self._reply(request))
        with self._writing:
            while frame:
                frame = frame[os.write(ANSWERS, frame) :]

    def _reply(self, request: Request) -> bytearray:
        try:
            answer = perform(request.operation, self._handles)
            return write_frame(Reply(request.number, cast(AnyAnswer, answer)))
        except RequestError as error:
            failure = to_failure(error)
        except Exception as error:
            # Including an answer that can't be encoded: the thread must survive, and somebody waits.
            failure = Failure(
                kind=FailureKind.FAILED,
                message="the operation failed in the file worker; see the log of the server",
                fault=_fault(error),
            )
        return write_frame(Reply(request.number, failure))


def _fault(error: Exception) -> str:
    """Return what an error was, and where."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "" if trace is None else f" in {trace.tb_frame.f_code.co_qualname}, line {trace.tb_lineno}"
    return ascii(error)[:FAULT_CHARS] + where


if __name__ == "__main__":
    Worker().run()
