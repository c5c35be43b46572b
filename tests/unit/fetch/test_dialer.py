"""Connections of the HTTP library: to the first address of a name that answers."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Sequence
from functools import partial
from ipaddress import ip_address

import httpcore
import httpx
import pytest

from paddock.fetch import dialer
from paddock.fetch.dialer import Dialer
from paddock.network.address import Address
from tests.http_origin import origin, say_ok

SILENT, REFUSING, WORKING = "127.0.0.2", "127.0.0.3", "127.0.0.1"


class Network(httpcore.AnyIOBackend):
    """Of its addresses one never answers, and one refuses."""

    def __init__(self) -> None:
        self.given_up: list[str] = []

    async def connect_tcp(self, host: str, *rest: object, **named: object) -> httpcore.AsyncNetworkStream:
        if host == REFUSING:
            raise httpcore.ConnectError("refused")
        if host == SILENT:
            try:
                await asyncio.Event().wait()
            finally:
                self.given_up.append(host)
        return await super().connect_tcp(host, *rest, **named)  # type: ignore[arg-type]


async def answered(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> tuple[int, list[str]]:
    async def resolve(host: str, _: int) -> Sequence[Address]:
        if host == "unknown.test":
            raise OSError(errno.ENOENT, "no such name")
        return list(map(ip_address, addresses))

    network = Network()
    monkeypatch.setattr(dialer, "STAGGER_S", 0.01)
    made = Dialer(resolve, partial(asyncio.sleep, 0))
    monkeypatch.setattr(made, "_network", network)
    async with origin(say_ok) as remote, httpx.AsyncClient(trust_env=False) as client:
        made.install(client)
        with pytest.raises(httpx.ConnectError, match="no such name"):
            await client.get("http://unknown.test/")
        port = remote.url.rpartition(":")[2]
        answer = await client.get(f"http://known.test:{port}/", timeout=httpx.Timeout(5, connect=0.2))
    return answer.status_code, network.given_up


async def test_an_address_that_refuses_or_is_silent_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await answered(monkeypatch, SILENT, REFUSING, WORKING) == (200, [SILENT])


async def test_without_an_address_that_works_there_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(httpx.ConnectError, match="refused"):
        await answered(monkeypatch, REFUSING)
    with pytest.raises(httpx.ConnectError):
        await answered(monkeypatch)
    with pytest.raises(httpx.ConnectTimeout):
        await answered(monkeypatch, SILENT)
