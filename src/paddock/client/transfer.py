"""Copies files and directories of any size between this host and the server's, in bounded memory.

A directory travels as one tar archive where the server can make and unpack one; elsewhere, as with the
reference server, it goes file by file, without modes, and files transferred before a failure stay.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Awaitable, Callable
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING

from paddock.client.local_source import next_piece, open_source
from paddock.client.remote_file import BLOCK_BYTES, RemoteWriter
from paddock.client.thread_work import in_thread
from paddock.errors import LocalFileError, OperationFailed, PaddockError
from paddock.fs.replacement import Replacement
from paddock.fs.tree_reader import TreeReader
from paddock.fs.tree_writer import TreeWriter

if TYPE_CHECKING:
    from paddock.client.files import Files, Progress
    from paddock.client.wire_path import RemotePathLike


EXECUTABLE = stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH


class _Meter:
    """Counts bytes for a progress function."""

    def __init__(self, progress: Progress | None, total: int | None) -> None:
        self._progress = progress
        self._total = total
        self._done = 0

    def add(self, count: int) -> None:
        self._done += count
        if self._progress is not None:
            self._progress(self._done, self._total)


async def upload(
    files: Files, source: str | PathLike[str], destination: RemotePathLike, progress: Progress | None
) -> None:
    """See `Files.upload`. Raises LocalFileError for what goes wrong on this side."""
    local = os.fsencode(source)
    try:
        status = await in_thread(os.stat, local)
        if not stat.S_ISDIR(status.st_mode):
            await _upload_file(files, local, destination, _Meter(progress, status.st_size))
            await keep_executable(files, destination, status.st_mode)
        elif files.has("treeTransfers"):
            await _upload_tree(files, local, destination, _Meter(progress, None))
        else:
            await _upload_each(files, local, destination, _Meter(progress, None))
    except PaddockError:
        # Some of these are also an OSError, about a file on the server.
        raise
    except OSError as error:
        raise LocalFileError(os.fsdecode(source), error) from error


async def download(
    files: Files, source: RemotePathLike, destination: str | PathLike[str], progress: Progress | None
) -> None:
    """See `Files.download`. Raises LocalFileError for what goes wrong on this side."""
    local = os.fsencode(destination)
    found = await files.metadata(source)
    try:
        if not found.is_directory:
            mode = found.mode if isinstance(found.mode, int) else 0
            await _download_file(
                files, source, local, EXECUTABLE if mode & stat.S_IXUSR else 0, _Meter(progress, found.size)
            )
        elif files.has("treeTransfers"):
            await _download_tree(files, source, local, _Meter(progress, None))
        else:
            await _download_each(files, source, local, _Meter(progress, None))
    except PaddockError:
        raise
    except OSError as error:
        raise LocalFileError(os.fsdecode(destination), error) from error


# --- one file ---------------------------------------------------------------


async def _upload_file(files: Files, local: bytes, destination: RemotePathLike, meter: _Meter) -> None:
    descriptor = open_source(local)
    try:
        async with files.writer(destination, atomic=files.has("atomicWrites")) as file:
            await _fill(file, lambda: next_piece(descriptor, BLOCK_BYTES), meter)
    finally:
        os.close(descriptor)


async def _download_file(
    files: Files,
    source: RemotePathLike,
    local: bytes,
    executable_bits: int,
    meter: _Meter,
    *,
    follow: bool = True,
) -> None:
    async with files.reader(source) as file:
        replacement = await in_thread(partial(Replacement, local, follow=follow), undo=Replacement.discard)
        try:
            async for piece in file:
                await in_thread(_write_all, replacement.descriptor, piece)
                meter.add(len(piece))
        except BaseException:
            replacement.discard()
            raise
        if executable_bits:
            mode = stat.S_IMODE(os.fstat(replacement.descriptor).st_mode)
            os.fchmod(replacement.descriptor, mode | executable_bits & mode >> 2)
        await in_thread(replacement.publish)


async def keep_executable(files: Files, destination: RemotePathLike, mode: int) -> None:
    """Make a sent file executable for everyone who may read it, if its owner can execute the original."""
    if not mode & stat.S_IXUSR or not files.has("fsChmod"):
        return
    there = (await files.metadata(destination)).mode
    if isinstance(there, int) and not there & stat.S_IXUSR:
        await files.chmod(destination, there | EXECUTABLE & there >> 2)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


async def _fill(file: RemoteWriter, read: Callable[[], Awaitable[bytes]], meter: _Meter) -> None:
    while piece := await read():
        await file.write(piece)
        meter.add(len(piece))


# --- a directory as one archive ---------------------------------------------


async def _upload_tree(files: Files, local: bytes, destination: RemotePathLike, meter: _Meter) -> None:
    tree = TreeReader(local)
    try:
        async with files.tree_writer(destination) as file:
            await _fill(file, lambda: in_thread(tree.read, BLOCK_BYTES), meter)
    finally:
        tree.close()


async def _download_tree(files: Files, source: RemotePathLike, local: bytes, meter: _Meter) -> None:
    async with files.tree_reader(source) as file:
        tree = TreeWriter(local)
        try:
            async for piece in file:
                await in_thread(tree.write, piece)
                meter.add(len(piece))
        except BaseException:
            await in_thread(tree.discard)
            raise
        await in_thread(tree.publish)


# --- a directory file by file -----------------------------------------------


async def _upload_each(files: Files, local: bytes, destination: RemotePathLike, meter: _Meter) -> None:
    waiting = [(local, os.fspath(destination))]
    while waiting:
        directory, target = waiting.pop()
        await files.create_directory(target)
        for entry in await in_thread(_entries, directory):
            path = f"{target.rstrip('/')}/{os.fsdecode(entry.name)}"
            if entry.is_symlink():
                name = os.fsdecode(entry.path)
                raise OperationFailed(
                    f"{name!r} is a symbolic link, which this server can't make; leave it out"
                )
            if entry.is_dir():
                waiting.append((entry.path, path))
            elif entry.is_file():
                await _upload_file(files, entry.path, path, meter)
            else:
                name = os.fsdecode(entry.path)
                raise OperationFailed(
                    f"{name!r} is neither a file nor a directory; copy it by itself or leave it out"
                )


def _entries(local: bytes) -> list[os.DirEntry[bytes]]:
    with os.scandir(local) as found:
        return sorted(found, key=lambda entry: entry.name)


async def _download_each(files: Files, source: RemotePathLike, local: bytes, meter: _Meter) -> None:
    top = await in_thread(os.path.realpath, local)
    await in_thread(partial(os.makedirs, top, exist_ok=True))
    await _download_entries(files, source, top, meter)


async def _download_entries(files: Files, source: RemotePathLike, local: bytes, meter: _Meter) -> None:
    """Download what is in a directory. No link below the destination is followed: it may be a server's.

    A server may tell of directories without end. The first whose path is too long for this host ends that.
    """
    waiting = [(os.fspath(source), local)]
    while waiting:
        directory, target = waiting.pop()
        for entry in await files.read_directory(directory):
            path = f"{directory.rstrip('/')}/{entry.file_name}"
            found = await files.metadata(path)
            if found.is_symlink:
                raise OperationFailed(
                    f"{path!r} is a symbolic link, which this server can't show; leave it out"
                )
            beneath = os.path.join(target, os.fsencode(entry.file_name))
            if found.is_directory:
                await in_thread(_make_directory, beneath)
                waiting.append((path, beneath))
            else:
                await _download_file(files, path, beneath, 0, meter, follow=False)


def _make_directory(path: bytes) -> None:
    try:
        os.mkdir(path)
    except FileExistsError:
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            raise
