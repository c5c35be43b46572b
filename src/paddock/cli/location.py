"""The location of a file: on this host, or on that of a server. Imported for every command line."""

from __future__ import annotations

import argparse
import os
import re
from typing import NamedTuple

_REMOTE = r"(?s)((?:wss?|unix)://.*?|):(/.*)"
_SCHEME = r"(wss?|unix)://"

STANDARD_STREAM = "-"

OWN_SERVER = ""
"""The URL in `:/path`: the server that is found without being named."""


class Location(NamedTuple):
    """A path, and the server that it belongs to: its URL, or `OWN_SERVER`; None is this host."""

    url: str | None
    path: str

    @property
    def absolute_path(self) -> str:
        """Return the path on its host, from the root on."""
        return os.path.abspath(self.path) if self.url is None else self.path

    @property
    def is_local_directory(self) -> bool:
        """Return whether the location is a directory of this host."""
        return self.url is None and os.path.isdir(self.path)

    @property
    def is_stream(self) -> bool:
        """Return whether standard input or output takes the place of a file."""
        return self.url is None and self.path == STANDARD_STREAM


def parse_location(text: str) -> Location:
    """Read `URL:/path`, `:/path` or a path of this host, as an argument of a command."""
    if remote := re.fullmatch(_REMOTE, text):
        return Location(remote[1], remote[2])
    if re.match(_SCHEME, text):
        raise argparse.ArgumentTypeError(
            f"{text!r} names a server and no absolute path on it; write URL:/path"
        )
    if not text:
        raise argparse.ArgumentTypeError("an empty path names nothing")
    return Location(None, text)
