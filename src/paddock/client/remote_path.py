"""A path on the server's host that feels like `pathlib`: joining is pure, everything else asks the server."""

from __future__ import annotations

from abc import ABC, abstractmethod
from os import fsdecode
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Self

from paddock.client.place import RemotePathLike, local_name
from paddock.client.remote_file import RemoteReader, RemoteWriter
from paddock.client.watch import Watch
from paddock.errors import NotFound, OperationFailed
from paddock.protocol.fs import MetadataResult

if TYPE_CHECKING:
    from paddock.client.files import Files, Found, Tree

ONE_MESSAGE_BYTES = 8 * 1024 * 1024
"""What is written in one request; more goes in blocks. Requests may have 16 MiB, and base64 adds a third."""


class PurePath(ABC):
    """The text of an absolute path on the server's host, without asking the server. Immutable."""

    def __init__(self, path: RemotePathLike) -> None:
        text = fsdecode(path)
        if "\0" in text:
            raise ValueError(f"path {text!r} contains a NUL byte")
        self._pure = PurePosixPath(local_name(text) if text.startswith("file:") else text)
        if not self._pure.is_absolute():
            raise ValueError(f"path {text!r} is not absolute; give an absolute path of the server's host")

    @abstractmethod
    def _at(self, path: PurePosixPath) -> Self:
        """Another path of the same box."""

    @property
    def name(self) -> str:
        """The last part."""
        return self._pure.name

    @property
    def stem(self) -> str:
        """The last part without its suffix."""
        return self._pure.stem

    @property
    def suffix(self) -> str:
        """The ending of the last part, with its dot."""
        return self._pure.suffix

    @property
    def parts(self) -> tuple[str, ...]:
        """All parts, beginning with the root."""
        return self._pure.parts

    @property
    def parent(self) -> Self:
        """The path without its last part."""
        return self._at(self._pure.parent)

    def __truediv__(self, other: str | PurePosixPath) -> Self:
        return self._at(self._pure / other)

    def joinpath(self, *others: str | PurePosixPath) -> Self:
        """The path with these parts added; an absolute one replaces what is before it."""
        return self._at(self._pure.joinpath(*others))

    def with_name(self, name: str) -> Self:
        """The path with another last part."""
        return self._at(self._pure.with_name(name))

    def with_suffix(self, suffix: str) -> Self:
        """The path with another ending."""
        return self._at(self._pure.with_suffix(suffix))

    def is_relative_to(self, other: RemotePathLike) -> bool:
        """Whether it is `other` or below it, going by the text alone."""
        return self._pure.is_relative_to(fsdecode(other))

    def __fspath__(self) -> str:
        return str(self._pure)

    def __str__(self) -> str:
        return str(self._pure)

    def __repr__(self) -> str:
        return f"RemotePath({str(self._pure)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PurePath) and self._pure == other._pure

    def __hash__(self) -> int:
        return hash(self._pure)

    def __lt__(self, other: PurePath) -> bool:
        return self._pure < other._pure


