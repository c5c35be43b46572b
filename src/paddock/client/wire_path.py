"""Converts paths on the server's host between the caller's form and the wire's. Pure."""

from __future__ import annotations

from os import PathLike, fsdecode, fspath
from typing import Final

from paddock.errors import InvalidPath, ProtocolViolation
from paddock.protocol.path import HostPath, file_uri, parse_path
from paddock.protocol.session import EnvironmentInfo

RemotePathLike = str | PathLike[str]
"""An absolute path or a `file:` URI on the server's host."""

_UNDECODABLE: Final = "file:///%00/bad/path/"
"""How the reference server writes a path that is not UTF-8; the rest is base64url of its bytes."""


def wire_path(environment: EnvironmentInfo, path: RemotePathLike) -> HostPath:
    """Return the wire form of a path. Raises InvalidPath for one that is not absolute, or too long."""
    try:
        return _wire_path(environment, fsdecode(fspath(path)))
    except ValueError as error:
        raise InvalidPath(str(error)) from error


def _wire_path(environment: EnvironmentInfo, path: str) -> HostPath:
    written = parse_path(path)
    if written.is_uri:
        return written
    # Every server takes URIs, but a URI is resolved lexically: behind a symbolic link, `..` would lead
    # elsewhere. A server that takes plain paths leaves that to the kernel.
    uri = parse_path(file_uri(written.path))
    is_same = uri.path == written.path and not uri.is_foreign
    return uri if is_same or not environment.capabilities.get("absolutePaths", False) else written


def told_path(path: HostPath) -> str:
    """Return how `local_name` reads a path where the server tells of changes to it: a URI as the path that it
    means, and no slash at the end."""
    return path.path.rstrip("/") or "/"


def is_name(text: str) -> bool:
    """Return whether a text is a plain name in a directory that leads nowhere else."""
    return text not in ("", ".", "..") and "/" not in text and "\0" not in text


def local_name(text: str) -> str:
    """Return the path that a server's answer means. Bytes that are not UTF-8 are surrogates, as in `os`."""
    if text.startswith(_UNDECODABLE):
        encoded = text.removeprefix(_UNDECODABLE)
        from base64 import urlsafe_b64decode

        return fsdecode(urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)))
    try:
        return parse_path(text).path
    except ValueError as error:
        raise ProtocolViolation(f"the server answered with an invalid path: {error}") from error
