"""Entering a sandbox that another process keeps, and being confined there as its commands are.

The server opens the namespaces of the sandbox; a process with one thread that is to work in it enters
them. What that process takes on, and how, is the business of native/worker.c, which shares it with the
init of commands.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

LIBRARY: Final = Path(__file__).parents[1] / "native" / "paddock-worker.so"

REMEDY: Final = "build it with `make native`, or install paddock-exec again"
"""For a library that is not there or can't be loaded."""

NAMESPACES = ("net", "ipc", "pid", "mnt")
"""In the order in which they are entered, after the user namespace that owns them.

A further user namespace may follow.
"""

_NS_GET_USERNS = 0xB701

Confine = Callable[[int, int, Sequence[int]], None]
"""Confines this process, given descriptors: a file with words, one with a filter, and namespaces.

It ends the process if it can't, with one line on standard error. Only the standard streams stay open.
Children are in the pid namespace, this process is not.
"""


def open_namespaces(pid: int) -> list[int]:
    """Open the namespaces of a process, and the user namespace that owns them, for `Confine`.

    Of a process that has our own network there is nothing to enter for that: the kernel would refuse it to
    whoever is in the user namespace of a sandbox. Raises OSError when it is gone, or belongs to another user.
    """
    has_our_network = os.path.samefile(f"/proc/{pid}/ns/net", "/proc/self/ns/net")
    names = [name for name in NAMESPACES if name != "net" or not has_our_network]
    files: list[int] = []
    try:
        for name in (*names, "user"):
            files.append(os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC))
        files.insert(0, fcntl.ioctl(files[names.index("mnt")], _NS_GET_USERNS))
        # Bubblewrap may have made a further one inside for its program; otherwise it is one and the same.
        if os.path.sameopenfile(files[0], files[-1]):
            os.close(files.pop())
    except OSError:
        for file in files:
            os.close(file)
        raise
    return files


def load(path: str) -> Confine:
    """Load the library from an absolute path. Raises OSError and AttributeError."""
    confine_worker = ctypes.CDLL(path).confine_worker
    confine_worker.restype = None

    def confine(words: int, filter_: int, namespaces: Sequence[int]) -> None:
        argv = (ctypes.c_char_p * 3)(b"paddock-worker", b"seccomp=%d" % filter_, b"more=%d" % words)
        confine_worker(len(argv), argv, len(namespaces), (ctypes.c_int * len(namespaces))(*namespaces))

    return confine
