"""Requests about files of the server: what its operating system said, as builtin exceptions too."""

from __future__ import annotations

import errno as errno_names
import os

from paddock.errors.request import InvalidRequest, NotFound, OperationFailed, RequestError


class FileError(RequestError, OSError):
    """The operating system refused something with a file of the server's; `errno` and `filename` say what.

    Only a client raises these; `filename` is None where the server does not tell it.
    """

    def __init__(self, message: str, number: int, path: str | None) -> None:
        OSError.__init__(self, number, os.strerror(number), path)
        self.message = message

    def __str__(self) -> str:
        return self.message


class FileMissing(FileError, NotFound, FileNotFoundError):
    """There is no such file or directory."""


class FileForbidden(FileError, InvalidRequest, PermissionError):
    """The server's user, or the sandbox, may not do that."""


class FileUnfit(FileError, InvalidRequest):
    """What was asked makes no sense for this file."""


class FileTaken(FileError, OperationFailed, FileExistsError):
    """Something is there already."""


class FileNotDirectory(FileError, OperationFailed, NotADirectoryError):
    """A directory is needed, and it is none."""


class FileIsDirectory(FileError, OperationFailed, IsADirectoryError):
    """It is a directory, and something else is needed."""


class FileFailed(FileError, OperationFailed):
    """Anything else: no space, a name that is too long, a directory that is not empty."""


_FILE_ERRORS: tuple[tuple[type[FileError], frozenset[int] | None], ...] = (
    (FileMissing, None),
    (FileForbidden, frozenset({errno_names.EACCES, errno_names.EPERM})),
    (FileUnfit, None),
    (FileTaken, frozenset({errno_names.EEXIST})),
    (FileNotDirectory, frozenset({errno_names.ENOTDIR})),
    (FileIsDirectory, frozenset({errno_names.EISDIR})),
    (FileFailed, None),
)


def file_error(family: type[RequestError], message: str, number: int, path: str | None) -> RequestError:
    """Return the exception for an error number that came with an error of this family."""
    for kind, numbers in _FILE_ERRORS:
        if issubclass(kind, family) and (numbers is None or number in numbers):
            return kind(message, number, path)
    return family(message)
