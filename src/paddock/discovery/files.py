"""Discovery's view of the file system, and the texts that it reads there.

Discovery itself touches no file: the caller supplies a `Files`, which may be confined. Paths
are absolute, in bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from msgspec import Struct, field

from paddock.errors import NotFound, RequestError

T = TypeVar("T")

KIB = 1024
MIB = 1024 * KIB

MAX_FILE_BYTES = 1 * MIB
"""The largest file that discovery reads, as in the reference."""

MAX_TOTAL_BYTES = 8 * MIB
"""Limit for all files of one request together, as JSON: hundreds of skills as long as people write them, and
no more than one answer should take of a server's time and memory."""

_ESCAPED = bytes((*range(0x20), *b'"\\'))
_ESCAPE_BYTES = 6
"""Length of the longest escape in JSON, such as \\u0001."""


class TextFile(Struct, frozen=True):
    """A file and its text."""

    path: bytes
    contents: str


class Tree(Struct, frozen=True):
    """The directories, root included, and regular files of a tree, and errors about the rest."""

    directories: list[bytes]
    files: list[bytes]
    problems: list[str]


class Files(Protocol):
    """The file system, as far as discovery needs it."""

    async def is_directory(self, path: bytes) -> bool:
        """Return whether a path leads to a directory. Raises RequestError, NotFound among them."""

    async def is_file(self, path: bytes) -> bool:
        """Return whether a path leads to a regular file; False if it can't be examined."""

    async def list_tree(self, path: bytes, max_depth: int) -> Tree:
        """List a tree. Follows links to directories, leaves out links to files. Raises RequestError."""

    async def read(self, path: bytes, limit_bytes: int) -> bytes:
        """Read the first bytes of a regular file. Raises RequestError, NotFound among them."""

    async def compute(self, work: Callable[[], T]) -> T:
        """Do something that takes the processor for long, where only this client waits for it."""


class Reader(Struct):
    """Reads texts within limits; an unusable file becomes a warning. `show` names a path to the client."""

    files: Files
    show: Callable[[bytes], str]
    warnings: list[str] = field(default_factory=list)
    left_bytes: int = MAX_TOTAL_BYTES

    async def text(self, path: bytes) -> TextFile | None:
        """Return the text of a file; None if there is no file, or it was left out with a warning."""
        try:
            data = await self.files.read(path, MAX_FILE_BYTES + 1)
        except NotFound:
            return None
        except RequestError as error:
            if await self.files.is_file(path):
                self.warnings.append(f"failed to read capability file {self.show(path)}: {error}")
            return None
        if len(data) > MAX_FILE_BYTES:
            self.warnings.append(f"capability file {self.show(path)} exceeds the {MAX_FILE_BYTES}-byte limit")
            return None
        size_bytes = _json_bytes(data)
        if size_bytes > self.left_bytes:
            self.warnings.append(
                f"capability file {self.show(path)} is left out: all together exceed {MAX_TOTAL_BYTES} bytes "
                "as JSON"
            )
            return None
        try:
            contents = data.decode("utf-8")
        except UnicodeDecodeError as error:
            self.warnings.append(
                f"capability file {self.show(path)} is not UTF-8: invalid byte at index {error.start}"
            )
            return None
        self.left_bytes -= size_bytes
        return TextFile(path, contents)


def _json_bytes(text: bytes) -> int:
    """Return how long a text in UTF-8 is as JSON, at the most."""
    escaped = len(text) - len(text.translate(None, _ESCAPED))
    return len(text) + (_ESCAPE_BYTES - 1) * escaped
