"""A process that swaps two names as fast as it can, so that a test can race with it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SWAPS = 10_000

_CODE = """
import ctypes, os, select, sys
one, other, least = os.fsencode(sys.argv[1]), os.fsencode(sys.argv[2]), int(sys.argv[3])
renameat2 = ctypes.CDLL(None).renameat2
AT_FDCWD, RENAME_EXCHANGE = -100, 2
swaps = 0
print("begun", flush=True)
while swaps < least or not select.select([0], [], [], 0)[0]:
    for _ in range(50):
        # Twice, so that it ends as it began. A name may be missing for a while.
        for _ in range(2):
            swaps += renameat2(AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE) == 0
"""


@contextmanager
def swapping(one: Path, other: Path, *, at_least: int = SWAPS) -> Iterator[None]:
    """Swap two names during the block, and so many times in any case."""
    with subprocess.Popen(
        [sys.executable, "-c", _CODE, str(one), str(other), str(at_least)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdout.readline()
            yield
            process.stdin.close()
            assert process.wait() == 0
        finally:
            process.kill()
