"""Finds files of the host without following links.

Compiled where Python's headers were available: a plan looks at some sixty paths, and each look then takes a
fraction of the time.
"""

from __future__ import annotations

import os

from paddock.sandbox.host.mounted_file import MountedFile
from paddock.sandbox.profile.path import ROOT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

Identity = tuple[int, int] | None
"""Device and inode of what is at a path; None if nothing is there, or nobody can tell."""

Status = tuple[int, int, int, int]
"""Mode, owner, size in bytes and number of names."""


def open_without_links(path: str) -> int:
    """Open an absolute path, to examine it or act in it. Raises OSError if a link is on the way.

    Opens a link at the end of the path itself.
    """
    file = os.open(ROOT, os.O_PATH | os.O_CLOEXEC)
    for name in path.strip("/").split("/") if path != ROOT else ():
        try:
            following = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=file)
        finally:
            os.close(file)
        file = following
    return file


def is_at(file: MountedFile) -> bool:
    """Return whether a file of the host still has its path."""
    return identity_at(file.path) == (file.device, file.inode)


def real_path(path: str) -> str:
    """Return what `os.path.realpath` does for an absolute path."""
    return path if _is_real(path) else os.path.realpath(path)


def real_path_there(path: str) -> str:
    """Return what `os.path.realpath` does for an absolute path that must exist. Raises OSError."""
    return path if _is_real_and_there(path) else os.path.realpath(path, strict=True)


def _status_at(path: str) -> Status | int:
    try:
        found = os.lstat(path)
    except OSError as error:
        return error.errno or 0
    return found.st_mode, found.st_uid, found.st_size, found.st_nlink


def _identity_at(path: str) -> Identity:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _identity_without_links(path: str) -> tuple[int, int]:
    file = open_without_links(path)
    try:
        found = os.fstat(file)
    finally:
        os.close(file)
    return found.st_dev, found.st_ino


status_at: Callable[[str], Status | int]
"""Return the status of what is at a path now, without following a link at its end, or an errno."""
identity_at: Callable[[str], Identity]
"""Return the identity of what is at a path now, without following a link at its end."""
identity_without_links: Callable[[str], tuple[int, int]]
"""Return the identity of what is at an absolute path. Raises OSError if a link is on the way."""
_is_real: Callable[[str], bool]
_is_real_and_there: Callable[[str], bool]
try:
    from paddock.sandbox.host import _linkless
except ImportError:
    status_at, identity_at, identity_without_links = _status_at, _identity_at, _identity_without_links
    _is_real = _is_real_and_there = lambda _: False
else:
    status_at, identity_at = _linkless.status, _linkless.identity
    identity_without_links = _linkless.identity_without_links
    _is_real, _is_real_and_there = _linkless.is_real, _linkless.is_real_and_there
