"""The files of a log, for writing: append, rotate, and go on where another server was killed.

One server at a time: the lock is on the tip. Everything here blocks and belongs in one thread
(`writer`). Segments are only ever appended to, so they may have the append-only attribute
(chattr(1)). The beginning of an unfinished line stays where it is; the next record has its
size and its hash.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import stat
import time
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from paddock.audit.chain import ORIGIN, Anchor, Torn, link_of, seal
from paddock.audit.event import Closed, Event, Opened, encode
from paddock.audit.recovery import find_end
from paddock.audit.segment import TIP_NAME, segment_number, segments_in
from paddock.audit.tip import TIP_BYTES, Tip, decode_tip, encode_tip
from paddock.audit.verification import segment_name
from paddock.errors import AuditLogError

DIRECTORY_MODE = 0o700
FILE_MODE = 0o600
WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class Stamped(Struct, frozen=True):
    """An event and its time."""

    time_ns: int
    event: Event
    is_redacted: bool = False
    """Whether its secrets are out already."""


class Appended(Struct, frozen=True):
    """Number of events written, and why the rest were not."""

    count: int
    error: OSError | None = None


class AuditLog:
    """An open log. Made by `open`; `close` ends it in order."""

    def __init__(
        self, directory: Path, directory_fd: int, tip_fd: int, *, segment_limit_bytes: int, is_synced: bool
    ) -> None:
        self.last = ORIGIN
        """The last record that was written."""
        self._directory = directory
        self._directory_fd = directory_fd
        """The log makes segments in this directory, wherever the path leads later."""
        self._tip_fd = tip_fd
        self._segment_limit_bytes = segment_limit_bytes
        self._is_synced = is_synced
        self._fd = -1
        self._number = 0
        self._size_bytes = 0
        self._has_head = False
        """Whether the segment has its first record, which holds the segment's number."""
        self._remainder = b""
        """Bytes after the last record that are not a record; the next record has their size and hash."""

    @classmethod
    def open(cls, directory: Path, *, segment_limit_bytes: int, is_synced: bool, version: str) -> AuditLog:
        """Take over the log, and record that it is open. Raises AuditLogError.

        Makes the directory if it is missing.
        """
        directory = directory.absolute()
        try:
            directory_fd = _open_directory(directory)
        except OSError as error:
            raise AuditLogError(str(directory), f"can't be opened: {error.strerror}") from error
        try:
            tip_fd = _open_tip(directory, directory_fd)
        except BaseException as error:
            os.close(directory_fd)
            if isinstance(error, OSError):
                raise AuditLogError(str(directory), f"can't be opened: {error.strerror}") from error
            raise
        log = cls(
            directory, directory_fd, tip_fd, segment_limit_bytes=segment_limit_bytes, is_synced=is_synced
        )
        try:
            log._take_over(version)
        except BaseException as error:
            log.release()
            if isinstance(error, OSError):
                raise AuditLogError(str(directory), f"can't be written: {error.strerror}") from error
            raise
        return log

    def append(self, stamped: Sequence[Stamped]) -> Appended:
        """Write events. The log holds all that are counted, and at most a beginning of the others."""
        try:
            self._check_files()
            self._rotate_if_full()
            data, anchors, ends = self._seal(stamped)
            written, error = _write(self._fd, data)
            self._size_bytes += written
            count = bisect_right(ends, written) - 1
            if count < 1:
                self._remainder += data[:written]
                return Appended(0, error)
            self._remainder = data[ends[count] : written]
            self.last = anchors[count]
            self._has_head = True
            if self._is_synced:
                os.fdatasync(self._fd)
            self._write_tip(is_closed=False)
        except OSError as failure:
            # Don't count what may not have reached the disk, even if it is in the log.
            return Appended(0, failure)
        return Appended(count, error)

    def close(self) -> None:
        """Record that the log is closed, if possible, and release it."""
        try:
            closed = Stamped(time.time_ns(), Closed())
            if not self._remainder and self.append([closed]).error is None:
                self._write_tip(is_closed=True)
        finally:
            self.release()

    def release(self) -> None:
        """Release the log as it is, so that another server can take it over. Idempotent."""
        for fd in (self._fd, self._tip_fd, self._directory_fd):
            if fd >= 0:
                os.close(fd)
        self._fd = self._tip_fd = self._directory_fd = -1

    def _seal(self, stamped: Sequence[Stamped]) -> tuple[bytes, list[Anchor], list[int]]:
        """Return the events as lines, and the anchor and the end of each.

        Anchors and ends begin with those of the existing records.
        """
        torn = None
        end = b""
        if self._remainder:
            # A line that lacks nothing but its end would become a record, and nobody has counted it.
            is_whole = link_of(self._remainder.rpartition(b"\n")[2]) is not None
            end = b"!\n" if is_whole else b"\n"
            unfinished = self._remainder + end[:-1]
            torn = Torn(len(unfinished), hashlib.sha256(unfinished).hexdigest())
        segment = None if self._has_head else self._number
        # End an unfinished line first.
        lines = [end]
        anchors, ends = [self.last], [len(lines[0])]
        for each in stamped:
            line, anchor = seal(anchors[-1], each.time_ns, encode(each.event), segment=segment, torn=torn)
            segment = torn = None
            lines.append(line)
            anchors.append(anchor)
            ends.append(ends[-1] + len(line))
        return b"".join(lines), anchors, ends

    # --- segments -----------------------------------------------------------

    def _check_files(self) -> None:
        """Raise OSError if records would go where nobody looks for them, or behind what others have
        written."""
        for name, fd, what in (
            (segment_name(self._number), self._fd, "segment"),
            (TIP_NAME, self._tip_fd, "tip"),
        ):
            own = os.fstat(fd)
            try:
                named = os.stat(name, dir_fd=self._directory_fd, follow_symlinks=False)
            except FileNotFoundError:
                done = "removed" if own.st_nlink == 0 else "moved away"
                raise FileNotFoundError(errno.ENOENT, f"its {what} was {done} while it was written") from None
            if not os.path.samestat(own, named):
                raise FileExistsError(errno.EEXIST, f"its {what} was replaced while it was written")
        if os.fstat(self._fd).st_size != self._size_bytes:
            raise OSError(errno.EIO, "somebody else has cut its segment or written to it")

    def _rotate_if_full(self) -> None:
        # The record after an unfinished line describes it, in the same segment.
        if self._size_bytes < self._segment_limit_bytes or self._remainder:
            return
        try:
            fd = self._create(self._number + 1)
        except OSError:
            # No descriptor left, or no room for a file: a segment over its size is better than a record less.
            return
        os.close(self._fd)
        self._fd = fd
        self._number += 1
        self._size_bytes = 0
        self._has_head = False

    def _create(self, number: int) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW
        fd = os.open(segment_name(number), flags, FILE_MODE, dir_fd=self._directory_fd)
        if self._is_synced:
            os.fsync(self._directory_fd)
        return fd

    def _write_tip(self, *, is_closed: bool) -> None:
        os.pwrite(self._tip_fd, encode_tip(Tip(self.last, is_closed)), 0)
        if self._is_synced and is_closed:
            os.fdatasync(self._tip_fd)

    # --- where another server has stopped -----------------------------------

    def _take_over(self, version: str) -> None:
        data = os.pread(self._tip_fd, TIP_BYTES + 1, 0)
        segments = segments_in(self._directory)
        tip = decode_tip(data) if data or segments else Tip()
        end = find_end(segments, tip.anchor.seq if tip is not None else 0)
        if segments:
            flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW
            self._fd = os.open(segments[-1].name, flags, dir_fd=self._directory_fd)
            self._number = segment_number(segments[-1])
            self._size_bytes = os.fstat(self._fd).st_size
        else:
            self._number = 1
            self._fd = self._create(self._number)
        if end.owes_line_end:
            self._size_bytes += os.write(self._fd, b"\n")
        self.last = end.last
        self._has_head = end.has_head
        self._remainder = end.remainder
        is_as_told = tip is None or tip.fits(end.last, end.hashes)
        opened = Opened(
            version=version,
            pid=os.getpid(),
            expected=None if tip is None or is_as_told else tip.anchor,
            tip_lost=tip is None,
        )
        if (error := self.append([Stamped(time.time_ns(), opened)]).error) is not None:
            raise error


def _write(fd: int, data: bytes) -> tuple[int, OSError | None]:
    """Write lines. Return how much was written, and why the rest was not."""
    written = 0
    view = memoryview(data)
    try:
        while written < len(data):
            written += os.write(fd, view[written:])
    except OSError as error:
        return written, error
    return written, None


def _open_directory(directory: Path) -> int:
    """Open the directory, or make it. Nobody else may have write access to it."""
    directory.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    found = os.fstat(fd)
    if found.st_uid != os.geteuid() or found.st_mode & WRITABLE_BY_OTHERS:
        os.close(fd)
        raise AuditLogError(
            str(directory), "others can write there; it must belong to the server's user and have mode 0700"
        )
    return fd


def _open_tip(directory: Path, directory_fd: int) -> int:
    """Open the tip, and lock it."""
    fd = os.open(TIP_NAME, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, FILE_MODE, dir_fd=directory_fd)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(fd)
        raise AuditLogError(
            str(directory), "another server writes it; give each server a log of its own"
        ) from error
    return fd
