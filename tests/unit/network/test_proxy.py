"""The policy proxy over real sockets: what passes, by itself or through another proxy."""

from __future__ import annotations

import asyncio

import pytest

from paddock.network.upstream import Upstream
from tests.unit.network.scene import (
    ANSWER,
    GOOD,
    Origin,
    Scene,
    proxy_scene,
    read_head,
    request,
)

# --- what passes ------------------------------------------------------------


async def test_request_reaches_its_server_without_what_is_for_the_proxy(scene: Scene, origin: Origin) -> None:
    more = ("Proxy-Authorization: Basic eA==", "Proxy-Connection: keep-alive", "X-Own: 1", "Te: trailers")
    answer = await scene.say(request("http://good.test/a?b=c", "good.test", *more))
    assert answer.endswith(b"\r\n\r\nok\n")
    lines = origin.heads[0].lower().split(b"\r\n")
    assert lines[0] == b"get /a?b=c http/1.1"
    assert b"host: good.test" in lines
    assert b"x-own: 1" in lines
    assert not any(line.startswith((b"proxy-", b"te:")) for line in lines)


async def test_requests_of_one_client_share_a_connection_to_their_server(
    scene: Scene, origin: Origin
) -> None:
    reader, writer = await scene.open()
    for path in ("/1", "/2", "/3"):
        writer.write(f"GET http://good.test{path} HTTP/1.1\r\nHost: good.test\r\n\r\n".encode())
        assert b"200 OK" in await read_head(reader)
        assert await reader.readexactly(3) == b"ok\n"
    writer.close()
    assert [head.split()[1] for head in origin.heads] == [b"/1", b"/2", b"/3"]
    assert origin.connections == 1


async def test_connection_of_a_client_lasts_for_hundreds_of_requests(scene: Scene) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await read_head(reader):
            if head.startswith(b"POST"):
                await reader.readexactly(2)
            writer.write(ANSWER)
        writer.close()

    await scene.add_server(GOOD, 80, serve)
    reader, writer = await scene.open()
    for number in range(200):
        # Each takes its turns at other moments than the one before.
        if number % 2:
            writer.write(b"POST http://good.test/ HTTP/1.1\r\nHost: good.test\r\nContent-Length: 2\r\n\r\n")
            await asyncio.sleep(0)
            writer.write(b"hi")
        else:
            writer.write(b"GET http://good.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n")
        assert b" 200 " in await read_head(reader)
        assert await reader.readexactly(3) == b"ok\n"
    writer.close()


async def test_tunnel_passes_both_directions(scene: Scene) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            writer.write(data.upper())
        writer.write(b"END")
        writer.close()

    await scene.add_server(GOOD, 443, echo)
    reader, writer = await scene.open()
    writer.write(b"CONNECT good.test:443 HTTP/1.1\r\nHost: good.test:443\r\n\r\n\x00early")
    assert b" 200 " in await read_head(reader)
    assert await reader.readexactly(6) == b"\x00EARLY"
    writer.write(b"\x01more")
    writer.write_eof()
    assert await reader.read() == b"\x01MOREEND"
    writer.close()


async def test_server_that_speaks_first_is_heard(scene: Scene) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 hello\r\n")
        writer.write(await reader.readline())
        writer.close()

    await scene.add_server(GOOD, 443, greet)
    reader, writer = await scene.open()
    writer.write(b"CONNECT good.test:443 HTTP/1.1\r\nHost: good.test:443\r\n\r\n")
    await read_head(reader)
    assert await reader.readline() == b"220 hello\r\n"
    writer.write(b"quit\r\n")
    assert await reader.read() == b"quit\r\n"
    writer.close()


async def test_socks_client_reaches_an_allowed_host(scene: Scene, origin: Origin) -> None:
    reader, writer = await scene.open()
    writer.write(b"\x05\x02\x00\x02")
    assert await reader.readexactly(2) == b"\x05\x00"
    writer.write(b"\x05\x01\x00\x03\x09good.test\x00\x50")
    assert await reader.readexactly(10) == b"\x05\x00\x00\x01" + bytes(6)
    writer.write(request("/by-socks"))
    assert (await reader.read()).endswith(b"ok\n")
    writer.close()
    assert origin.heads[0].startswith(b"GET /by-socks ")


