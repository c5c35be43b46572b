"""Streamed answers of HTTP servers: bounded, and whatever happens to one, its reader learns the end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from paddock.errors import InvalidParams, InvalidRequest
from paddock.fetch.exchange import Exchange
from paddock.protocol.structure import Result
from paddock.server import downloads as downloads_module
from paddock.server.downloads import Downloads


class Client:
    def __init__(self) -> None:
        self.told: list[Any] = []

    def notify(self, method: str, params: Result) -> None:
        self.told.append(params)

    async def caught_up(self) -> None:
        pass


class Broken:
    """An answer whose body can't be read, for a reason that nobody thought of."""

    is_closed = False

    async def pieces(self) -> AsyncIterator[bytes]:
        yield b"first"
        raise ZeroDivisionError

    async def aclose(self) -> None:
        self.is_closed = True


async def test_no_more_streams_are_under_way_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads_module, "MAX_STREAMS", 1)
    downloads = Downloads(Client())
    downloads.reserve("1")
    with pytest.raises(InvalidParams, match="already active"):
        downloads.reserve("1")
    with pytest.raises(InvalidRequest, match="which is the limit"):
        downloads.reserve("2")
    downloads.release("1")
    downloads.reserve("2")
    await downloads.aclose()


async def test_stream_that_crashes_ends_with_a_problem_and_frees_its_id() -> None:
    client, broken = Client(), Broken()
    downloads = Downloads(client)
    downloads.reserve("1")
    downloads.begin("1", cast(Exchange, broken))
    while downloads._tasks:
        await next(iter(downloads._tasks))
    first, last = client.told
    assert (first.seq, last.seq, last.done) == (1, 2, True)
    assert "see its log" in last.error
    assert broken.is_closed
    downloads.reserve("1")
    await downloads.aclose()
    downloads.begin("1", cast(Exchange, Broken()))
    assert not downloads._tasks
