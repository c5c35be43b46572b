"""What a client says first in a tunnel is HTTP for the proxy wherever it may be HTTP for a server."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from paddock.network.tunnel import FIRST_LINE_LIMIT_BYTES, is_http
from tests.unit.network.scene import proxy_scene, read_head

GOOD = "198.51.100.7"


@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.1\r\n",
        b"PROPFIND / HTTP/1.1\r\n",
        b"x-own_method / HTTP/1.0\n",
        b"\r\n\r\nGET / HTTP/1.1\r\n",
        b"GET\t/\tHTTP/1.1\r\n",
        b"PRI * HTTP/2.0\r\n",
        b"GET /\r\n",
        b"A " + b"x" * FIRST_LINE_LIMIT_BYTES,
    ],
)
def test_request_is_told_by_its_first_line(said: bytes) -> None:
    assert is_http(said)


@pytest.mark.parametrize(
    "said",
    [
        b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n",
        b"0032git-upload-pack /project.git\0host=example.com\0",
        b"EHLO example.com\r\n",
        b"PING\r\n",
        b"\x16\x03\x01",
        b"\0\0\0\x08\x04\xd2\x16\x2f",
        b"A " + b"\xff" * 10 + b"\0" * FIRST_LINE_LIMIT_BYTES,
    ],
)
async def test_other_protocol_passes_as_it_is(said: bytes) -> None:
    assert not is_http(said)
    if said.startswith(b"\x16"):
        return
    heard = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.set_result(await reader.readexactly(len(said)))
        writer.close()

    async with proxy_scene(["good.test"], good_test=GOOD) as scene:
        await scene.add_server(GOOD, 80, serve)
        reader, writer = await scene.open()
        writer.write(b"CONNECT good.test:80 HTTP/1.1\r\nHost: good.test:80\r\n\r\n")
        await read_head(reader)
        for byte in said[:64]:
            writer.write(bytes((byte,)))
            await asyncio.sleep(0)
        writer.write(said[64:])
        assert await heard == said
        writer.close()


@pytest.mark.parametrize("size", [1, 4096])
@pytest.mark.parametrize("before", [b"PROPFIND", b"\r\nGET", b"own-method", b"\n\n\r\nPOST"])
async def test_request_that_names_another_host_does_not_pass(before: bytes, size: int) -> None:
    reached: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.append(await reader.read())
        writer.close()

    async with proxy_scene(["good.test"], good_test=GOOD) as scene:
        await scene.add_server(GOOD, 80, serve)
        reader, writer = await scene.open()
        writer.write(b"CONNECT good.test:80 HTTP/1.1\r\nHost: good.test:80\r\n\r\n")
        await read_head(reader)
        request = before + b" / HTTP/1.1\r\nHost: secret.test\r\n\r\n"
        # The proxy refuses an empty line at once, before the rest of the request is sent.
        with contextlib.suppress(ConnectionError):
            for start in range(0, len(request), size):
                writer.write(request[start : start + size])
                await writer.drain()
                await asyncio.sleep(0)
            assert (await reader.read()).split()[1] in (b"400", b"403")
        writer.close()
    assert not any(reached)