class RemotePath(PurePath):
    """An absolute path of a box; made by `box.path("/x")`. Raises what `Files` does."""

    def __init__(self, files: Files, path: RemotePathLike) -> None:
        super().__init__(path)
        self._files = files

    def _at(self, path: PurePosixPath) -> Self:
        return type(self)(self._files, str(path))

    # --- content ------------------------------------------------------------

    async def read_bytes(self) -> bytes:
        """The whole file, of any size that memory holds."""
        async with self.reader() as file:
            return await file.read()

    async def read_text(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """The whole file as text; line ends are left as they are."""
        return (await self.read_bytes()).decode(encoding, errors)

    async def write_bytes(self, data: bytes | bytearray | memoryview, *, atomic: bool = False) -> int:
        """Replace the content, or create the file; how many bytes were written.

        With `atomic` the old content is there until the new is complete.
        """
        size = memoryview(data).nbytes
        if size <= ONE_MESSAGE_BYTES:
            await self._files.write_file(self, bytes(data), atomic=atomic)
        else:
            async with self.writer(atomic=atomic) as file:
                await file.write(data)
        return size

    async def write_text(self, text: str, encoding: str = "utf-8", *, atomic: bool = False) -> int:
        """Replace the content with text; how many bytes were written."""
        return await self.write_bytes(text.encode(encoding), atomic=atomic)

    def reader(self) -> RemoteReader:
        """The file for reading piece by piece; use it with `async with`."""
        return self._files.reader(self)

    def writer(self, *, atomic: bool = False) -> RemoteWriter:
        """The file for writing piece by piece; use it with `async with`."""
        return self._files.writer(self, atomic=atomic)

    async def edit(self, *edits: tuple[str, str] | tuple[str, str, int]) -> str:
        """Replace texts in the file, all or none; the diff is returned. See `Files.edit`."""
        return await self._files.edit(self, *edits)

    # --- what is there ------------------------------------------------------

    async def stat(self, *, follow_symlinks: bool = True) -> MetadataResult:
        """What it is: kind, size, times."""
        return await self._files.metadata(self, follow_symlinks=follow_symlinks)

    async def exists(self) -> bool:
        """Whether it leads to something."""
        return await self._look() is not None

    async def is_file(self) -> bool:
        """Whether it leads to a regular file."""
        found = await self._look()
        return found is not None and found.is_file

    async def is_dir(self) -> bool:
        """Whether it leads to a directory."""
        found = await self._look()
        return found is not None and found.is_directory

    async def is_symlink(self) -> bool:
        """Whether it is itself a symbolic link that leads somewhere."""
        found = await self._look()
        return found is not None and found.is_symlink

    async def iterdir(self) -> list[RemotePath]:
        """The paths in a directory, sorted by name; links that lead nowhere are left out."""
        entries = await self._files.read_directory(self)
        return [self / name for name in sorted(entry.file_name for entry in entries)]

    async def walk(self, *, follow_symlinks: bool = False, prune_hidden: bool = False) -> Tree:
        """Everything below a directory; see `Files.walk`."""
        return await self._files.walk(self, follow_symlinks=follow_symlinks, prune_hidden=prune_hidden)

    async def search(self, pattern: str, *, regex: bool = False, hidden: bool = False) -> Found:
        """Find lines with a text below a directory. See `Files.search`."""
        return await self._files.search(self, pattern, regex=regex, hidden=hidden)

    def watch(self, *, recursive: bool = False) -> Watch:
        """Be told of changes; use it with `async with`, and iterate over it. See `Files.watch`."""
        return self._files.watch(self, recursive=recursive)

    async def resolve(self) -> RemotePath:
        """The same place without links and dots. It must exist."""
        return self._at(PurePosixPath(await self._files.canonicalize(self)))

    # --- changes ------------------------------------------------------------

    async def mkdir(self, *, parents: bool = False, exist_ok: bool = False) -> None:
        """Make a directory. Raises OperationFailed if something is there, unless `exist_ok`."""
        if parents:
            if not exist_ok and await self.exists():
                raise OperationFailed(f"can't make directory {str(self)!r}: it exists")
            await self._files.create_directory(self, recursive=True)
            return
        try:
            await self._files.create_directory(self, recursive=False)
        except OperationFailed:
            if not (exist_ok and await self.is_dir()):
                raise

    async def unlink(self, *, missing_ok: bool = False) -> None:
        """Remove a file or a link; also an empty directory."""
        await self._files.remove(self, recursive=False, force=missing_ok)

    async def rmtree(self, *, missing_ok: bool = False) -> None:
        """Remove a directory with everything in it, or a file."""
        await self._files.remove(self, recursive=True, force=missing_ok)

    async def copy(self, destination: RemotePathLike, *, recursive: bool = False) -> RemotePath:
        """Copy it on the server's host; the new path is returned."""
        await self._files.copy(self, destination, recursive=recursive)
        return RemotePath(self._files, destination)

    # --- inside -------------------------------------------------------------

    async def _look(self) -> MetadataResult | None:
        try:
            return await self._files.metadata(self)
        except NotFound:
            return None