async def test_body_of_a_request_and_chunks_of_an_answer_pass(scene: Scene) -> None:
    received = bytearray()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await read_head(reader)
        assert b"transfer-encoding: chunked" in head.lower()
        while size := int(await reader.readline(), 16):
            received.extend(await reader.readexactly(size))
            await reader.readline()
        await reader.readline()
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n" if b"100-continue" in head.lower() else b"")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n")
        await reader.read()
        writer.close()

    await scene.add_server(GOOD, 80, serve)
    head = request("http://good.test/", "good.test", "Transfer-Encoding: chunked", method="PUT")
    answer = await scene.say(head + b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n")
    assert bytes(received) == b"hello world"
    # Pieces that have come together leave as one.
    assert b"\r\n\r\n5\r\nabcde\r\n0\r\n\r\n" in answer


async def test_client_that_waits_for_100_is_told_to_go_on(scene: Scene) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert b"expect: 100-continue" in (await read_head(reader)).lower()
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        assert await reader.readexactly(4) == b"body"
        writer.write(ANSWER)
        await reader.read()
        writer.close()

    await scene.add_server(GOOD, 80, serve)
    reader, writer = await scene.open()
    more = ("Expect: 100-continue", "Content-Length: 4")
    writer.write(request("http://good.test/", "good.test", *more, method="POST"))
    assert b" 100 " in await read_head(reader)
    writer.write(b"body")
    assert (await reader.read()).endswith(b"ok\n")
    writer.close()


async def test_connection_that_changes_its_protocol_goes_on_as_a_tunnel(scene: Scene) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await read_head(reader)).lower()
        assert b"upgrade: websocket" in head
        assert b"connection: upgrade" in head
        writer.write(b"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello")
        writer.write(await reader.readexactly(5))
        writer.close()

    await scene.add_server(GOOD, 80, serve)
    reader, writer = await scene.open()
    head = b"GET http://good.test/ HTTP/1.1\r\nHost: good.test\r\n"
    writer.write(head + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
    assert b" 101 " in await read_head(reader)
    assert await reader.readexactly(5) == b"hello"
    writer.write(b"there")
    assert await reader.read() == b"there"
    writer.close()


async def test_answer_without_a_length_ends_with_its_connection(scene: Scene) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        writer.write(b"HTTP/1.0 200 OK\r\n\r\nuntil the end")
        writer.close()

    await scene.add_server(GOOD, 80, serve)
    assert b"until the end" in await scene.say(request("http://good.test/"))


async def test_answer_that_is_cut_off_is_not_taken_for_whole(scene: Scene) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        writer.close()

    await scene.add_server(GOOD, 80, serve)
    reader, writer = await scene.open()
    writer.write(request("http://good.test/"))
    assert b"100" in await read_head(reader)
    try:
        rest = await reader.read()
    except ConnectionResetError:
        rest = b"half"
    assert len(rest) < 100
    writer.close()


@pytest.mark.parametrize(
    ("sent", "is_whole"), [(1 << 20, True), ((1 << 20) + 99, True), ((1 << 20) - 1, False)]
)
async def test_large_body_has_the_length_that_was_said_and_is_the_last(
    scene: Scene, sent: int, is_whole: bool
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (1 << 20) + b"x" * sent)
        writer.close()

    await scene.add_server(GOOD, 80, serve)
    reader, writer = await scene.open()
    writer.write(b"GET http://good.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n")
    assert b"connection: close" in (await read_head(reader)).lower()
    try:
        body = await reader.read()
    except ConnectionResetError:
        body = b""
    writer.close()
    assert (body == b"x" * (1 << 20)) is is_whole


@pytest.mark.parametrize("in_tunnel", [False, True])
@pytest.mark.parametrize("more", [b"", b"GET http://other.test/ HTTP/1.1\r\nHost: other.test\r\n\r\n"])
async def test_large_body_of_a_request_has_the_length_that_was_said_and_is_the_last(
    scene: Scene, more: bytes, in_tunnel: bool
) -> None:
    received = bytearray()
    over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        received.extend(await reader.readexactly(1 << 20))
        writer.write(ANSWER)
        received.extend(await reader.read())
        writer.close()
        over.set()

    await scene.add_server(GOOD, 443 if in_tunnel else 80, serve)
    reader, writer = await scene.open()
    if in_tunnel:
        writer.write(b"CONNECT good.test:443 HTTP/1.1\r\nHost: good.test:443\r\n\r\n")
        await read_head(reader)
    target = "/" if in_tunnel else "http://good.test/"
    head = f"PUT {target} HTTP/1.1\r\nHost: good.test\r\nContent-Length: {1 << 20}\r\n\r\n"
    writer.write(head.encode() + b"x" * 1000)
    await writer.drain()
    writer.write(b"x" * ((1 << 20) - 1000) + more)
    answer = await reader.read()
    writer.close()
    await over.wait()
    assert b"connection: close" in answer.lower()
    assert answer.endswith(b"ok\n")
    assert answer.count(b"HTTP/1.1 ") == 1
    assert received == b"x" * (1 << 20)


async def test_connection_takes_no_length_away_so_that_a_body_would_be_further_requests(scene: Scene) -> None:
    told: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        told.set_result(await read_head(reader))
        await reader.readexactly(1 << 20)
        writer.write(ANSWER)
        writer.close()

    await scene.add_server(GOOD, 80, serve)
    reader, writer = await scene.open()
    head = b"PUT http://good.test/ HTTP/1.1\r\nHost: good.test\r\nContent-Length: 1048576\r\n"
    smuggled = b"GET / HTTP/1.1\r\nHost: other.test\r\n\r\n"
    writer.write(head + b"Connection: Content-Length, x-own\r\nX-Own: 1\r\n\r\n" + smuggled.ljust(1 << 20))
    await reader.read()
    writer.close()
    assert b"content-length: 1048576\r\n" in (await told).lower()
    assert b"x-own" not in (await told).lower()


async def test_large_body_of_a_request_that_is_cut_off_is_not_taken_for_whole(scene: Scene) -> None:
    ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        try:
            ended.set_result(len(await reader.read()))
        except ConnectionResetError:
            ended.set_result(0)
        writer.close()

    await scene.add_server(GOOD, 80, serve)
    reader, writer = await scene.open()
    writer.write(b"PUT http://good.test/ HTTP/1.1\r\nHost: good.test\r\nContent-Length: 1048576\r\n\r\n")
    writer.write(b"x" * 1_000_000)
    writer.write_eof()
    assert b"502" in await read_head(reader)
    assert await ended <= 1_000_000
    writer.close()


async def test_server_that_answers_before_it_has_read_all_is_heard(scene: Scene) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        writer.write(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await reader.read()
        writer.close()

    await scene.add_server(GOOD, 80, serve)
    reader, writer = await scene.open()
    writer.write(b"PUT http://good.test/ HTTP/1.1\r\nHost: good.test\r\nContent-Length: 9999999\r\n\r\nx")
    assert (await read_head(reader)).startswith(b"HTTP/1.1 413 ")
    writer.close()


# --- another proxy ----------------------------------------------------------


async def test_what_is_allowed_goes_through_the_upstream_proxy(origin: Origin) -> None:
    upstream = Upstream("proxy.test", 3128, "Basic c2VjcmV0")
    heads = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await read_head(reader))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await origin.serve(reader, writer)

    async with proxy_scene(
        ["good.test", "local.test"], upstream=upstream, proxy_test="10.0.0.1", local_test="127.0.0.1"
    ) as scene:
        await scene.add_server("10.0.0.1", 3128, serve)
        assert (await scene.say(request("http://good.test/"))).endswith(b"ok\n")
        assert heads[0].startswith(b"CONNECT good.test:80 HTTP/1.1\r\n")
        assert b"Proxy-Authorization: Basic c2VjcmV0\r\n" in heads[0]
        assert b"proxy-authorization" not in origin.heads[0].lower()
        for target in ("bad.test", "local.test", "127.0.0.1"):
            assert b" 403 " in await scene.say(request(f"http://{target}/", target))
        assert len(heads) == 1


async def test_upstream_proxy_is_told_no_name_that_may_lead_to_a_local_address(origin: Origin) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await origin.serve(reader, writer)

    async with proxy_scene(
        ["mixed.test", "good.test"],
        upstream=Upstream("proxy.test", 3128),
        proxy_test="10.0.0.1",
        mixed_test="192.0.2.9,127.0.0.1",
        good_test="192.0.2.9,192.0.2.8",
    ) as scene:
        await scene.add_server("10.0.0.1", 3128, serve)
        assert (await scene.say(request("http://good.test/"))).endswith(b"ok\n")
        assert b" 403 " in await scene.say(request("http://mixed.test/", "mixed.test"))
        assert len(origin.heads) == 1
    async with proxy_scene(["mixed.test"], mixed_test="192.0.2.9,127.0.0.1") as scene:
        await scene.add_server("192.0.2.9", 80, origin.serve)
        assert (await scene.say(request("http://mixed.test/", "mixed.test"))).endswith(b"ok\n")
        assert scene.connected == ["192.0.2.9"]


async def test_upstream_proxy_that_refuses_is_told_of(origin: Origin) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        writer.write(b"HTTP/1.1 407 Who are you\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    upstream = Upstream("proxy.test", 3128)
    async with proxy_scene(["good.test"], upstream=upstream, proxy_test="10.0.0.1") as scene:
        await scene.add_server("10.0.0.1", 3128, serve)
        answer = await scene.say(request("http://good.test/"))
        assert answer.startswith(b"HTTP/1.1 502 ")
        assert b"it answers 407" in answer
