"""A new version of a file, written beside it and put in its place as a whole.

Before it is published nobody sees any of it; afterwards everybody sees all of it, even after a crash. Where
the file system can (O_TMPFILE), the unpublished file has no name, so that nothing is left behind even if this
process is killed. Mode (but for the set-id bits), owner, ACL and user attributes of the old file are kept;
other hard links to it keep the old content.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable
from contextlib import suppress

from paddock.errors import InvalidRequest, OperationFailed
from paddock.fs import resolve
from paddock.fs.directory_lock import locked
from paddock.fs.set_id import SET_ID

_REPLACING = b"-replacing"
_TEMPORARY = re.compile(rb"\.paddock-[0-9a-f]{16}(?:%s)?" % _REPLACING)
_KEPT_ATTRIBUTES = ("user.", "system.posix_acl_access")


class Replacement:
    """A file under way to `path`. Exactly one of `publish`, `publish_if` and `discard` must follow.

    Raises OSError if no file can be there, and InvalidRequest if something other than a file is.
    """

    def __init__(self, path: bytes, *, follow: bool) -> None:
        # A replacement through a link replaces the target, not the link.
        target = os.path.realpath(path) if follow else path
        self._directory, self._name = resolve.open_parent(target, follow=follow)
        self._temporary: bytes | None = None
        try:
            self._old = self._look_at_old(path)
            self.descriptor = self._open()
        except BaseException:
            os.close(self._directory)
            raise

    def status(self) -> os.stat_result | None:
        """Return the status of the file in its place; None if there is none."""
        try:
            return os.stat(self._name, dir_fd=self._directory, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def publish(self) -> None:
        """Put the file in its place, or leave the old one untouched and fail. Closes the descriptor.

        Raises OSError, or OperationFailed if the owner of the old file can't be kept. One failure comes after
        the new file is in its place, and its OperationFailed says so: a crash may still undo the change.
        """
        self._publish(None)

    def publish_if(self, is_still_right: Callable[[], bool]) -> bool:
        """Do what `publish` does, but discard the file and return False if it is no longer right.

        No other replacement of Paddock's comes between the question and the new file, wherever the directory
        can be locked. Where another program keeps it locked, one may come within a few system calls.
        """
        return self._publish(is_still_right)

    def _publish(self, is_still_right: Callable[[], bool] | None) -> bool:
        listing = None
        try:
            if self._old is not None:
                self._take_after(self._old)
            # Open the directory before the file is in its place: a failure after the rename must not suggest
            # that nothing has changed.
            listing = self._open_to_list()
            os.fsync(self.descriptor)
            with locked(listing):
                if is_still_right is not None and not is_still_right():
                    return False
                self._put_in_place()
            if listing is not None:
                self._sync(listing)
        finally:
            if listing is not None:
                os.close(listing)
            self.discard()
        return True

    def _put_in_place(self) -> None:
        if self._temporary is None:
            self._temporary = _temporary_name(is_replacing=self._old is not None)
            os.link(f"/proc/self/fd/{self.descriptor}".encode(), self._temporary, dst_dir_fd=self._directory)
        os.rename(self._temporary, self._name, src_dir_fd=self._directory, dst_dir_fd=self._directory)
        self._temporary = None

    def discard(self) -> None:
        """Drop the new file and leave the old one as it was. Closes the descriptor."""
        # Some file systems report failed writes only here; whatever must be kept was synced before.
        with suppress(OSError):
            os.close(self.descriptor)
        if self._temporary is not None:
            with suppress(FileNotFoundError):
                os.unlink(self._temporary, dir_fd=self._directory)
        os.close(self._directory)

    def _look_at_old(self, path: bytes) -> os.stat_result | None:
        old = self.status()
        if old is None:
            return None
        for is_kind, number in ((stat.S_ISDIR, errno.EISDIR), (stat.S_ISLNK, errno.ELOOP)):
            if is_kind(old.st_mode):
                raise OSError(number, os.strerror(number))
        if not stat.S_ISREG(old.st_mode):
            raise InvalidRequest(f"path {os.fsdecode(path)!r} is not a regular file")
        # A rename needs write permission only on the directory; require it on the file too.
        if not os.access(self._name, os.W_OK, dir_fd=self._directory, effective_ids=True):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        return old

    def _open(self) -> int:
        # Nobody else may read the file before it gets the mode of the old one.
        mode = 0o666 if self._old is None else 0o600
        if os.path.exists("/proc/self/fd"):
            # Kernels and file systems without O_TMPFILE answer EISDIR or EOPNOTSUPP (open(2)).
            with suppress(IsADirectoryError, _NotSupported):
                return _open_unnamed(self._directory, mode)
        self._temporary = _temporary_name(is_replacing=self._old is not None)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(self._temporary, flags, mode, dir_fd=self._directory)

    def _take_after(self, old: os.stat_result) -> None:
        new = os.fstat(self.descriptor)
        if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
            try:
                os.fchown(self.descriptor, old.st_uid, old.st_gid)
            except PermissionError as error:
                raise OperationFailed(
                    f"can't keep the owner {old.st_uid}:{old.st_gid} of {os.fsdecode(self._name)!r} in an "
                    "atomic write; write it without atomic"
                ) from error
        # Drop the set-id bits, as any write does: this is a different program now.
        os.fchmod(self.descriptor, stat.S_IMODE(old.st_mode) & ~SET_ID)
        self._keep_attributes()

    def _keep_attributes(self) -> None:
        # The file can't be read, or the file system has no attributes: there is nothing to keep.
        with suppress(OSError):
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            old = os.open(self._name, flags, dir_fd=self._directory)
            try:
                for name in os.listxattr(old):
                    if name.startswith(_KEPT_ATTRIBUTES):
                        os.setxattr(self.descriptor, name, os.getxattr(old, name))
            finally:
                os.close(old)

    def _open_to_list(self) -> int | None:
        # A directory that we may write but not read can't be synced, nor locked.
        with suppress(PermissionError):
            return os.open(b".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._directory)
        return None

    def _sync(self, directory: int) -> None:
        try:
            os.fsync(directory)
        except OSError as error:
            # Some file systems can't sync directories (fsync(2)), and promise nothing about renames.
            if error.errno not in (errno.EINVAL, errno.EROFS, errno.EOPNOTSUPP):
                raise OperationFailed(
                    f"the new {os.fsdecode(self._name)!r} is in its place, but may be lost in a crash: "
                    f"{os.strerror(error.errno or errno.EIO)}"
                ) from error


class _NotSupported(OSError):
    """The file system has no files without a name."""


def _open_unnamed(directory: int, mode: int) -> int:
    try:
        return os.open(b".", os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, mode, dir_fd=directory)
    except OSError as error:
        if error.errno == errno.EOPNOTSUPP:
            raise _NotSupported from error
        raise


def _temporary_name(*, is_replacing: bool) -> bytes:
    return b".paddock-" + os.urandom(8).hex().encode() + (_REPLACING if is_replacing else b"")


def is_replacing(name: bytes) -> bool:
    """Return whether a name belongs to a file that will replace another."""
    return name.endswith(_REPLACING) and is_temporary(name)


def is_temporary(name: bytes) -> bool:
    """Return whether a name belongs to a file or tree that is not in its place yet."""
    return _TEMPORARY.fullmatch(name) is not None
