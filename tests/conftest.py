"""What every test has: directories for sockets and caches that the user who runs the tests does not use."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator

import pytest

from paddock.transport.runtime_directory import VARIABLE


@pytest.fixture(scope="session", autouse=True)
def own_runtime_directory() -> Iterator[str]:
    # Short: a socket's path has 107 bytes at most.
    with tempfile.TemporaryDirectory(prefix="pd-", dir="/tmp") as directory:
        os.environ[VARIABLE] = directory
        os.environ["XDG_CACHE_HOME"] = os.path.join(directory, "cache")
        yield directory
