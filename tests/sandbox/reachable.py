"""Lets an ordinary user reach the interpreter and the clone of the tests, whoever's home they are in.

Paddock's helpers are processes of their own, which the user that Paddock runs as must be able to execute.
Where the way there is closed to him, the directory that closes it is covered, in a mount namespace
of this process, by one that has nothing in it but the way.
"""

from __future__ import annotations

import ctypes
import os
import stat
import sys
from pathlib import Path

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND, MS_REC = 1, 2, 4, 32, 4096, 16384
LIBC = ctypes.CDLL(None, use_errno=True)

CLONE = Path(__file__).parents[2]


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """mount(2). Raises OSError."""
    words = (source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), options.encode())
    if LIBC.mount(*words) != 0:
        raise OSError(ctypes.get_errno(), f"mount of {target}: {os.strerror(ctypes.get_errno())}")


def open_the_way() -> None:
    """Let everybody reach the interpreter, its environment and the clone, where they are.

    The process must be root and have a mount namespace of its own.
    """
    for barrier in {_barrier(place) for place in _places()} - {None}:
        cover(str(barrier), "mode=755")


def cover(directory: str, options: str) -> None:
    """Mount a file system there that has nothing in it but what the tests run by, which can't be written."""
    inside = {place for place in _places() if place.is_relative_to(directory)}
    if Path(directory) in inside:
        inside = set(Path(directory).iterdir())
    files = {path: os.open(path, os.O_PATH | os.O_NOFOLLOW) for path in sorted(inside)}
    mount("tmpfs", directory, "tmpfs", MS_NOSUID | MS_NODEV, options)
    for path, file in files.items():
        # One of them may be in another, which comes first.
        if not path.exists():
            _put(path, file)
        os.close(file)


def _places() -> set[Path]:
    return {Path(place).resolve() for place in (sys.base_prefix, sys.prefix, CLONE)}


def _barrier(place: Path) -> Path | None:
    """The first directory on the way to a place, or it itself, that others can't enter."""
    for directory in [*reversed(place.parents), place]:
        if not directory.stat().st_mode & stat.S_IXOTH:
            return directory
    return None


def _put(path: Path, file: int) -> None:
    """Have at a path what a descriptor leads to."""
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = os.fstat(file).st_mode
    if stat.S_ISLNK(mode):
        path.symlink_to(os.readlink("", dir_fd=file))
        return
    path.mkdir() if stat.S_ISDIR(mode) else path.touch()
    mount(f"/proc/self/fd/{file}", str(path), "", MS_BIND | MS_REC)
    mount("none", str(path), "", MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV)
