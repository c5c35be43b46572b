"""Finds where a path leads on an executor's host, even if nothing is there yet."""

from __future__ import annotations

import posixpath

from paddock.agent.executor import FileAccess
from paddock.errors import NotFound


async def real_path(files: FileAccess, path: str) -> str:
    """Return an absolute path without links, as far as it exists. Raises RequestError."""
    missing = ""
    while True:
        try:
            return posixpath.join(await files.canonicalize(path or "/"), missing).rstrip("/") or "/"
        except NotFound:
            if path in ("", "/"):
                raise
            path, _, name = path.rstrip("/").rpartition("/")
            missing = posixpath.join(name, missing)
