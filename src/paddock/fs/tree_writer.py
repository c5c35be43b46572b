"""A directory tree unpacked from one stream.

The stream is a tar archive of directories, regular files and symbolic links. Whatever it holds, nothing
outside the new tree changes: the writer refuses names that lead upwards, links on the way, and devices. The
tree lies beside its place until it is complete, so that nobody ever sees half of it there. The directory that
holds both is opened once, so swapping a part of its path later redirects nothing.
"""

from __future__ import annotations

import io
import os
import tarfile
import threading
from typing import IO

from paddock.errors import InvalidRequest, OperationFailed, PaddockError
from paddock.fs import resolve, unfinished_tree
from paddock.fs.archive_end import WholeEntry, finish_archive
from paddock.fs.failure import no_thread
from paddock.fs.tree_reader import END, MODE_BITS, PIECE_BYTES

MAX_DESCRIPTION_BYTES = 4 * 1024 * 1024
"""Limit for the description of an entry: its path and link target, 4 KiB each, and its attributes."""

MAX_COMMON_BYTES = 64 * 1024
"""Limit for attributes that apply to all following entries (pax(1), typeflag g). Each entry gets a copy."""

NEWEST_S = 2**63 - 1
"""The last time that the kernel takes (time_t)."""

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class TreeWriter:
    """Unpacks an archive into a new directory. Exactly one of `publish` and `discard` must follow.

    `path` must not exist, or be an empty directory. Raises OSError and InvalidRequest.
    """

    def __init__(self, path: bytes) -> None:
        self._path = os.path.realpath(path)
        self._entry = resolve.open_parent(self._path, follow=True)
        try:
            if not _is_free(self._entry):
                raise InvalidRequest(
                    f"directory {os.fsdecode(path)!r} already exists and is not empty; name a new one"
                )
            self._beside, self._root = unfinished_tree.make_in(self._entry.directory)
        except BaseException:
            os.close(self._entry.directory)
            raise
        self._problem: Exception | None = None
        self._modes: dict[bytes, tuple[int, int]] = {}
        self._tail = b""
        self.offset = 0
        """Number of bytes written so far."""
        try:
            self._pipe, self._thread = self._start()
        except BaseException:
            self._remove()
            raise

    def write(self, data: bytes) -> None:
        """Take the next bytes of the archive. Raises the error met while unpacking earlier ones."""
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._pipe, view) :]
        except BrokenPipeError:
            self._thread.join()
            raise self._fault() from self._problem
        self._tail = (self._tail + data)[-len(END) :]
        self.offset += len(data)

    def publish(self) -> None:
        """Put the tree in its place if the archive is complete; otherwise remove it and fail.

        One failure leaves the tree in its place, and its OperationFailed says so: modes could not be set.
        """
        try:
            self._finish()
            if self._problem is not None or self._tail != END:
                raise self._fault() from self._problem
            self._put_in_place()
        except BaseException:
            self._remove()
            raise
        try:
            self._set_modes()
        finally:
            self._close()

    def discard(self) -> None:
        """Remove everything unpacked so far."""
        self._finish()
        self._remove()

    # --- inside -------------------------------------------------------------

    def _start(self) -> tuple[int, threading.Thread]:
        # tarfile pulls its bytes, while the client pushes them at its own pace.
        reading, writing = os.pipe2(os.O_CLOEXEC)
        thread = threading.Thread(target=self._unpack, args=(reading,), name="paddock-fs-unpack", daemon=True)
        try:
            thread.start()
        except (RuntimeError, MemoryError) as error:
            os.close(reading)
            os.close(writing)
            raise no_thread() from error
        return writing, thread

    def _put_in_place(self) -> None:
        directory, name = self._entry
        # This can replace only an empty directory (rename(2)).
        os.rename(self._beside, name, src_dir_fd=directory, dst_dir_fd=directory)
        # The tree is moved by name, and anyone who may write the directory can swap that name.
        if not unfinished_tree.has_name(self._root, name, directory):
            raise OperationFailed(f"somebody has replaced the new tree for {os.fsdecode(self._path)!r}")

    def _set_modes(self) -> None:
        """Set modes and times last: a tree with a read-only directory could not be removed again."""
        problem: OSError | None = None
        for path, (mode, modified_at_s) in reversed(self._modes.items()):
            try:
                self._set_mode(path, mode, modified_at_s)
            except (FileNotFoundError, NotADirectoryError):
                # The tree is public by now, and somebody has removed this entry.
                continue
            except OSError as error:
                problem = error
        if problem is not None:
            raise OperationFailed(
                f"the new tree is in its place at {os.fsdecode(self._path)!r}, but not all of its "
                f"directories have their modes: {problem.strerror}"
            ) from problem

    def _set_mode(self, path: bytes, mode: int, modified_at_s: int) -> None:
        directory = resolve.open_beneath(self._root, path)
        try:
            os.utime(directory, (modified_at_s, modified_at_s))
            os.fchmod(directory, mode)
        finally:
            os.close(directory)

    def _finish(self) -> None:
        os.close(self._pipe)
        self._thread.join()

    def _remove(self) -> None:
        # Hold the lock to the end, or another writer in this place would remove the tree at the same time.
        try:
            unfinished_tree.remove(self._root, self._beside, self._entry.directory)
        finally:
            self._close()

    def _close(self) -> None:
        os.close(self._root)
        os.close(self._entry.directory)

    def _fault(self) -> Exception:
        problem = self._problem
        if isinstance(problem, PaddockError | OSError):
            return problem
        detail = "it ends too early" if problem is None else str(problem)
        return InvalidRequest(f"the archive for {os.fsdecode(self._path)!r} can't be unpacked: {detail}")

    def _unpack(self, reading: int) -> None:
        with open(reading, "rb", buffering=0) as stream:
            source = _Source(stream)
            try:
                with tarfile.open(
                    fileobj=source,
                    mode="r|",
                    bufsize=PIECE_BYTES,
                    tarinfo=WholeEntry,
                    encoding="utf-8",
                    errors="surrogateescape",
                ) as archive:
                    while (entry := source.next_of(archive)) is not None:
                        self._unpack_entry(archive, entry)
                    finish_archive(archive)
            except Exception as error:
                self._problem = error

    def _unpack_entry(self, archive: tarfile.TarFile, entry: tarfile.TarInfo) -> None:
        path = os.fsencode(entry.name)
        mode = entry.mode & MODE_BITS
        modified_at_s = int(entry.mtime)
        if abs(modified_at_s) > NEWEST_S:
            # A directory gets its time after it is in its place, when it is too late to refuse it.
            raise InvalidRequest(f"the archive holds {entry.name!r} with a time that no file can have")
        if path == b"." and entry.isdir():
            self._modes[path] = mode, modified_at_s
            return
        names = path.split(b"/")
        if not path or any(name in (b"", b".", b"..") for name in names):
            raise InvalidRequest(f"the archive holds the unsafe path {entry.name!r}")
        # No part of it may be a link, not even one that the archive has made there.
        directory = resolve.open_beneath(self._root, b"/".join(names[:-1]) or b".")
        try:
            if entry.isdir():
                os.mkdir(names[-1], 0o700, dir_fd=directory)
                self._modes[path] = mode, modified_at_s
            elif entry.issym():
                os.symlink(os.fsencode(entry.linkname), names[-1], dir_fd=directory)
            elif entry.issparse():
                # One header of the archive could fill the disk, and nobody could stop that.
                raise InvalidRequest(f"the archive holds {entry.name!r}, which is sparse; pack it whole")
            elif entry.isreg():
                content = archive.extractfile(entry)
                assert content is not None
                _write_file(content, entry, names[-1], directory)
            else:
                raise InvalidRequest(
                    f"the archive holds {entry.name!r}, which is neither a file, a directory nor a link"
                )
        finally:
            os.close(directory)


