"""The policy proxy over real sockets: what passes, what does not, and that nothing gets around it."""

from __future__ import annotations

import asyncio
import json
import resource
import ssl
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from ipaddress import ip_address

import pytest

from paddock.network.policy import policy_of
from paddock.network.upstream import Upstream
from paddock.server.descriptor_limit import DESCRIPTOR_LIMIT
from tests.unit.network.scene import ANSWER, Origin, Scene, proxy_scene, read_head

GOOD = "192.0.2.1"


@pytest.fixture
async def origin() -> Origin:
    return Origin()


@pytest.fixture
async def scene(origin: Origin) -> AsyncIterator[Scene]:
    async with proxy_scene(["good.test"], good_test=GOOD, local_test="127.0.0.1") as scene:
        await scene.add_server(GOOD, 80, origin.serve)
        yield scene


def request(target: str, host: str = "good.test", *more: str, method: str = "GET") -> bytes:
    lines = (f"{method} {target} HTTP/1.1", f"Host: {host}", "Connection: close", *more)
    return "\r\n".join((*lines, "", "")).encode()


def body_of(answer: bytes) -> dict[str, object]:
    blocked: dict[str, object] = json.loads(answer.partition(b"\r\n\r\n")[2])
    return blocked


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


# --- what is blocked --------------------------------------------------------


async def test_blocked_request_gets_a_reason_that_can_be_read(scene: Scene) -> None:
    answer = await scene.say(request("http://bad.test:8080/x", "bad.test:8080"))
    assert answer.startswith(b"HTTP/1.1 403 Forbidden\r\n")
    assert b"x-proxy-error: blocked-by-allowlist\r\n" in answer
    blocked = body_of(answer)
    assert blocked["host"] == "bad.test"
    assert blocked["port"] == 8080
    assert blocked["protocol"] == "http"
    assert blocked["reason"] == "not_allowed"
    assert blocked["rule"] == "network.allow does not name it"
    denial = scene.judge.denials[0]
    assert denial.is_certain
    assert denial.target == "bad.test:8080"
    assert scene.connected == []
    assert scene.resolved == []


