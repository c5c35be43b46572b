"""Paths on the wire: an absolute path or a `file:` URI.

The server accepts both forms wherever it expects a path, and an answer uses the form of the
request. This module resolves a URI lexically (`.` and `..`, and slashes at the end), as is usual
for URIs, and leaves an absolute path to the kernel. A name that is not UTF-8 has no absolute path
in JSON: an answer always gives it as a URI.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator

from paddock.c_string import NUL_FLAW
from paddock.excerpt import excerpt
from paddock.protocol.bound import MAX_PATH_CHARS

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_DRIVE = re.compile(r"/[A-Za-z]:(/|$)")
_LOCAL_AUTHORITIES = ("", "localhost")
_UNQUOTED = "/!$&'()*+,;=:@~"
_PLAIN = re.compile(rb"[A-Za-z0-9._/!$&'()*+,;=:@~-]+")
"""What a URI holds as it is."""
_FILE = "file://"


class HostPath:
    """A path on the server's host, and how the caller wrote it.

    `is_foreign` marks a URI that is well-formed but can't name a file on Linux
    (another host, a drive letter); code that uses the path must refuse it.
    """

    # Not a dataclass: msgspec would read those as JSON objects instead of asking
    # the codec's hook.
    __slots__ = ("is_foreign", "path", "text")

    def __init__(self, path: str, text: str, is_foreign: bool = False) -> None:
        self.path = path
        self.text = text
        self.is_foreign = is_foreign

    @property
    def is_uri(self) -> bool:
        """Return whether the path was written as a URI."""
        return not self.text.startswith("/")

    def like(self, path: bytes) -> str:
        """Return `path` in the form of this one, if it has that form."""
        if not self.is_uri:
            try:
                return path.decode()
            except UnicodeDecodeError:
                pass
        return file_uri(path.decode("utf-8", "surrogateescape"))

    def all_like(self, directory: bytes, names: Iterable[bytes]) -> Iterator[str]:
        """Yield the paths of names in a directory, in that form."""
        prefix = directory + b"/"
        if not self.is_uri:
            yield from (self.like(prefix + name) for name in names)
            return
        encoded_prefix = self.like(prefix)
        for name in names:
            # Most names need no quoting, and finding that out is a tenth of the work.
            if _PLAIN.fullmatch(name):
                yield encoded_prefix + name.decode("ascii")
            else:
                yield encoded_prefix + _quoted(name)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"HostPath({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HostPath) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


def file_uri(path: str) -> str:
    """Return the `file:` URI of an absolute path; undecodable bytes survive the round trip."""
    return _FILE + _quoted(path.encode("utf-8", "surrogateescape"))


def parse_path(text: str) -> HostPath:
    """Read an absolute path or a `file:` URI. Raises ValueError with the text and the remedy."""
    if len(text) > MAX_PATH_CHARS:
        raise ValueError(
            f"path {excerpt(text)!r} has {len(text)} characters; a path may have {MAX_PATH_CHARS}"
        )
    # Every request about files has a path. So, here and below, make no call that a look at the text can
    # avoid; this one costs less than `startswith` and a slice.
    path, is_foreign = text.removeprefix(_FILE), False
    if not path or path[0] != "/":
        path, is_foreign = _split_uri(text)
    elif len(path) == len(text):
        if "\0" in text:
            raise ValueError(f"path {text!r} {NUL_FLAW}")
        return HostPath(text, text)
    if "?" in text:
        raise ValueError(f"path {text!r} has query parameters; write '?' in a name as %3F")
    if "#" in text:
        raise ValueError(f"path {text!r} has a fragment; write '#' in a name as %23")
    if "%" in path:
        from urllib.parse import unquote_to_bytes

        path = unquote_to_bytes(path).decode("utf-8", "surrogateescape")
    if "\0" in path:
        raise ValueError(f"path {text!r} {NUL_FLAW}")
    if "/." in path or "//" in path or path[-1] == "/":
        path = posixpath.normpath("/" + path.lstrip("/"))
    if ":" in path and _DRIVE.match(path):
        is_foreign = True
    return HostPath(path, text, is_foreign)


def _quoted(path: bytes) -> str:
    if _PLAIN.fullmatch(path):
        return path.decode("ascii")
    from urllib.parse import quote_from_bytes

    return quote_from_bytes(path, safe=_UNQUOTED)


def _split_uri(text: str) -> tuple[str, bool]:
    """Return the path of a `file:` URI, unchanged, and whether it belongs to another host."""
    scheme = _SCHEME.match(text)
    if scheme is None:
        raise ValueError(f"path {text!r} is not absolute; give an absolute path or a file: URI")
    if scheme[1].lower() != "file":
        raise ValueError(f"path {text!r} has the unsupported scheme {scheme[1]!r}; give a file: URI")
    authority, path = "", text[scheme.end() :]
    if path.startswith("//"):
        authority, _, path = path[2:].partition("/")
    return "/" + path, authority.lower() not in _LOCAL_AUTHORITIES
