"""Watches mounts as the kernel reports them: whether a sandbox has lost one, and whether the host's change.

A mount disappears with the file that it covers. If a file that a sandbox hides is removed on the host and
created again, no mount covers the new one, which may well have the old inode number (ext4 gives out the
lowest free one). So a missing mount is proof, and an inode number is not.

A later mount on the host does not appear in an existing sandbox, and a later unmount removes nothing from it.
Whoever keeps a sandbox makes another when the host's mounts have changed.
"""

from __future__ import annotations

import os
import select

from paddock.errors import ProfileRefused
from paddock.sandbox.host.mount_line import mount_lines

_PIECE_BYTES = 1 << 16


class MountChanges:
    """Counts the changes of this process's mounts. `close` it in the end."""

    def __init__(self) -> None:
        """Begin to watch. Raises OSError where there is no /proc."""
        self._file, self._news = _watch("self")
        self._count = 0

    def count(self) -> int:
        """Return a number that rises when something is mounted or unmounted. Takes a microsecond."""
        self._count += bool(self._news.poll(0))
        return self._count

    def close(self) -> None:
        """Stop watching."""
        os.close(self._file)


class MountTable:
    """The mounts of another process's namespace. `close` it in the end."""

    def __init__(self, pid: int) -> None:
        """Remember the present mounts. Raises OSError when the process has ended, or as `mount_lines`."""
        self._file, self._news = _watch(pid)
        self._is_whole = True
        try:
            self._mounts = self._read()
        except BaseException:
            self.close()
            raise

    def has_lost(self) -> bool:
        """Return whether something that was mounted in the beginning no longer is.

        Takes a microsecond, unless something has changed.
        """
        if self._is_whole and self._news.poll(0):
            try:
                self._is_whole = self._mounts <= self._read()
            except (OSError, ProfileRefused):
                self._is_whole = False
        return not self._is_whole

    def close(self) -> None:
        """Stop watching."""
        os.close(self._file)

    def _read(self) -> set[tuple[bytes, bytes]]:
        """Return the id and the mount point of every mount."""
        text = b""
        while piece := os.pread(self._file, _PIECE_BYTES, len(text)):
            text += piece
        return {(line.number, line.point) for line in mount_lines(text)}


def _watch(pid: int | str) -> tuple[int, select.poll]:
    """Return the open table of a process, and a poll object that reports each change once."""
    file = os.open(f"/proc/{pid}/mountinfo", os.O_RDONLY | os.O_CLOEXEC)
    news = select.poll()
    # This is how the kernel reports a change, proc_pid_mountinfo(5).
    news.register(file, select.POLLPRI)
    return file, news
