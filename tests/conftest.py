"""What every test has: directories for sockets and caches that the user who runs the tests does not use, and
signals that are not ignored.
"""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator

import pytest

from paddock.transport.runtime_directory import VARIABLE

# A shell that runs the suite in the background ignores SIGINT and SIGQUIT for it, nohup(1) SIGHUP, and every
# program that a test starts would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
for _number in (signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM, signal.SIGTSTP):
    signal.signal(_number, signal.SIG_DFL)


@pytest.fixture(scope="session", autouse=True)
def own_runtime_directory() -> Iterator[str]:
    # Short: a socket's path has 107 bytes at most.
    with tempfile.TemporaryDirectory(prefix="pd-", dir="/tmp") as directory:
        os.environ[VARIABLE] = directory
        yield directory
