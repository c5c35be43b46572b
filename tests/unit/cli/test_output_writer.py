"""Output that an event loop writes, whatever its readers do."""

from __future__ import annotations

import asyncio
import errno
import os
import threading

import pytest

from paddock.cli.output_writer import OutputWriter

MORE_THAN_A_PIPE = b"x" * (1 << 20)


async def test_output_is_written_in_order_however_slow_its_reader_is() -> None:
    reader, writer = os.pipe()
    output = OutputWriter()
    writing = [asyncio.create_task(output.write(writer, data)) for data in (MORE_THAN_A_PIPE, b"end")]
    with os.fdopen(reader, "rb") as file:
        assert await asyncio.to_thread(file.read, len(MORE_THAN_A_PIPE) + 3) == MORE_THAN_A_PIPE + b"end"
    await asyncio.gather(*writing)
    output.close()
    os.close(writer)


async def test_a_write_that_nobody_reads_can_be_given_up() -> None:
    reader, writer = os.pipe()
    output = OutputWriter()
    writing = asyncio.create_task(output.write(writer, MORE_THAN_A_PIPE))
    assert len(await asyncio.to_thread(os.read, reader, 1)) == 1
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    output.close()
    (thread,) = (each for each in threading.enumerate() if each.name == "stdout" and each.is_alive())
    assert thread.daemon
    os.close(reader)
    thread.join()
    os.close(writer)


async def test_a_failure_to_write_is_the_callers() -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    output = OutputWriter()
    for _ in range(2):
        with pytest.raises(OSError, match="No space") as raised:
            await output.write(full, b"x")
        assert raised.value.errno == errno.ENOSPC
    output.close()
    os.close(full)


async def test_output_for_which_there_is_no_thread_is_not_lost_without_a_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    output = OutputWriter()
    with monkeypatch.context() as short:
        short.setattr(threading.Thread, "start", refuse)
        with pytest.raises(OSError, match="no thread can be started; raise the limit of processes"):
            await output.write(1, b"x")
    output.close()
