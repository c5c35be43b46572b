"""A process on the server, for programs that block."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from types import TracebackType
from typing import Literal, TypeVar, overload

from paddock.client.ending import Ending
from paddock.client.event_sequence import Gap
from paddock.client.inbox import Output
from paddock.client.process import Process as AsyncProcess
from paddock.client.process import ProcessState
from paddock.sync.facade import Facade, blocking

T = TypeVar("T")


class Process(Facade[AsyncProcess]):
    """A started process. Made by `Box.start` and `Box.attach`; see `paddock.Process`."""

    wait = blocking(AsyncProcess.wait)
    communicate = blocking(AsyncProcess.communicate)
    write = blocking(AsyncProcess.write)
    close_stdin = blocking(AsyncProcess.close_stdin)
    resize = blocking(AsyncProcess.resize)
    signal = blocking(AsyncProcess.signal)
    terminate = blocking(AsyncProcess.terminate)
    snapshot = blocking(AsyncProcess.snapshot)
    read_until = blocking(AsyncProcess.read_until)

    @property
    def process_id(self) -> str:
        """Return the name of the process in its session."""
        return self._inner.process_id

    @property
    def exit_code(self) -> int | None:
        """Return the exit status, 128+n for signal n; None until this client learns it."""
        return self._inner.exit_code

    @property
    def ending(self) -> Ending | None:
        """Return how the process ended; None until this client learns it. See `paddock.Process.ending`."""
        return self._inner.ending

    @property
    def is_closed(self) -> bool:
        """Return whether the process has exited and all its output has arrived, read or not."""
        return self._inner.is_closed

    @property
    def state(self) -> ProcessState:
        """Return the state of the process, as far as the client knows it."""
        return self._inner.state

    @property
    def read_seq(self) -> int:
        """Return the number of the last event read here.

        Pass it to `Box.attach` as `after_seq` to continue after that event elsewhere.
        """
        return self._inner.read_seq

    def __iter__(self) -> Iterator[Output]:
        return self.output()

    @overload
    def output(self, *, on_gap: Literal["raise"] = "raise") -> Iterator[Output]: ...

    @overload
    def output(self, *, on_gap: Literal["yield"]) -> Iterator[Output | Gap]: ...

    def output(self, *, on_gap: Literal["raise", "yield"] = "raise") -> Iterator[Output | Gap]:
        """Yield output as it arrives, until the end; see `paddock.Process.output`."""
        if on_gap == "raise":
            return self._iterate(self._portal.call(_read(self._inner)))
        return self._iterate(self._portal.call(_read_with_gaps(self._inner)))

    def text(self) -> Iterator[str]:
        """Yield output as text, in whole characters; see `paddock.Process.text`."""
        return self._iterate(self._portal.call(_read_text(self._inner)))

    def lines(self) -> Iterator[str]:
        """Yield lines without their line ends; see `paddock.Process.lines`."""
        return self._iterate(self._portal.call(_read_lines(self._inner)))

    def _iterate(self, reader: AsyncIterator[T]) -> Iterator[T]:
        while (item := self._portal.call(_next(reader))) is not None:
            yield item

    def __enter__(self) -> Process:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._portal.call(self._inner.__aexit__(kind, error, trace))


# A reader counts from the moment it is made, so the loop's own thread must make it.


async def _read(process: AsyncProcess) -> AsyncIterator[Output]:
    return process.output()


async def _read_with_gaps(process: AsyncProcess) -> AsyncIterator[Output | Gap]:
    return process.output(on_gap="yield")


async def _read_text(process: AsyncProcess) -> AsyncIterator[str]:
    return process.text()


async def _read_lines(process: AsyncProcess) -> AsyncIterator[str]:
    return process.lines()


async def _next(reader: AsyncIterator[T]) -> T | None:
    return await anext(reader, None)
