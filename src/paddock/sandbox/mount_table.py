"""The mounts of a sandbox, as the kernel tells them: whether one has been lost.

A mount goes with what it is on. When a file that a sandbox hides is removed on the host and made
anew, the new one has no mount on it, and may well have the old one's inode number (ext4 gives
the lowest that is free). So the number does not tell; that a mount is gone does.
"""

from __future__ import annotations

import os
import select

_PIECE_BYTES = 1 << 16


class MountTable:
    """The mounts of another process's namespace. `close` it in the end."""

    def __init__(self, pid: int) -> None:
        """Remember what is mounted now. Raises OSError when the process is gone."""
        self._file = os.open(f"/proc/{pid}/mountinfo", os.O_RDONLY | os.O_CLOEXEC)
        self._news = select.poll()
        # The kernel tells a change so, proc_pid_mountinfo(5).
        self._news.register(self._file, select.POLLPRI)
        self._is_whole = True
        try:
            self._mounts = self._read()
        except BaseException:
            self.close()
            raise

    def has_lost(self) -> bool:
        """Whether something is not mounted any more that was in the beginning.

        Takes a microsecond, unless something has changed.
        """
        if self._is_whole and self._news.poll(0):
            try:
                self._is_whole = self._mounts <= self._read()
            except OSError:
                self._is_whole = False
        return not self._is_whole

    def close(self) -> None:
        """Ask nothing more of it."""
        os.close(self._file)

    def _read(self) -> set[tuple[bytes, bytes]]:
        """The id and the place of every mount."""
        text = b""
        while piece := os.pread(self._file, _PIECE_BYTES, len(text)):
            text += piece
        fields = (line.split(b" ", 5) for line in text.splitlines())
        return {(mount_id, place) for mount_id, _, _, _, place, *_ in fields}
