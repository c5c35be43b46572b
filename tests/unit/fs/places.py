"""Where the tests have operations carried out: in threads, in a worker, in a worker of an ordinary user."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from paddock.fs.lanes import Lanes
from paddock.fs.local import LocalOperations
from paddock.fs.remote import WorkerOperations

CLONE_NEWUSER = 0x10000000
CLONE_NEWNS = 0x00020000

NOBODY = 65534
AS_NOBODY = f"import os; os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY});"
"""Run after the imports: the interpreter may lie where only root can read."""


def on_small_disk(path: Path, size_bytes: int) -> str:
    """A preparation that puts a file system of that size over a directory, for the worker alone."""
    return (
        "import ctypes, os; libc = ctypes.CDLL(None, use_errno=True);"
        "user, group = os.geteuid(), os.getegid();"
        # A user namespace gives an ordinary user the right to mount, in a mount namespace of his own.
        f"assert not libc.unshare({CLONE_NEWUSER | CLONE_NEWNS}), os.strerror(ctypes.get_errno());"
        "open('/proc/self/uid_map', 'w').write(f'{user} {user} 1');"
        "open('/proc/self/setgroups', 'w').write('deny');"
        "open('/proc/self/gid_map', 'w').write(f'{group} {group} 1');"
        f"assert not libc.mount(b'small', {os.fsencode(path)!r}, b'tmpfs', 0, b'size={size_bytes}'),"
        " os.strerror(ctypes.get_errno());"
    )


@asynccontextmanager
async def threads() -> AsyncIterator[LocalOperations]:
    lanes = Lanes()
    operations = LocalOperations(lanes)
    try:
        yield operations
    finally:
        await operations.aclose()
        await lanes.aclose()


def start_worker(preparation: str = "", channel: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
    """A worker process; `preparation` is run in it before it serves. `channel` is its input and output."""
    return subprocess.Popen(
        [sys.executable, "-c", f"from paddock.fs.worker import Worker; {preparation} Worker().run()"],
        stdin=channel,
        stdout=channel,
    )


@asynccontextmanager
async def worker(*, preparation: str = "") -> AsyncIterator[tuple[WorkerOperations, subprocess.Popen[bytes]]]:
    """Operations in a worker process, and the process."""
    ours, theirs = socket.socketpair()
    with start_worker(preparation, theirs.fileno()) as process:
        theirs.close()
        operations = await WorkerOperations.attach(ours)
        try:
            yield operations, process
        finally:
            await operations.aclose()
            process.kill()


@asynccontextmanager
async def ordinary_user() -> AsyncIterator[WorkerOperations]:
    """A worker without root's rights."""
    async with worker(preparation=AS_NOBODY if os.geteuid() == 0 else "") as (operations, _):
        yield operations
