"""Requests that no Spawner sends: the helper survives them or ends, and does nothing else."""

from __future__ import annotations

import errno
import os
import socket
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from paddock.process import spawner as spawner_module


@pytest.fixture
def null() -> Iterator[int]:
    fd = os.open(os.devnull, os.O_RDWR)
    yield fd
    os.close(fd)


RECORD = struct.Struct("<IiiIQQQQ")


@contextmanager
def bare_helper() -> Iterator[socket.socket]:
    """The helper, ready, on a socket the test may write nonsense to."""
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            pid = spawner_module._start_helper(theirs.fileno())
        ready = ours.recv(RECORD.size, socket.MSG_WAITALL)
        assert RECORD.unpack(ready)[:2] == (1, pid)
        yield ours
    assert os.waitpid(pid, 0) == (pid, 0)


@pytest.mark.parametrize(
    "message",
    [
        struct.pack("<II", 0, 99),
        struct.pack("<II", (8 << 20) + 1, 1),
        struct.pack("<II", 4, 1) + b"1234",
        struct.pack("<II", 3, 2) + b"123",
    ],
    ids=["unknown-kind", "oversized", "no-token", "short-kill"],
)
def test_stream_that_makes_no_sense_ends_the_helper(message: bytes) -> None:
    with bare_helper() as connection:
        connection.send(message)
        assert connection.recv(1) == b""


@pytest.mark.parametrize(
    ("counts", "strings"),
    [
        ((0, 1, 0), b"/bin/true\0/\0true"),
        ((0, 1, 0), b""),
        ((0, 5, 0), b"/bin/true\0/\0true\0"),
        ((0, 1, 1), b"/bin/true\0/\0true\0"),
        ((0, 1, 0), b"/bin/true\0/\0true\0more\0"),
        ((0, 0, 1), b"/bin/true\0/\0true\0"),
        ((0, 2**32 - 1, 2**32 - 1), b"/bin/true\0/\0true\0"),
        ((2**32 - 1, 1, 0), b"/bin/true\0/\0true\0"),
        ((16, 1, 0), b"/bin/true\0/\0true\0"),
    ],
)
def test_malformed_spawn_is_answered_and_the_helper_goes_on(
    null: int, counts: tuple[int, int, int], strings: bytes
) -> None:
    def answer_to(counts: tuple[int, int, int], strings: bytes) -> tuple[int, ...]:
        payload = struct.pack("<QIIIII", 7, 0, *counts, 0) + strings
        message = struct.pack("<II", len(payload), 1) + payload
        socket.send_fds(connection, [message], [null] * 3)
        return RECORD.unpack(connection.recv(RECORD.size, socket.MSG_WAITALL))

    with bare_helper() as connection:
        kind, pid, status, stage, token, *_ = answer_to(counts, strings)
        assert (kind, pid, status, stage, token) == (2, 0, errno.EINVAL, 5, 7)
        kind, _, status, _, token, *_ = answer_to((0, 1, 0), b"/bin/true\0/\0true\0")
        assert (kind, status, token) == (2, 0, 7)


def test_kill_of_a_process_the_helper_did_not_start_is_ignored(null: int) -> None:
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, start_new_session=True) as stranger:
        with bare_helper() as connection:
            # Not 1 or -1: should the check be missing, they would reach kill(2) as "everybody" and init.
            for pid in (stranger.pid, 2**31 - 1, 0):
                connection.send(struct.pack("<IIi", 4, 2, pid))
        assert stranger.stdin is not None
        stranger.stdin.close()
        assert stranger.wait() == 0
