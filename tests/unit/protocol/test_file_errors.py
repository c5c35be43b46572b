"""What the operating system refuses to do with a file, over the wire and back."""

from __future__ import annotations

import errno
import os

import pytest

from paddock.errors import (
    FileError,
    InvalidRequest,
    NotFound,
    OperationFailed,
    RequestError,
)
from paddock.fs.failure import map_os_error, to_error, to_failure, with_number
from paddock.protocol.codes import code_of, data_of, error_for

BUILTIN: tuple[tuple[int, type[RequestError], type[OSError]], ...] = (
    (errno.ENOENT, NotFound, FileNotFoundError),
    (errno.EACCES, InvalidRequest, PermissionError),
    (errno.EPERM, InvalidRequest, PermissionError),
    (errno.EINVAL, InvalidRequest, OSError),
    (errno.EEXIST, OperationFailed, FileExistsError),
    (errno.ENOTDIR, OperationFailed, NotADirectoryError),
    (errno.EISDIR, OperationFailed, IsADirectoryError),
    (errno.ENOSPC, OperationFailed, OSError),
)


@pytest.mark.parametrize(("number", "ours", "builtin"), BUILTIN)
def test_client_raises_what_is_ours_and_builtin(
    number: int, ours: type[RequestError], builtin: type[OSError]
) -> None:
    # Through a file worker, which is another process, and over the wire.
    raised = to_error(to_failure(map_os_error(OSError(number, ""), "read", b"/a\xff")))
    caught = error_for(code_of(raised), str(raised), data_of(raised))
    assert isinstance(caught, FileError)
    assert isinstance(caught, ours)
    assert isinstance(caught, builtin)
    assert (caught.errno, caught.filename) == (number, "/a\ufffd")
    assert str(caught) == str(raised)


@pytest.mark.parametrize(("number", "ours", "builtin"), BUILTIN)
def test_number_at_the_end_of_a_reference_servers_message_is_believed(
    number: int, ours: type[RequestError], builtin: type[OSError]
) -> None:
    message = f"{os.strerror(number)} (os error {number})"
    caught = error_for(code_of(ours("")), message)
    assert isinstance(caught, FileError)
    assert isinstance(caught, builtin)
    assert caught.filename is None


def test_directory_in_place_of_a_file_is_known_for_one() -> None:
    raised = with_number(InvalidRequest("path '/a' is not a file"), errno.EISDIR, b"/a")
    caught = error_for(code_of(raised), str(raised), data_of(raised))
    assert isinstance(caught, InvalidRequest)
    assert isinstance(caught, IsADirectoryError)
    assert (caught.errno, caught.filename, str(caught)) == (errno.EISDIR, "/a", "path '/a' is not a file")


@pytest.mark.parametrize(
    "data",
    [
        {"name": "fileError"},
        {"name": "fileError", "errno": "2", "path": "/x"},
        {"name": "fileError", "errno": True, "path": "/x"},
        {"name": "fileError", "errno": 2**40, "path": "/x"},
        {"name": "fileError", "errno": 2, "path": 7},
    ],
)
def test_particulars_that_make_no_sense_are_not_believed(data: object) -> None:
    caught = error_for(code_of(NotFound("")), "gone", data)
    assert type(caught) is NotFound
