"""A path on the server's host that feels like `pathlib`: joining is pure, everything else asks the server."""

from __future__ import annotations

from abc import ABC, abstractmethod
from os import fsdecode
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Self

from paddock.client.files import MAX_DEPTH, Files
from paddock.client.glob import GlobPattern
from paddock.client.remote_file import RemoteReader, RemoteWriter
from paddock.client.watch import Watch
from paddock.client.wire_path import RemotePathLike, local_name
from paddock.errors import NotFound, OperationFailed
from paddock.protocol.fs import MetadataResult

if TYPE_CHECKING:
    from paddock.client.files import Found, Tree

ONE_MESSAGE_BYTES = 8 * 1024 * 1024
"""The most to write in one request; more goes in blocks. Requests may have 16 MiB, and base64 adds a third.
"""


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
        """Return another path of the same box."""

    @property
    def name(self) -> str:
        """Return the last part."""
        return self._pure.name

    @property
    def stem(self) -> str:
        """Return the last part without its suffix."""
        return self._pure.stem

    @property
    def suffix(self) -> str:
        """Return the ending of the last part, with its dot."""
        return self._pure.suffix

    @property
    def parts(self) -> tuple[str, ...]:
        """Return all parts, beginning with the root."""
        return self._pure.parts

    @property
    def parent(self) -> Self:
        """Return the path without its last part."""
        return self._at(self._pure.parent)

    def __truediv__(self, other: str | PurePosixPath) -> Self:
        return self._at(self._pure / other)

    def joinpath(self, *others: str | PurePosixPath) -> Self:
        """Return the path with these parts added. An absolute part replaces everything before it."""
        return self._at(self._pure.joinpath(*others))

    def with_name(self, name: str) -> Self:
        """Return the path with another last part."""
        return self._at(self._pure.with_name(name))

    def with_suffix(self, suffix: str) -> Self:
        """Return the path with another ending."""
        return self._at(self._pure.with_suffix(suffix))

    def is_relative_to(self, other: RemotePathLike) -> bool:
        """Return whether the path is `other` or below it, going by the text alone."""
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
    """An absolute path of a box; made by `box.path("/x")`. Raises the errors that `Files` raises."""

    def __init__(self, files: Files, path: RemotePathLike) -> None:
        super().__init__(path)
        self._files = files

    def _at(self, path: PurePosixPath) -> Self:
        return type(self)(self._files, str(path))

    # --- content ------------------------------------------------------------

    async def read_bytes(self) -> bytes:
        """Read the whole file, of any size that memory holds."""
        async with self.reader() as file:
            return await file.read()

    async def read_text(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Read the whole file as text; line ends stay as they are."""
        return (await self.read_bytes()).decode(encoding, errors)

    async def write_bytes(self, data: bytes | bytearray | memoryview, *, atomic: bool = False) -> int:
        """Replace the content, or create the file, and return the number of bytes written.

        With `atomic` the old content stays until the new is complete.
        """
        size = memoryview(data).nbytes
        if size <= ONE_MESSAGE_BYTES:
            await self._files.write_file(self, bytes(data), atomic=atomic)
        else:
            async with self.writer(atomic=atomic) as file:
                await file.write(data)
        return size

    async def write_text(self, text: str, encoding: str = "utf-8", *, atomic: bool = False) -> int:
        """Replace the content with text, and return the number of bytes written."""
        return await self.write_bytes(text.encode(encoding), atomic=atomic)

    def reader(self) -> RemoteReader:
        """Open the file for reading piece by piece; use it with `async with`."""
        return self._files.reader(self)

    def writer(self, *, atomic: bool = False) -> RemoteWriter:
        """Open the file for writing piece by piece; use it with `async with`."""
        return self._files.writer(self, atomic=atomic)

    async def edit(self, *edits: tuple[str, str] | tuple[str, str, int]) -> str:
        """Replace texts in the file, all or none, and return the diff. See `Files.edit`."""
        return await self._files.edit(self, *edits)

    # --- what is there ------------------------------------------------------

    async def stat(self, *, follow_symlinks: bool = True) -> MetadataResult:
        """Describe the path: kind, size, times and, where the server reports it, `mode`."""
        return await self._files.metadata(self, follow_symlinks=follow_symlinks)

    async def exists(self) -> bool:
        """Return whether the path leads to something."""
        return await self._look() is not None

    async def is_file(self) -> bool:
        """Return whether the path leads to a regular file."""
        found = await self._look()
        return found is not None and found.is_file

    async def is_dir(self) -> bool:
        """Return whether the path leads to a directory."""
        found = await self._look()
        return found is not None and found.is_directory

    async def is_symlink(self) -> bool:
        """Return whether the path is itself a symbolic link."""
        try:
            return (await self._files.metadata(self)).is_symlink
        except (NotFound, OperationFailed):
            # The link may dangle or loop: only its directory shows that it exists.
            parent = await self._files.read_directory(self.parent) if await self.parent.is_dir() else []
            return any(entry.file_name == self.name and entry.is_symlink is True for entry in parent)

    async def iterdir(self) -> list[RemotePath]:
        """Return the paths in a directory, sorted by name, including dangling links."""
        entries = await self._files.read_directory(self)
        return [self / name for name in sorted(entry.file_name for entry in entries)]

    async def walk(self, *, follow_symlinks: bool = False, prune_hidden: bool = False) -> Tree:
        """Return everything below a directory; see `Files.walk`."""
        return await self._files.walk(self, follow_symlinks=follow_symlinks, prune_hidden=prune_hidden)

    async def glob(self, pattern: str) -> list[RemotePath]:
        """Return the files and directories below this one that match a pattern such as "src/**/*.py", sorted.

        Does not follow links and leaves out dangling ones. Raises ValueError for a pattern that is not
        relative, and OperationFailed for a tree larger than the limit of a walk.
        """
        wanted = GlobPattern(pattern)
        tree = await self._files.walk(self, max_depth=MAX_DEPTH if wanted.depth is None else wanted.depth)
        if tree.is_truncated:
            raise OperationFailed(
                f"{str(self)!r} has too many entries below it to find all that match {pattern!r}"
            )
        below = sorted(PurePosixPath(path) for path in (*tree.directories, *tree.files))
        return [self._at(path) for path in below if wanted.fits(path.relative_to(self._pure).parts)]

    async def search(self, pattern: str, *, regex: bool = False, hidden: bool = False) -> Found:
        """Find lines with a text below a directory. See `Files.search`."""
        return await self._files.search(self, pattern, regex=regex, hidden=hidden)

    def watch(self, *, recursive: bool = False) -> Watch:
        """Watch for changes; use it with `async with`, and iterate over it. See `Files.watch`."""
        return self._files.watch(self, recursive=recursive)

    async def resolve(self) -> RemotePath:
        """Return the same path without links and dots. It must exist."""
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

    async def rename(self, destination: RemotePathLike) -> RemotePath:
        """Rename it in one step, replacing a file of that name, and return the new path."""
        await self._files.rename(self, destination)
        return RemotePath(self._files, destination)

    async def chmod(self, mode: int) -> None:
        """Set its permissions, such as 0o755."""
        await self._files.chmod(self, mode)

    async def copy(self, destination: RemotePathLike, *, recursive: bool = False) -> RemotePath:
        """Copy it on the server's host, and return the new path."""
        await self._files.copy(self, destination, recursive=recursive)
        return RemotePath(self._files, destination)

    # --- inside -------------------------------------------------------------

    async def _look(self) -> MetadataResult | None:
        try:
            return await self._files.metadata(self)
        except NotFound:
            return None
