"""The files of an installation: which of them are links, and which have several names.

A path that is read-only protects a name, not the file. Some installers give each file of a package two names:
one in the environment, one in a cache or in every other environment with the same package. They do so with
all files of a package or with none, so only a package with such a file at its top is looked at as a whole.

This is imported before the import path is narrowed: it must import nothing that is looked for in a project.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Final

FileId = tuple[int, int]
"""Device and inode."""


class InstalledFiles:
    """The links and the shared files of an installation."""

    def __init__(self) -> None:
        self.links: Final[list[str]] = []
        """Symbolic links among them."""
        self.shared: Final[dict[FileId, str]] = {}
        """Files with several names that this user could change by one of them."""

    def look_at(self, paths: Iterable[str]) -> None:
        """Examine files and packages, as far as they exist."""
        for path in paths:
            before = len(self.links) + len(self.shared)
            directories = self._look_at_one(path)
            if len(self.links) + len(self.shared) == before:
                continue
            while directories:
                directories += self._look_into(directories.pop())

    def _look_at_one(self, path: str) -> list[str]:
        """Examine a file, or the top of a directory. Return the directories in it."""
        try:
            status = os.lstat(path)
            if stat.S_ISLNK(status.st_mode):
                self.links.append(path)
                path = os.path.realpath(path)
                status = os.stat(path)
        except OSError:
            return []
        if stat.S_ISDIR(status.st_mode):
            return self._look_into(path)
        self._note(path, status)
        return []

    def _look_into(self, directory: str) -> list[str]:
        """Examine the content of a directory. Return the directories in it."""
        directories: list[str] = []
        # This process can't import what it can't read.
        with suppress(OSError), os.scandir(directory) as entries:
            for entry in entries:
                if entry.is_symlink():
                    directories += self._look_at_one(entry.path)
                elif entry.is_dir():
                    directories.append(entry.path)
                else:
                    self._note(entry.path, entry.stat())
        return directories

    def _note(self, path: str, status: os.stat_result) -> None:
        if status.st_nlink < 2:
            return
        if os.geteuid() in (0, status.st_uid) or os.access(path, os.W_OK):
            self.shared.setdefault((status.st_dev, status.st_ino), path)
