"""The standard input of a process, before, during and after its life."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from paddock.errors import StdinClosed
from paddock.process.input_stream import InputStream
from paddock.process.standard_input import StandardInput


@pytest_asyncio.fixture
async def pipe() -> AsyncIterator[tuple[int, InputStream]]:
    """The end that a process reads, and the stream to it."""
    reading, writing = os.pipe()
    for end in (reading, writing):
        os.set_blocking(end, False)
    stream = InputStream(writing, is_terminal=False)
    yield reading, stream
    stream.close()
    os.close(reading)


async def test_what_is_written_during_the_start_comes_first_and_its_end_last(
    pipe: tuple[int, InputStream],
) -> None:
    reading, stream = pipe
    stdin = StandardInput("p", is_given=True)
    assert stdin.write(b"early ")
    assert stdin.write(b"input")
    stdin.end()
    with pytest.raises(StdinClosed):
        stdin.write(b"late")

    stdin.connect(stream)
    stdin.flush()

    assert (os.read(reading, 100), os.read(reading, 100)) == (b"early input", b"")


async def test_an_input_that_is_closed_takes_nothing_more(pipe: tuple[int, InputStream]) -> None:
    _, stream = pipe
    stdin = StandardInput("p", is_given=True)
    stdin.connect(stream)
    assert stdin.write(b"read by nobody")
    stdin.close()
    with pytest.raises(StdinClosed):
        stdin.write(b"late")
    stdin.end()


@pytest.mark.parametrize("is_given", [True, False])
async def test_a_process_that_is_lost_during_its_start_or_has_no_input_takes_none(*, is_given: bool) -> None:
    stdin = StandardInput("p", is_given=is_given)
    if is_given:
        stdin.close()
    else:
        with pytest.raises(StdinClosed):
            stdin.end()
    with pytest.raises(StdinClosed):
        stdin.write(b"late")
