from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from paddock.cli import stream_copy
from paddock.cli.input_source import PAGE_BYTES, source_of
from paddock.cli.stream_copy import InputCopy, OutputCopy

LARGE = bytes(range(256)) * 4096


@pytest.fixture(params=["pipe", "socket"])
def ends(request: pytest.FixtureRequest) -> Iterator[tuple[int, int]]:
    """Where input is read from, and where it is written to."""
    if request.param == "pipe":
        reader, writer = os.pipe()
    else:
        reader, writer = (side.detach() for side in socket.socketpair())
    yield reader, writer
    os.close(reader)


def _begin(reader: int) -> InputCopy:
    copy = InputCopy(source_of(reader, os.fstat(reader)))
    copy.start()
    return copy


def test_what_the_command_has_not_read_is_left_to_others(ends: tuple[int, int]) -> None:
    reader, writer = ends
    os.write(writer, b"one two three")
    copy = _begin(reader)
    assert os.read(copy.stream, 4) == b"one "
    copy.command_ended()
    copy.finish()
    assert os.read(reader, 100) == b"two three"
    os.close(writer)


def test_input_arrives_whole_and_ends(ends: tuple[int, int]) -> None:
    reader, writer = ends

    def write() -> None:
        with os.fdopen(writer, "wb") as output:
            output.write(LARGE)

    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(write)
        copy = _begin(reader)
        pieces = iter(lambda: os.read(copy.stream, 100_000), b"")
        assert b"".join(pieces) == LARGE
        written.result()
    copy.command_ended()
    copy.finish()


def test_end_of_the_command_ends_a_copy_that_waits_for_input(ends: tuple[int, int]) -> None:
    reader, writer = ends
    copy = _begin(reader)
    copy.command_ended()
    copy.finish()
    os.write(writer, b"later")
    assert os.read(reader, 100) == b"later"
    os.close(writer)


def test_each_write_of_the_command_is_one_write() -> None:
    receiver, target = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    copy = OutputCopy(target.fileno())
    command = os.dup(copy.stream)
    for piece in (b"one", b"two", b"three"):
        os.write(command, piece)
    copy.start()
    assert [receiver.recv(100) for _ in range(3)] == [b"one", b"two", b"three"]
    copy.command_ended()
    assert copy.finish() is None
    os.close(command)
    receiver.close()
    target.close()


def test_small_writes_go_on_together_and_none_is_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, target = os.pipe()
    written: list[bytes] = []
    monkeypatch.setattr(stream_copy, "write_all", lambda _, data: written.append(data))
    copy = OutputCopy(target)
    lines = [b"%03d\n" % number * 100 for number in range(12)]
    for line in lines:
        os.write(copy.stream, line)
    copy.start()
    copy.command_ended()
    assert copy.finish() is None
    assert b"".join(written) == b"".join(lines)
    assert len(written) < len(lines)
    assert all(len(data) <= PAGE_BYTES and len(data) % len(lines[0]) == 0 for data in written)
    for fd in (reader, target):
        os.close(fd)


def test_output_is_drained_though_somebody_keeps_the_pipe_open() -> None:
    reader, target = os.pipe()
    copy = OutputCopy(target)
    kept = os.dup(copy.stream)
    copy.start()
    os.write(kept, b"all of it")
    copy.command_ended()
    assert copy.finish() is None
    assert os.read(reader, 100) == b"all of it"
    for fd in (kept, reader, target):
        os.close(fd)


def test_reader_that_goes_away_is_noticed_without_a_write() -> None:
    reader, target = os.pipe()
    copy = OutputCopy(target)
    command = os.dup(copy.stream)
    copy.start()
    os.close(reader)
    # Ends by itself.
    assert copy.finish() is None
    with pytest.raises(BrokenPipeError):
        os.write(command, b"to nobody")
    os.close(command)
    os.close(target)


def test_reader_that_takes_nothing_is_not_waited_for_longer_than_wanted() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writer, bytes(PAGE_BYTES))
    os.set_blocking(writer, True)
    copy = OutputCopy(writer)
    os.write(copy.stream, b"no room for this")
    copy.start()
    copy.command_ended()
    problem = copy.finish(patience_s=0.1)
    os.close(reader)
    assert problem is not None
    assert problem.errno == errno.ETIMEDOUT
    # Now that nobody can read any more, it ends.
    assert copy.finish() is None
    os.close(writer)


def test_reader_that_takes_its_time_gets_everything() -> None:
    reader, writer = os.pipe()
    copy = OutputCopy(writer)
    stream = os.dup(copy.stream)
    copy.start()
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(lambda: sum(len(piece) for piece in iter(lambda: os.read(reader, 1000), b"")))
        for _ in range(100):
            os.write(stream, bytes(PAGE_BYTES))
        os.close(stream)
        copy.command_ended()
        assert copy.finish(patience_s=30) is None
        os.close(writer)
        assert read.result() == 100 * PAGE_BYTES
    os.close(reader)
