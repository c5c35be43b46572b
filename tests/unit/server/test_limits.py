"""What one client may have at once: the last one is served, and the next is told why not."""

from __future__ import annotations

import asyncio
import socket
from typing import Any, cast

import pytest

from paddock.config import Settings
from paddock.errors import ConfigError, InvalidRequest, NotFound, SandboxNotMade
from paddock.fs.operations import Operations
from paddock.server import files, session, watches
from paddock.server.files import ClientFiles, ConfirmedCloses
from paddock.server.metrics import Metrics
from paddock.server.process_network import ProcessNetwork
from paddock.server.reload import renewed_settings
from paddock.server.sessions import SessionRegistry
from paddock.server.watches import ClientWatches
from tests.unit.server.test_session_life import Client


def test_handles_of_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_HANDLES", 1)
    held = ClientFiles()
    held.reserve("1", cast(Operations, None))
    with pytest.raises(InvalidRequest, match="at most 1 file handles"):
        held.reserve("2", cast(Operations, None))


async def test_remembered_closes_and_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest are forgotten."""
    monkeypatch.setattr(files, "REMEMBERED_CLOSES", 1)
    monkeypatch.setattr(session, "REMEMBERED_STARTS", 1)
    closes = ConfirmedCloses()
    registry = SessionRegistry(Settings(), Metrics())
    opened = registry.open(Client())
    done: asyncio.Task[Any] = asyncio.create_task(asyncio.sleep(0))
    await done
    for key in ("1", "2"):
        closes.add(key, done)
        opened.remember_start(key, done)
    with pytest.raises(NotFound, match="unknown file handle '1'"):
        closes.get("1")
    assert closes.get("2") is done
    assert (opened.first_start("1"), opened.first_start("2")) == (None, done)
    await registry.end_all(0)


async def test_watches_of_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "MAX_WATCHES", 0)
    monkeypatch.setattr(watches, "MAX_MISSING", 1)
    held = ClientWatches(cast(Any, None), cast(Any, None))
    with pytest.raises(InvalidRequest, match="at most 0 watches"):
        await held.watch(cast(Any, None), b"/", is_recursive=False)
    with pytest.raises(InvalidRequest, match="at most 1 missing paths"):
        await held.watch_missing(1, [b"/a", b"/b"], None)


async def test_listeners_of_a_sandbox_are_as_many_as_its_proxy_needs() -> None:
    listener = socket.socket()
    network = ProcessNetwork({}, cast(Any, None))
    with pytest.raises(SandboxNotMade, match="gave no listeners"):
        await network.serve([listener])
    assert listener.fileno() < 0


def test_tls_is_not_switched_on_while_the_server_runs() -> None:
    """That would change its address."""
    with pytest.raises(ConfigError, match="without a restart"):
        renewed_settings(Settings(), Settings(tls_cert="/c", tls_key="/k"))
