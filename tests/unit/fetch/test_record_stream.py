"""HTTPS servers as the HTTP library meets them: records in turns, and what is no TLS."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_address

import anyio
import pytest
from anyio.abc import ByteStream

from paddock.errors import FetchFailed
from paddock.fetch.exchange import Fetcher
from paddock.fetch.record_stream import RECORDS_PER_TURN, RecordStream
from paddock.fetch.request import FetchRequest
from paddock.network.address import Address
from tests import tls

SMALL = b"\x17\x03\x03\x00\x16" + bytes(0x16)
"""The record of a change of keys."""


class Wire(ByteStream):
    """Brings some pieces, and then the end."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = list(pieces)

    async def receive(self, max_bytes: int = 65536) -> bytes:
        if not self._pieces:
            raise anyio.EndOfStream
        return self._pieces.pop(0)

    async def send(self, item: bytes) -> None:
        pass

    async def send_eof(self) -> None:
        pass

    async def aclose(self) -> None:
        pass


async def test_small_records_are_handed_over_in_turns_and_in_order() -> None:
    turns = 0

    async def turn() -> None:
        nonlocal turns
        turns += 1

    sent = b"".join(SMALL[:-2] + number.to_bytes(2) for number in range(1000))
    stream = RecordStream(Wire(sent[:3], sent[3:20_000], sent[20_000:]), turn)
    pieces = [piece async for piece in stream]

    assert b"".join(pieces) == sent
    assert max(map(len, pieces)) <= RECORDS_PER_TURN * len(SMALL)
    assert turns == len(pieces)
    assert not stream.has_kept


BODY = bytes(range(256)) * 4000


@asynccontextmanager
async def https_server(monkeypatch: pytest.MonkeyPatch, *, is_broken: bool = False) -> AsyncIterator[int]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(2):
            await reader.readuntil(b"\r\n\r\n")
            if is_broken:
                os.write(writer.get_extra_info("socket").fileno(), SMALL)
                break
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY)
            await writer.drain()
        writer.close()

    monkeypatch.setenv("SSL_CERT_FILE", str(tls.AUTHORITY))
    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls.server_context())
    async with server:
        yield server.sockets[0].getsockname()[1]


def fetcher() -> Fetcher:
    async def resolve(_host: str, _port: int) -> list[Address]:
        return [ip_address("127.0.0.1")]

    async def turn() -> None:
        await asyncio.sleep(0)

    return Fetcher(resolve, turn)


def request(port: int) -> FetchRequest:
    return FetchRequest(method="GET", url=f"https://localhost:{port}/", timeout_s=20)


async def test_answer_over_tls_is_whole_on_a_connection_that_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    source = fetcher()
    async with https_server(monkeypatch) as port:
        for _ in range(2):
            answer = await source.open(request(port))
            assert b"".join([piece async for piece in answer.pieces()]) == BODY
            await answer.aclose()
        await source.aclose()


async def test_what_is_no_tls_is_a_failure_of_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    source = fetcher()
    async with https_server(monkeypatch, is_broken=True) as port:
        with pytest.raises(FetchFailed, match="does not speak TLS as it should"):
            await source.open(request(port))
        await source.aclose()


async def test_certificate_that_is_not_trusted_is_named_as_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = fetcher()
    async with https_server(monkeypatch) as port:
        monkeypatch.setenv("SSL_CERT_FILE", str(tls.OTHER_CERT))
        with pytest.raises(FetchFailed, match="certificate verify failed"):
            await source.open(request(port))
        await source.aclose()
