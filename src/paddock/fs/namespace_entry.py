"""Enters a sandbox that another process keeps, under the same restrictions as its commands.

The server opens the namespaces of the sandbox, and a worker with one thread enters them. native/worker.c
decides which restrictions the worker takes on, and how; it shares that code with the init of commands.
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
"""What to do if the library is missing or can't be loaded."""

NAMESPACES = ("net", "ipc", "pid", "mnt")
"""In the order of entry, after the user namespace that owns them.

A further user namespace may follow.
"""

_NS_GET_USERNS = 0xB701

Confine = Callable[[int, int, Sequence[int]], None]
"""Confines this process, given descriptors: a file with words, one with a filter, and namespaces.

If it fails, it ends the process with one line on standard error. Only the standard streams stay open.
Children are in the pid namespace; this process is not.
"""


def open_namespaces(pid: int) -> list[int]:
    """Open the namespaces of a process, and the user namespace that owns them, for `Confine`.

    Leaves out the network namespace if it is our own: from the user namespace of a sandbox the kernel would
    refuse the entry. Raises OSError if the process is gone or belongs to another user.
    """
    has_our_network = os.path.samefile(f"/proc/{pid}/ns/net", "/proc/self/ns/net")
    names = [name for name in NAMESPACES if name != "net" or not has_our_network]
    files: list[int] = []
    try:
        for name in (*names, "user"):
            files.append(os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC))
        files.insert(0, fcntl.ioctl(files[names.index("mnt")], _NS_GET_USERNS))
        # Bubblewrap may have made another user namespace inside for its program; otherwise both are the same.
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
