"""The files of the server's host, for programs that block."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from types import TracebackType
from typing import Self

from paddock.client.confinement import SandboxLike
from paddock.client.files import Files as AsyncFiles
from paddock.client.remote_file import RemoteReader as AsyncReader
from paddock.client.remote_file import RemoteWriter as AsyncWriter
from paddock.client.remote_path import PurePath
from paddock.client.remote_path import RemotePath as AsyncPath
from paddock.client.watch import Changes
from paddock.client.watch import Watch as AsyncWatch
from paddock.client.wire_path import RemotePathLike
from paddock.sync.facade import Facade, blocking
from paddock.sync.portal import Portal


class RemoteReader(Facade[AsyncReader]):
    """A file that is open for reading, and an iterator over its pieces; see `paddock.RemoteReader`."""

    read = blocking(AsyncReader.read)
    read_block = blocking(AsyncReader.read_block)

    @property
    def size_bytes(self) -> int | None:
        """Return the size of the file when it was opened; None for a directory."""
        return self._inner.size_bytes

    def __iter__(self) -> Iterator[bytes]:
        pieces = aiter(self._inner)

        async def following() -> bytes | None:
            return await anext(pieces, None)

        while (piece := self._portal.call(following())) is not None:
            yield piece

    def __enter__(self) -> Self:
        self._portal.call(self._inner.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._portal.call(self._inner.__aexit__(kind, error, trace))


class RemoteWriter(Facade[AsyncWriter]):
    """A file that is open for writing; see `paddock.RemoteWriter`."""

    write = blocking(AsyncWriter.write)

    def __enter__(self) -> Self:
        self._portal.call(self._inner.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._portal.call(self._inner.__aexit__(kind, error, trace))


class Watch(Facade[AsyncWatch]):
    """A watch, and a blocking iterator over its changes; see `paddock.Watch`."""

    def __enter__(self) -> Self:
        self._portal.call(self._inner.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._portal.call(self._inner.__aexit__(kind, error, trace))

    def __iter__(self) -> Iterator[Changes]:
        batches = aiter(self._inner)

        async def following() -> Changes | None:
            return await anext(batches, None)

        while (batch := self._portal.call(following())) is not None:
            yield batch


class Files(Facade[AsyncFiles]):
    """The file operations of a box; see `paddock.Files`."""

    read_file = blocking(AsyncFiles.read_file)
    write_file = blocking(AsyncFiles.write_file)
    metadata = blocking(AsyncFiles.metadata)
    read_directory = blocking(AsyncFiles.read_directory)
    canonicalize = blocking(AsyncFiles.canonicalize)
    is_read_only = blocking(AsyncFiles.is_read_only)
    way = blocking(AsyncFiles.way)
    walk = blocking(AsyncFiles.walk)
    create_directory = blocking(AsyncFiles.create_directory)
    remove = blocking(AsyncFiles.remove)
    copy = blocking(AsyncFiles.copy)
    rename = blocking(AsyncFiles.rename)
    chmod = blocking(AsyncFiles.chmod)
    search = blocking(AsyncFiles.search)
    edit = blocking(AsyncFiles.edit)
    upload = blocking(AsyncFiles.upload)
    download = blocking(AsyncFiles.download)

    def confined(self, sandbox: SandboxLike) -> Files:
        """Return the same files under a profile; see `paddock.Files.confined`."""
        return Files(self._portal, self._inner.confined(sandbox))

    def watch(self, path: RemotePathLike, *, recursive: bool = False) -> Watch:
        """Watch for changes; use it with `with`, and iterate over it. See `paddock.Files.watch`."""
        return Watch(self._portal, self._inner.watch(path, recursive=recursive))

    def reader(self, path: RemotePathLike) -> RemoteReader:
        """Return a file of any size for reading piece by piece; use it with `with`."""
        return RemoteReader(self._portal, self._inner.reader(path))

    def writer(self, path: RemotePathLike, *, atomic: bool = False) -> RemoteWriter:
        """Return a file of any size for writing piece by piece; use it with `with`."""
        return RemoteWriter(self._portal, self._inner.writer(path, atomic=atomic))


class RemotePath(PurePath, Facade[AsyncPath]):
    """An absolute path of a box; made by `box.path("/x")`. See `paddock.RemotePath`."""

    read_bytes = blocking(AsyncPath.read_bytes)
    read_text = blocking(AsyncPath.read_text)
    write_bytes = blocking(AsyncPath.write_bytes)
    write_text = blocking(AsyncPath.write_text)
    stat = blocking(AsyncPath.stat)
    exists = blocking(AsyncPath.exists)
    is_file = blocking(AsyncPath.is_file)
    is_dir = blocking(AsyncPath.is_dir)
    is_symlink = blocking(AsyncPath.is_symlink)
    walk = blocking(AsyncPath.walk)
    search = blocking(AsyncPath.search)
    edit = blocking(AsyncPath.edit)
    mkdir = blocking(AsyncPath.mkdir)
    unlink = blocking(AsyncPath.unlink)
    rmtree = blocking(AsyncPath.rmtree)
    chmod = blocking(AsyncPath.chmod)

    def __init__(self, portal: Portal, inner: AsyncPath) -> None:
        PurePath.__init__(self, inner)
        Facade.__init__(self, portal, inner)

    def _at(self, path: PurePosixPath) -> Self:
        return type(self)(self._portal, self._inner / path)

    def iterdir(self) -> list[Self]:
        """Return the paths in a directory, sorted by name, including dangling links."""
        return [type(self)(self._portal, path) for path in self._portal.call(self._inner.iterdir())]

    def glob(self, pattern: str) -> list[Self]:
        """Return the paths below a directory that match a pattern; see `paddock.RemotePath.glob`."""
        return [type(self)(self._portal, path) for path in self._portal.call(self._inner.glob(pattern))]

    def rename(self, destination: RemotePathLike) -> Self:
        """Rename it, and return the new path."""
        return type(self)(self._portal, self._portal.call(self._inner.rename(destination)))

    def watch(self, *, recursive: bool = False) -> Watch:
        """Watch for changes; use it with `with`, and iterate over it."""
        return Watch(self._portal, self._inner.watch(recursive=recursive))

    def resolve(self) -> Self:
        """Return the same path without links and dots. It must exist."""
        return type(self)(self._portal, self._portal.call(self._inner.resolve()))

    def copy(self, destination: RemotePathLike, *, recursive: bool = False) -> Self:
        """Copy it on the server's host, and return the new path."""
        copied = self._portal.call(self._inner.copy(destination, recursive=recursive))
        return type(self)(self._portal, copied)

    def reader(self) -> RemoteReader:
        """Open the file for reading piece by piece; use it with `with`."""
        return RemoteReader(self._portal, self._inner.reader())

    def writer(self, *, atomic: bool = False) -> RemoteWriter:
        """Open the file for writing piece by piece; use it with `with`."""
        return RemoteWriter(self._portal, self._inner.writer(atomic=atomic))
