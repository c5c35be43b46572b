"""What the suites share: a server as a user starts it, and a count of the requests that a client makes."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator

import pytest

from paddock.client.connection import Connection
from paddock.transport.runtime_directory import VARIABLE


@pytest.fixture(scope="session", autouse=True)
def own_runtime_directory() -> Iterator[None]:
    with tempfile.TemporaryDirectory(prefix="pd-", dir="/tmp", ignore_cleanup_errors=True) as directory:
        os.environ[VARIABLE] = directory
        yield


@pytest.fixture(scope="session")
def server_url() -> Iterator[str]:
    command = [sys.executable, "-P", "-m", "paddock", "serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, process_group=0) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts requests by their method."""
    counted: Counter[str] = Counter()
    submit = Connection.submit

    def counting(self: Connection, method: str, *arguments: object, **options: object) -> object:
        counted[method] += 1
        return submit(self, method, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Connection, "submit", counting)
    return counted
