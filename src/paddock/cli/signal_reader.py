"""Reads signals in an event loop that starts a command.

`loop.add_signal_handler` does the same for any callback. It looks whether that is a coroutine function, and
for this it imports `inspect`, which takes longer than the command.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

SIGNALS_AT_ONCE: Final = 4096
"""Signals that one turn of the loop reads, as many as asyncio does. 64 KiB of them wait in the pipe."""


@contextmanager
def signals_read(
    numbers: Iterable[signal.Signals], received: Callable[[signal.Signals], object]
) -> Iterator[None]:
    """Call `received` in the running loop for each of these signals, for the time of the block.

    Only the main thread can do this (signal.set_wakeup_fd). Afterwards the signals do what they did before.
    """
    loop = asyncio.get_running_loop()
    wanted = frozenset(numbers)
    reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def read() -> None:
        # The pipe gets every signal that has a handler in Python.
        for number in os.read(reader, SIGNALS_AT_ONCE):
            if number in wanted:
                received(signal.Signals(number))

    former_fd = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    loop.add_reader(reader, read)
    former = {number: signal.signal(number, _leave_it_to_the_pipe) for number in wanted}
    for number in wanted:
        # Calls of the system in other threads go on (siginterrupt(3)).
        signal.siginterrupt(number, False)
    try:
        yield
    finally:
        for number, handler in former.items():
            # None is a handler that was not set from Python.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        signal.set_wakeup_fd(former_fd)
        loop.remove_reader(reader)
        os.close(reader)
        os.close(writer)


def _leave_it_to_the_pipe(_number: int, _frame: object) -> None:
    pass
