"""What the policy proxy keeps from passing, over real sockets, and that nothing gets around it."""

from __future__ import annotations

import asyncio
from ipaddress import ip_address

import pytest

from paddock.network.http_message import LINES_LIMIT
from paddock.network.policy import policy_of
from tests.unit.network.scene import (
    GOOD,
    Origin,
    Scene,
    body_of,
    client_hello,
    proxy_scene,
    read_head,
    request,
)

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


MANY_LINES = b"a:b\r\n" * LINES_LIMIT


async def test_head_of_very_many_lines_is_refused_before_it_is_read(scene: Scene, origin: Origin) -> None:
    said = b"GET http://good.test/ HTTP/1.1\r\nHost: good.test\r\n"
    assert (await scene.say(said + MANY_LINES + b"\r\n")).startswith(b"HTTP/1.1 431 ")
    assert origin.heads == []
    few = b"a:b\r\n" * (LINES_LIMIT - 3)
    assert b" 200 " in await scene.say(said + few + b"Connection: close\r\n\r\n")


async def test_request_with_very_many_lines_behind_its_body_is_not_whole(scene: Scene) -> None:
    said = asyncio.get_running_loop().create_future()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said.set_result(await reader.read())
        writer.close()

    await scene.add_server(GOOD, 80, listen)
    head = b"POST http://good.test/ HTTP/1.1\r\nHost: good.test\r\nTransfer-Encoding: chunked\r\n\r\n"
    await scene.say(head + b"2\r\nok\r\n0\r\n" + MANY_LINES + b"a:b\r\n\r\n")
    assert not (await said).endswith(b"0\r\n\r\n")


@pytest.mark.parametrize("is_behind", [True, False])
async def test_answer_with_very_many_lines_is_refused_or_not_whole(scene: Scene, is_behind: bool) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        body = b"Transfer-Encoding: chunked\r\n"
        lines = b"" if is_behind else MANY_LINES
        trailer = MANY_LINES + b"a:b\r\n" if is_behind else b""
        writer.write(b"HTTP/1.1 200 OK\r\n" + body + lines + b"\r\n2\r\nok\r\n0\r\n" + trailer + b"\r\n")
        await writer.drain()
        writer.close()

    await scene.add_server(GOOD, 80, answer)
    reader, writer = await scene.open()
    writer.write(request("http://good.test/"))
    try:
        told = await reader.read()
    except ConnectionResetError:
        told = b""
    writer.close()
    assert b"a: b" not in told
    assert b"a:b" not in told
    assert not told.endswith(b"0\r\n\r\n")
    assert is_behind or told.startswith(b"HTTP/1.1 502 ")


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
