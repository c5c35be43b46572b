"""Finds files of the host without following links."""

from __future__ import annotations

import os

from paddock.sandbox.host.mounted_file import MountedFile
from paddock.sandbox.profile.path import ROOT


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
    try:
        status = os.lstat(file.path)
    except OSError:
        return False
    return (status.st_dev, status.st_ino) == (file.device, file.inode)


Identity = tuple[int, int] | None
"""Device and inode of what is at a path; None if nothing is there, or nobody can tell."""


def identity_at(path: str) -> Identity:
    """Return the identity of what is at a path now, without following a link at its end."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