def _is_free(entry: resolve.NameInDirectory) -> bool:
    """Return whether the place is free: nothing is there, or an empty directory."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        directory = os.open(entry.name, flags, dir_fd=entry.directory)
    except FileNotFoundError:
        return True
    try:
        return not os.listdir(directory)
    finally:
        os.close(directory)


class _Source(io.RawIOBase):
    """The source of an archive. Bounds the descriptions of entries, which are held in memory."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._left_bytes: int | None = MAX_DESCRIPTION_BYTES

    def next_of(self, archive: tarfile.TarFile) -> tarfile.TarInfo | None:
        """Return the next entry. The caller must have read the content of the one before."""
        self._left_bytes = MAX_DESCRIPTION_BYTES
        entry = archive.next()
        self._left_bytes = None
        # tarfile remembers every entry, for archives that are read in any order.
        archive.members.clear()  # type: ignore[attr-defined]
        if sum(len(name) + len(value) for name, value in archive.pax_headers.items()) > MAX_COMMON_BYTES:
            raise InvalidRequest("the descriptions of the archive's entries are too long together")
        return entry

    def read(self, size: int = -1, /) -> bytes:
        """Read for tarfile. Raises InvalidRequest if a description is too long."""
        data = self._stream.read(size)
        if self._left_bytes is not None:
            self._left_bytes -= len(data)
            if self._left_bytes < 0:
                raise InvalidRequest("the description of an entry in the archive is too long")
        return data


def _write_file(content: IO[bytes], entry: tarfile.TarInfo, name: bytes, directory: int) -> None:
    descriptor = os.open(name, _CREATE, 0o600, dir_fd=directory)
    try:
        missing = entry.size
        while missing:
            piece = content.read(min(missing, PIECE_BYTES))
            if not piece:
                raise InvalidRequest(f"the archive ends in the middle of {entry.name!r}")
            missing -= len(piece)
            view = memoryview(piece)
            while view:
                view = view[os.write(descriptor, view) :]
        os.fchmod(descriptor, entry.mode & MODE_BITS)
        os.utime(descriptor, (int(entry.mtime), int(entry.mtime)))
    finally:
        os.close(descriptor)