async def test_blocked_tunnel_and_socks_get_the_proper_reply(scene: Scene) -> None:
    answer = await scene.say(b"CONNECT bad.test:443 HTTP/1.1\r\nHost: bad.test:443\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert body_of(answer)["protocol"] == "https_connect"
    answer = await scene.say(b"\x05\x01\x00" + b"\x05\x01\x00\x03\x08bad.test\x01\xbb")
    assert answer[2:4] == b"\x05\x02"
    assert [str(denial.endpoint) for denial in scene.judge.denials] == ["bad.test:443"]


async def test_datagrams_and_listening_are_refused(scene: Scene) -> None:
    udp = await scene.say(b"\x05\x01\x00" + b"\x05\x03\x00\x03\x09good.test\x00\x35")
    assert udp[2:4] == b"\x05\x07"
    listen = await scene.say(b"\x05\x01\x00" + b"\x05\x02\x00\x03\x09good.test\x00\x35")
    assert listen[2:4] == b"\x05\x07"
    assert scene.connected == []
    assert (await scene.say(b"\x05\x01\x02")) == b"\x05\xff"


@pytest.mark.parametrize(
    "target",
    [
        "http://127.0.0.1/",
        "http://2130706433/",
        "http://0177.0.0.1/",
        "http://0x7f000001/",
        "http://127.1/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://169.254.169.254/latest/meta-data",
        "http://good.test:22/",
        "http://good.test.evil.test/",
    ],
)
async def test_nothing_local_and_no_odd_port_is_reached(scene: Scene, target: str) -> None:
    host = target.split("/")[2]
    assert (await scene.say(request(target, host))).startswith(b"HTTP/1.1 403 ")
    authority = host if host.endswith(":22") else f"{host}:80"
    said = f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n"
    assert (await scene.say(said.encode())).startswith(b"HTTP/1.1 403 ")
    assert scene.connected == []


async def test_allowed_name_with_a_local_address_is_blocked() -> None:
    async with proxy_scene(["local.test"], local_test="127.0.0.1") as scene:
        answer = await scene.say(request("http://local.test/", "local.test"))
        assert body_of(answer)["reason"] == "not_allowed_local"
        assert scene.connected == []


async def test_name_that_changes_its_address_is_asked_for_once_and_judged_each_time(origin: Origin) -> None:
    async with proxy_scene(["rebind.test"]) as scene:
        await scene.add_server(GOOD, 80, origin.serve)
        scene.addresses["rebind.test"] = [GOOD, "127.0.0.1"]
        assert (await scene.say(request("http://rebind.test/", "rebind.test"))).endswith(b"ok\n")
        assert scene.resolved == ["rebind.test"]
        answer = await scene.say(request("http://rebind.test/", "rebind.test"))
        assert body_of(answer)["reason"] == "not_allowed_local"
        assert scene.connected == [GOOD]


async def test_redirect_to_a_private_address_is_judged_like_any_request(scene: Scene) -> None:
    async def redirect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        writer.write(b"HTTP/1.1 302 Found\r\nLocation: http://10.0.0.1/\r\nContent-Length: 0\r\n\r\n")
        await reader.read()
        writer.close()

    await scene.add_server(GOOD, 80, redirect)
    answer = await scene.say(request("http://good.test/"))
    assert b"Location: http://10.0.0.1/" in answer
    assert body_of(await scene.say(request("http://10.0.0.1/", "10.0.0.1")))["reason"] == "not_allowed_local"
    assert scene.connected == [GOOD]


# --- what is said inside ----------------------------------------------------


async def test_header_that_names_another_host_is_not_passed_on(scene: Scene, origin: Origin) -> None:
    answer = await scene.say(request("http://good.test/", "other.test"))
    assert body_of(answer)["reason"] == "host_mismatch"
    assert origin.heads == []


async def test_request_in_a_tunnel_has_to_name_its_host_each_time(scene: Scene, origin: Origin) -> None:
    reader, writer = await scene.open()
    writer.write(b"CONNECT good.test:80 HTTP/1.1\r\nHost: good.test:80\r\n\r\n")
    await read_head(reader)
    writer.write(b"GET /1 HTTP/1.1\r\nHost: good.test\r\n\r\n")
    assert b" 200 " in await read_head(reader)
    await reader.readexactly(3)
    writer.write(b"GET /2 HTTP/1.1\r\nHost: other.test\r\n\r\n")
    assert b" 403 " in await read_head(reader)
    await reader.read()
    writer.close()
    assert [head.split()[1] for head in origin.heads] == [b"/1"]
    assert scene.judge.denials[0].target == "good.test:80"


def client_hello(name: str | None) -> bytes:
    """What a TLS client says first."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    context.check_hostname = False
    tls = context.wrap_bio(incoming, outgoing, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


async def tls_answer(scene: Scene, hello: bytes, piece: int | None = None) -> bytes:
    """Say a hello in a tunnel to good.test, perhaps in pieces, and return what its server received."""
    received = bytearray()
    over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(4096):
                received.extend(data)
                if len(received) >= len(hello):
                    break
        except ConnectionResetError:
            pass
        over.set()
        writer.close()

    await scene.add_server(GOOD, 443, serve)
    reader, writer = await scene.open()
    writer.write(b"CONNECT good.test:443 HTTP/1.1\r\nHost: good.test:443\r\n\r\n")
    await read_head(reader)
    step = piece or len(hello)
    for start in range(0, len(hello), step):
        writer.write(hello[start : start + step])
        await writer.drain()
        await asyncio.sleep(0)
    await over.wait()
    writer.close()
    return bytes(received)


@pytest.mark.parametrize("name", ["good.test", "GOOD.test", None])
async def test_tls_that_asks_for_the_host_of_its_tunnel_passes(scene: Scene, name: str | None) -> None:
    hello = client_hello(name)
    assert await tls_answer(scene, hello) == hello


async def test_tls_in_small_pieces_passes(scene: Scene) -> None:
    hello = client_hello("good.test")
    assert await tls_answer(scene, hello, 7) == hello


async def test_tls_that_asks_for_another_host_does_not_pass(scene: Scene) -> None:
    assert await tls_answer(scene, client_hello("other.test")) == b""
    denial = scene.judge.denials[0]
    assert denial.target == "good.test:443"
    assert "other.test" in str(denial.rule)


async def test_tls_that_can_not_be_read_does_not_pass(scene: Scene) -> None:
    hello = client_hello("good.test")
    assert await tls_answer(scene, hello[:5] + b"\x02" + hello[6:]) == b""


# --- requests that make no sense --------------------------------------------


@pytest.mark.parametrize(
    "said",
    [
        request("http://good.test/", "good.test", "Content-Length: 4", "Transfer-Encoding: chunked"),
        request("http://good.test/", "good.test", "Content-Length: 4", "Content-Length: 5"),
        request("http://good.test/", "good.test", "Content-Length: +4"),
        request("http://good.test/", "good.test", "Transfer-Encoding: chunked, identity"),
        request("http://good.test/", "good.test", "Transfer-Encoding: xchunked"),
        request("http://good.test/", "good.test", "Host: other.test"),
        request("http://good.test/", "good.test", "Content-Length : 4"),
        request("http://good.test/", "good.test\r\n X-Folded: 1\r\n\x00"),
        request("http://user@good.test/"),
        request("https://good.test/"),
        request("ftp://good.test/"),
        request("/relative"),
        request("http://good.test:0/"),
        request("http://good.test:99999/"),
        request("http://good.test:80:80/"),
        request("http://1.2.3.4.5/", "1.2.3.4.5"),
        request("http://fe80::1%25eth0/"),
        b"CONNECT good.test HTTP/1.1\r\nHost: good.test\r\n\r\n",
        b"CONNECT good.test:80/x HTTP/1.1\r\nHost: good.test:80/x\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"GET http://good.test/ HTTP/1.1\r\n" + b"X: " + b"y" * 100_000 + b"\r\n\r\n",
    ],
)
async def test_what_two_readers_could_understand_differently_is_refused(
    scene: Scene, origin: Origin, said: bytes
) -> None:
    answer = await scene.say(said)
    assert answer.startswith((b"HTTP/1.1 4", b"HTTP/1.1 5"))
    assert origin.heads == []


async def test_request_behind_a_request_is_judged_by_itself(scene: Scene, origin: Origin) -> None:
    smuggled = b"GET http://bad.test/ HTTP/1.1\r\nHost: bad.test\r\n\r\n"
    first = b"POST http://good.test/ HTTP/1.1\r\nHost: good.test\r\nContent-Length: 0\r\n\r\n"
    answer = await scene.say(first + smuggled)
    assert answer.count(b"HTTP/1.1 ") == 2
    assert b"HTTP/1.1 403 " in answer
    assert len(origin.heads) == 1


async def test_host_that_does_not_answer_is_not_called_blocked(scene: Scene) -> None:
    assert (await scene.say(b"CONNECT good.test:443 HTTP/1.1\r\nHost: good.test:443\r\n\r\n")).startswith(
        b"HTTP/1.1 502 "
    )
    scene.addresses.clear()
    assert (await scene.say(request("http://good.test/"))).startswith(b"HTTP/1.1 502 ")
    socks = await scene.say(b"\x05\x01\x00" + b"\x05\x01\x00\x03\x09good.test\x01\xbb")
    assert socks[2:4] == b"\x05\x04"
    assert scene.judge.denials == ()


@pytest.mark.parametrize("own", ["192.0.2.77", "2001:db8::77"])
async def test_public_address_of_this_host_is_local(origin: Origin, own: str) -> None:
    literal = f"[{own}]" if ":" in own else own
    for allows_local in (False, True):
        policy = policy_of(["me.test", literal, "*"], [], allows_local=allows_local)
        async with proxy_scene([], policy=policy, me_test=own, other_test=own) as scene:
            await scene.add_server(own, 80, origin.serve)
            for target, is_named in (("me.test", True), (literal, True), ("other.test", False)):
                asked = request(f"http://{target}/", target)
                assert (await scene.say(asked)).endswith(b"ok\n")
                scene.own = {ip_address(own)}
                is_allowed = allows_local and is_named
                assert (b" 403 " in await scene.say(asked)) is not is_allowed
                scene.own = set()


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


# --- how much ---------------------------------------------------------------

GIB = 1 << 30


@pytest.mark.parametrize("size", [GIB // 16, pytest.param(GIB, marks=pytest.mark.soak)])
async def test_large_body_of_a_request_passes_in_bounded_memory(scene: Scene, size: int) -> None:
    piece = bytes(1 << 18)
    got = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal got
        await read_head(reader)
        while got < size:
            # Less at a time than the client sends.
            got += len(await reader.read(1 << 16))
            await asyncio.sleep(0)
        writer.write(ANSWER)
        writer.close()

    await scene.add_server(GOOD, 80, serve)
    reader, writer = await scene.open()
    tracemalloc.start()
    try:
        writer.write(
            b"PUT http://good.test/ HTTP/1.1\r\nHost: good.test\r\nContent-Length: %d\r\n\r\n" % size
        )
        for _ in range(size // len(piece)):
            writer.write(piece)
            await writer.drain()
        assert (await reader.read()).endswith(b"ok\n")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    writer.close()
    assert got == size
    assert peak < 16 << 20


@pytest.mark.parametrize("by", ["http", "chunks", "end", "tunnel"])
@pytest.mark.parametrize("size", [GIB // 16, pytest.param(GIB, marks=pytest.mark.soak)])
async def test_large_body_passes_in_bounded_memory(scene: Scene, size: int, by: str) -> None:
    piece = b"3fff8\r\n" + bytes(0x3FFF8) + b"\r\n" if by == "chunks" else bytes(1 << 18)
    framing = {
        "http": b"Content-Length: %d\r\n" % size,
        "chunks": b"Transfer-Encoding: chunked\r\n",
        "end": b"",
    }

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if by in framing:
            await read_head(reader)
            writer.write(b"HTTP/1.1 200 OK\r\n" + framing[by] + b"\r\n")
        for _ in range(size // (1 << 18)):
            writer.write(piece)
            await writer.drain()
        if by == "chunks":
            writer.write(b"0\r\n\r\n")
        writer.close()

    await scene.add_server(GOOD, 80 if by in framing else 443, serve)
    reader, writer = await scene.open()
    said = (
        request("http://good.test/")
        if by in framing
        else b"CONNECT good.test:443 HTTP/1.1\r\nHost: good.test:443\r\n\r\n"
    )
    writer.write(said)
    await read_head(reader)
    got = 0
    tracemalloc.start()
    try:
        while data := await reader.read(1 << 20):
            got += len(data)
            if got >> 26 != (got - len(data)) >> 26:
                # Somebody who does not read stops the server, not the proxy's memory.
                await asyncio.sleep(0)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    writer.close()
    if by in ("http", "tunnel"):
        assert got == size
    else:
        # Chunks have sizes and line ends.
        assert size <= got < size + (size >> 8)
    assert peak < 16 << 20


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    """Each connection through the proxy has four ends in this process."""
    with DESCRIPTOR_LIMIT.raised():
        yield


@pytest.mark.unmeasured
@pytest.mark.usefixtures("many_descriptors")
async def test_five_hundred_clients_are_served_at_once(scene: Scene) -> None:
    count = min(500, resource.getrlimit(resource.RLIMIT_NOFILE)[1] // 6)
    everybody = asyncio.Barrier(count)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        # Nobody is answered before all have asked.
        await everybody.wait()
        writer.write(ANSWER)
        writer.close()

    await scene.add_server(GOOD, 80, serve)
    answers = await asyncio.gather(*(scene.say(request("http://good.test/")) for _ in range(count)))
    assert all(answer.endswith(b"ok\n") for answer in answers)


async def test_client_that_goes_away_takes_its_connection_along(scene: Scene) -> None:
    over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await read_head(reader)
            assert await reader.read() == b"half"
        except ConnectionResetError:
            pass
        over.set()
        writer.close()

    await scene.add_server(GOOD, 80, serve)
    _reader, writer = await scene.open()
    writer.write(b"POST http://good.test/ HTTP/1.1\r\nHost: good.test\r\nContent-Length: 100\r\n\r\nhalf")
    await writer.drain()
    writer.transport.abort()
    await over.wait()
