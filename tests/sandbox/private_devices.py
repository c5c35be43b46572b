"""Device nodes of a test's own, in a mount namespace of its own, which attacks may destroy.

    unshare --mount python -m tests.sandbox.private_devices HOW DIRECTORY WORD...

The words are run where /dev is a file system of the test's (`whole`), or where each node that a sandbox shows
is a mount on that of the host, as in containers (`each`). The directory is empty, and stays so.
It takes root.
"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

NODES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}


def have_whole(directory: Path) -> None:
    """Mount another /dev, with as much in it as programs need."""
    _mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", str(directory))
    _make_nodes(directory)
    for name in ("pts", "shm"):
        (directory / name).mkdir()
    for name, target in {"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0"}.items():
        (directory / name).symlink_to(target)
    _mount("-t", "devpts", "-o", "newinstance,ptmxmode=666", "devpts", str(directory / "pts"))
    _mount("-t", "tmpfs", "-o", "mode=1777", "tmpfs", str(directory / "shm"))
    _mount("--move", str(directory), "/dev")


def have_each(directory: Path) -> None:
    """Mount other nodes on those of the host."""
    _mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", str(directory))
    _make_nodes(directory)
    for name in NODES:
        _mount("--bind", str(directory / name), f"/dev/{name}")
    subprocess.run(["umount", "--lazy", directory], check=True)


WAYS: Mapping[str, Callable[[Path], None]] = {"whole": have_whole, "each": have_each}


def _make_nodes(directory: Path) -> None:
    for name, number in NODES.items():
        os.mknod(directory / name, stat.S_IFCHR, os.makedev(*number))
        os.chmod(directory / name, 0o666)


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


if __name__ == "__main__":
    WAYS[sys.argv[1]](Path(sys.argv[2]))
    os.execv(sys.argv[3], sys.argv[3:])
