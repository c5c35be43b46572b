"""What the suites share: a server, in the way of the run, and a count of the requests that a client makes."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import paddock
from paddock.client.connect import Connecting
from paddock.client.connection import Connection
from paddock.transport.runtime_directory import VARIABLE
from tests.ecosystem.way import TOKEN, WAY, Way
from tests.tls import AUTHORITY, CERT, KEY


@dataclass(frozen=True, slots=True)
class Server:
    """How to reach a server; without a URL, a private one."""

    url: str | None = None
    token_file: str | None = None
    tls_ca: str | None = None

    @property
    def target(self) -> str | Connecting | None:
        """What every adapter takes."""
        if self.token_file is None:
            return self.url
        return paddock.connect(self.url, token=TOKEN, tls_ca=self.tls_ca)


@contextmanager
def serving(*options: str) -> Iterator[str]:
    """The URL of a server, started as a user starts it."""
    command = [sys.executable, "-P", "-m", "paddock", "serve", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, process_group=0) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


@pytest.fixture(scope="session", autouse=True)
def own_runtime_directory() -> Iterator[None]:
    with tempfile.TemporaryDirectory(prefix="pd-", dir="/tmp", ignore_cleanup_errors=True) as directory:
        os.environ[VARIABLE] = directory
        yield


@pytest.fixture(scope="session")
def token_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("token") / "token"
    file.touch(mode=0o600)
    file.write_text(TOKEN)
    return file


@pytest.fixture(scope="session")
def shared_server(token_file: Path) -> Iterator[Server]:
    """A server that several processes reach."""
    if WAY is not Way.TLS:
        with serving() as url:
            yield Server(url)
        return
    options = ["--listen", "wss://127.0.0.1:0", "--tls-cert", str(CERT), "--tls-key", str(KEY)]
    token_options = ["--ws-auth", "capability-token", "--ws-token-file", str(token_file)]
    with serving(*options, *token_options) as url:
        yield Server(url, str(token_file), str(AUTHORITY))


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest) -> Server:
    """A server in the way that this run is about."""
    if WAY is Way.PRIVATE:
        return Server()
    shared: Server = request.getfixturevalue("shared_server")
    return shared


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
