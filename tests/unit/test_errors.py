"""Our exceptions that are builtin ones too: their attributes, and their way to another process."""

from __future__ import annotations

import errno
import pickle

import pytest

from paddock.errors import (
    FileError,
    FileMissing,
    HandshakeRefused,
    PaddockError,
    RequestTimeout,
    RulesFileError,
    RunTimeout,
    WaitTimeout,
    WriteLost,
)

TIMEOUTS = [
    RunTimeout(("sleep", "5"), 0.2, b"out", b"err"),
    WaitTimeout("p", 1.0, "exit"),
    RequestTimeout("no answer"),
]
MISSING = FileMissing("can't open '/a': No such file or directory", errno.ENOENT, "/a")


@pytest.mark.parametrize("error", TIMEOUTS, ids=lambda error: type(error).__name__)
def test_timeout_has_no_error_number_and_no_file(error: PaddockError) -> None:
    assert isinstance(error, TimeoutError)
    assert (error.errno, error.strerror, error.filename) == (None, None, None)


OTHERS = [
    HandshakeRefused("ws://127.0.0.1:1", 401, "no token"),
    RulesFileError("team.rules", "no such function", (1, 2), "x()", is_unreadable=False),
    WriteLost("/a", "unchanged", "the connection was reset"),
]


@pytest.mark.parametrize("error", [*TIMEOUTS, MISSING, *OTHERS], ids=lambda error: type(error).__name__)
def test_error_arrives_whole_in_another_process(error: PaddockError) -> None:
    arrived = pickle.loads(pickle.dumps(error))
    assert type(arrived) is type(error)
    assert (str(arrived), vars(arrived)) == (str(error), vars(error))


def test_file_error_keeps_its_number_and_path_on_the_way() -> None:
    arrived = pickle.loads(pickle.dumps(MISSING))
    assert isinstance(arrived, FileError)
    assert (arrived.errno, arrived.filename) == (errno.ENOENT, "/a")
