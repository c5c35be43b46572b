"""Errors of the server's operating system about files. Most are builtin exceptions too."""

from __future__ import annotations

import errno as errno_names
import os

from paddock.errors.request import InvalidRequest, NotFound, OperationFailed, RequestError


class FileError(RequestError, OSError):
    """The operating system refused an operation on a server's file; see `errno` and `filename`.

    Only a client raises these; `filename` is None where the server does not report it.
    """

    def __init__(self, message: str, number: int, path: str | None) -> None:
        OSError.__init__(self, number, os.strerror(number), path)
        self.message = message

    def __reduce__(self) -> tuple[type[FileError], tuple[object, ...]]:
        # That of OSError would not pass on the message.
        return type(self), (self.message, self.errno, self.filename)

    def __str__(self) -> str:
        return self.message


class FileMissing(FileError, NotFound, FileNotFoundError):
    """There is no such file or directory."""


class FileForbidden(FileError, InvalidRequest, PermissionError):
    """The server's user, or the sandbox, lacks the permission."""


class FileUnfit(FileError, InvalidRequest):
    """The operation makes no sense for this file."""


class FileTaken(FileError, OperationFailed, FileExistsError):
    """The path exists already."""


class FileNotDirectory(FileError, OperationFailed, NotADirectoryError):
    """The operation needs a directory, and the path is not one."""


class FileIsDirectory(FileError, OperationFailed, InvalidRequest, IsADirectoryError):
    """The path is a directory, and the operation needs something else."""


class FileFailed(FileError, OperationFailed):
    """Anything else: no space, a name that is too long, a directory that is not empty."""


_FILE_ERRORS: tuple[tuple[type[FileError], frozenset[int] | None], ...] = (
    (FileMissing, None),
    (FileForbidden, frozenset({errno_names.EACCES, errno_names.EPERM})),
    (FileTaken, frozenset({errno_names.EEXIST})),
    (FileNotDirectory, frozenset({errno_names.ENOTDIR})),
    (FileIsDirectory, frozenset({errno_names.EISDIR})),
    (FileUnfit, None),
    (FileFailed, None),
)


def file_error(family: type[RequestError], message: str, number: int, path: str | None) -> RequestError:
    """Return the exception for an error number that came with an error of this family."""
    for kind, numbers in _FILE_ERRORS:
        if issubclass(kind, family) and (numbers is None or number in numbers):
            return kind(message, number, path)
    return family(message)
