"""How peers get a websocket link: listening, HTTP, the upgrade."""

from __future__ import annotations

import asyncio
import codecs
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast
from urllib.parse import urlsplit

import pytest

from paddock.errors import ConnectError, HandshakeRefused, ListenError
from paddock.transport import websocket
from paddock.transport.http import HEAD_LINES, HttpRequest, HttpResponse
from paddock.transport.limits import WebSocketLimits
from paddock.transport.pending_handshakes import PendingHandshakes
from tests.unit.transport.conftest import Serve
from tests.unit.transport.raw_peer import RESET_ON_CLOSE, TEXT, UPGRADE, RawPeer, frame, request
from tests.unit.transport.recorder import PATIENCE_S, Acceptor


async def ask(url: str, head: bytes) -> tuple[str, bytes]:
    """Send one request and give the head and the body of the answer."""
    peer = await RawPeer.dial(url)
    peer.send(head)
    answer = await peer.head(), await peer.rest()
    await peer.aclose()
    return answer


# ---------------------------------------------------------------- listening


async def test_the_url_names_the_port_that_the_kernel_chose(serve: Serve) -> None:
    listener = await serve(Acceptor())
    port = urlsplit(listener.url).port
    assert listener.url == f"ws://127.0.0.1:{port}"
    assert port != 0


async def test_an_ipv6_address_is_put_in_brackets(acceptor: Acceptor) -> None:
    listener = await websocket.listen("::1", 0, Acceptor())
    assert listener.url.startswith("ws://[::1]:")
    link = await websocket.connect(listener.url, acceptor)
    assert link.peer == f"ws {listener.url.removeprefix('ws://')}"
    link.abort()
    await listener.aclose()


async def test_a_host_name_is_resolved(acceptor: Acceptor) -> None:
    listener = await websocket.listen("localhost", 0, Acceptor())
    port = urlsplit(listener.url).port
    link = await websocket.connect(f"ws://localhost:{port}", acceptor)
    link.abort()
    await listener.aclose()


async def test_an_address_in_use_is_refused_with_its_name(serve: Serve) -> None:
    listener = await serve(Acceptor())
    port = urlsplit(listener.url).port
    assert port is not None
    with pytest.raises(ListenError, match="address already in use") as caught:
        await websocket.listen("127.0.0.1", port, Acceptor())
    assert caught.value.address == listener.url


@pytest.mark.parametrize(("host", "port"), [("192.0.2.1", 0), ("127.0.0.1", 70000), ("no.such.invalid", 0)])
async def test_an_address_that_is_not_ours_is_refused(host: str, port: int) -> None:
    with pytest.raises(ListenError):
        await websocket.listen(host, port, Acceptor())


async def test_a_closed_listener_keeps_its_links_and_takes_no_more(serve: Serve, acceptor: Acceptor) -> None:
    servers = Acceptor()
    listener = await serve(servers)
    link = await websocket.connect(listener.url, acceptor)
    listener.close()
    listener.close()
    with pytest.raises(ConnectError, match="refused"):
        await websocket.connect(listener.url, acceptor)
    link.send(b"still here")
    assert await (await servers.arrived()).received(1) == [b"still here"]


async def test_ending_a_listener_closes_its_links_and_drops_unfinished_handshakes(
    serve: Serve, acceptor: Acceptor
) -> None:
    listener = await serve(Acceptor(), WebSocketLimits(handshake_timeout_s=3600))
    await websocket.connect(listener.url, acceptor)
    hesitant = await RawPeer.dial(listener.url)
    hesitant.send(b"GET / HTTP/1.1\r\n")
    await hesitant.flush()
    # Accepted in order, so the hesitant one is known to the listener when this one is answered.
    await ask(listener.url, request("/", {"Host": "test"}))
    await listener.aclose()
    client = await acceptor.arrived()
    assert await client.ended() is None
    assert await hesitant.rest() == b""
    await hesitant.aclose()


async def test_no_more_than_the_allowed_connections_are_open(serve: Serve, acceptor: Acceptor) -> None:
    servers = Acceptor()
    listener = await serve(servers, WebSocketLimits(max_connections=1))
    first = await websocket.connect(listener.url, acceptor)
    with pytest.raises(HandshakeRefused) as caught:
        await websocket.connect(listener.url, acceptor)
    assert (caught.value.status, caught.value.body) == (503, "too many connections")
    first.close()
    await (await servers.arrived()).ended()
    await websocket.connect(listener.url, acceptor)


@contextmanager
def no_more_descriptors() -> Iterator[None]:
    """Leave the process not one file descriptor more than it has."""
    # uvloop needs it to connect, and a file that is not open yet could not be opened.
    codecs.lookup("idna")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = os.open(os.devnull, os.O_RDONLY)
    gaps = [highest]
    try:
        # Fill the numbers below the highest one in use, then forbid those above.
        ceiling = max(int(name) for name in os.listdir("/proc/self/fd")) + 1
        resource.setrlimit(resource.RLIMIT_NOFILE, (ceiling, hard))
        while True:
            try:
                gaps.append(os.open(os.devnull, os.O_RDONLY))
            except OSError:
                break
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in gaps:
            os.close(fd)


async def test_who_has_no_descriptors_is_told_so_and_may_try_again(serve: Serve, acceptor: Acceptor) -> None:
    listener = await serve(Acceptor())
    with no_more_descriptors():
        with pytest.raises(ConnectError, match="too many open files"):
            await websocket.connect(listener.url, acceptor)
        with pytest.raises(ListenError, match=r"(?i)too many open files"):
            await websocket.listen("127.0.0.1", 0, acceptor)
    await websocket.connect(listener.url, acceptor)


async def test_peers_are_turned_away_while_there_are_no_descriptors_and_welcome_afterwards(
    serve: Serve, acceptor: Acceptor, caplog: pytest.LogCaptureFixture
) -> None:
    listener = await serve(Acceptor())
    loop = asyncio.get_running_loop()
    target = urlsplit(listener.url)
    with socket.socket() as peer:
        peer.setblocking(False)
        with no_more_descriptors():
            await loop.sock_connect(peer, (target.hostname, target.port))
            async with asyncio.timeout(20):
                assert await loop.sock_recv(peer, 1) == b""
    assert caplog.text.count("out of file descriptors") == 1
    await websocket.connect(listener.url, acceptor)


async def test_a_reserve_that_another_thread_took_is_missed_by_nobody(
    serve: Serve, acceptor: Acceptor, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener = await serve(Acceptor())
    loop = asyncio.get_running_loop()
    target = urlsplit(listener.url)
    overtaken = loop.create_future()

    def close_and_be_overtaken(fd: int) -> None:
        monkeypatch.undo()
        os.close(fd)
        overtaken.set_result(os.open(os.devnull, os.O_RDONLY))

    complaints: list[dict[str, object]] = []
    loop.set_exception_handler(lambda _, complaint: complaints.append(complaint))
    with socket.socket() as peer:
        peer.setblocking(False)
        with no_more_descriptors():
            monkeypatch.setattr(os, "close", close_and_be_overtaken)
            await loop.sock_connect(peer, (target.hostname, target.port))
            stolen = await overtaken
            # The loop looks at the listener again, and finds nothing that it could do.
            await asyncio.sleep(0)
        os.close(stolen)
        await websocket.connect(listener.url, acceptor)
    assert complaints == []


# ---------------------------------------------------------------- HTTP


async def test_the_policy_sees_method_path_and_headers(serve: Serve, acceptor: Acceptor) -> None:
    seen: list[HttpRequest] = []

    def look(request: HttpRequest) -> HttpResponse | None:
        seen.append(request)
        return None

    listener = await serve(Acceptor(), http=look)
    await websocket.connect(
        f"{listener.url}/some/path?query=1", acceptor, headers={"Authorization": "Bearer x"}
    )
    [request] = seen
    assert (request.method, request.path) == ("GET", "/some/path")
    assert request.headers["authorization"] == "Bearer x"
    assert request.headers.get("Origin") is None


async def test_the_policy_may_answer_instead(serve: Serve) -> None:
    def health(request: HttpRequest) -> HttpResponse | None:
        if request.path == "/healthz":
            return HttpResponse(status=200, body=b'{"ok":true}', content_type="application/json")
        return HttpResponse(status=404)

    listener = await serve(Acceptor(), http=health)
    head, body = await ask(listener.url, request("/healthz", {"Host": "test"}))
    assert head.startswith("HTTP/1.1 200 OK\r\n")
    assert "content-type: application/json\r\n" in head.lower()
    assert "connection: close\r\n" in head.lower()
    assert body == b'{"ok":true}'
    head, body = await ask(listener.url, request("/else", {"Host": "test"}))
    assert head.startswith("HTTP/1.1 404 Not Found\r\n")
    assert "content-length: 0\r\n" in head.lower()
    assert body == b""


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_a_client_that_is_refused_learns_status_and_text(
    serve: Serve, acceptor: Acceptor, status: int
) -> None:
    listener = await serve(Acceptor(), http=lambda _: HttpResponse(status=status, body=b"no entry"))
    with pytest.raises(HandshakeRefused) as caught:
        await websocket.connect(listener.url, acceptor)
    assert (caught.value.status, caught.value.body) == (status, "no entry")
    assert acceptor.recorders == []


async def test_a_policy_that_fails_tells_the_peer_nothing(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(request: HttpRequest) -> HttpResponse | None:
        raise RuntimeError("secret detail")

    listener = await serve(Acceptor(), http=fail)
    head, body = await ask(listener.url, request())
    assert head.startswith("HTTP/1.1 500 ")
    assert b"secret" not in body
    assert "secret detail" in caplog.text


@pytest.mark.parametrize(
    "head",
    [
        request("/", {"Host": "test"}),
        request("/", UPGRADE | {"Upgrade": "h2c"}),
        request("/", UPGRADE | {"Connection": "keep-alive"}),
        request("/", UPGRADE | {"Sec-WebSocket-Version": "12"}),
        request("/", UPGRADE | {"Sec-WebSocket-Key": "short"}),
        request("/", method="POST"),
        request().replace(b"HTTP/1.1", b"HTTP/1.0"),
        b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nbroken\r\n\r\n",
    ],
)
async def test_what_is_no_proper_upgrade_gets_a_400(serve: Serve, head: bytes) -> None:
    servers = Acceptor()
    listener = await serve(servers)
    answer, _ = await ask(listener.url, head)
    assert answer.startswith("HTTP/1.1 400 ")
    assert servers.recorders == []


async def test_a_bad_request_is_answered_with_the_reason(serve: Serve) -> None:
    listener = await serve(Acceptor())
    head, body = await ask(listener.url, request("/", UPGRADE | {"Sec-WebSocket-Version": "8"}))
    assert head.startswith("HTTP/1.1 400 Bad Request\r\n")
    assert "\r\nSec-WebSocket-Version: 13\r\n" in head
    assert body == b"Sec-WebSocket-Version must be 13\n"


@pytest.mark.parametrize(("more", "status"), [(0, 101), (1, 400)])
async def test_a_head_has_a_bounded_number_of_lines(serve: Serve, more: int, status: int) -> None:
    listener = await serve(Acceptor())
    head = request()
    room = HEAD_LINES - head.count(b"\r\n") + 1
    peer = await RawPeer.dial(listener.url)
    peer.send(head[:-2] + b"a:\r\n" * (room + more) + b"\r\n")
    assert (await peer.head()).startswith(f"HTTP/1.1 {status} ")
    await peer.aclose()


async def test_upgrade_may_be_one_of_several_connection_options(serve: Serve) -> None:
    listener = await serve(Acceptor())
    peer = await RawPeer.dial(listener.url)
    peer.send(request("/", UPGRADE | {"Connection": "keep-alive, Upgrade"}))
    assert (await peer.head()).startswith("HTTP/1.1 101 ")
    await peer.aclose()


async def test_no_extension_and_no_subprotocol_is_agreed_to(serve: Serve) -> None:
    listener = await serve(Acceptor())
    peer = await RawPeer.dial(listener.url)
    offers = {"Sec-WebSocket-Extensions": "permessage-deflate", "Sec-WebSocket-Protocol": "chat"}
    peer.send(request("/", UPGRADE | offers))
    head = (await peer.head()).lower()
    assert head.startswith("http/1.1 101 ")
    assert "sec-websocket-extensions" not in head
    assert "sec-websocket-protocol" not in head
    await peer.aclose()


async def test_a_request_that_trickles_in_is_understood(serve: Serve) -> None:
    servers = Acceptor()
    listener = await serve(servers)
    peer = await RawPeer.dial(listener.url)
    for byte in request():
        peer.send(bytes([byte]))
        await asyncio.sleep(0)
    assert (await peer.head()).startswith("HTTP/1.1 101 ")
    peer.send(frame(TEXT, b"hello"))
    assert await (await servers.arrived()).received(1) == [b"hello"]
    await peer.aclose()


async def test_messages_that_come_with_the_request_are_received(serve: Serve) -> None:
    servers = Acceptor()
    listener = await serve(servers)
    messages = [b"hello", b"x" * 20_000]
    peer = await RawPeer.upgrade(listener.url, [frame(TEXT, message) for message in messages])
    assert await (await servers.arrived()).received(2) == messages
    await peer.aclose()


@pytest.mark.parametrize("beginning", [b"", b"GET / HTTP/1.1\r\nHost: te"])
async def test_a_peer_that_does_not_finish_its_request_is_dropped(serve: Serve, beginning: bytes) -> None:
    listener = await serve(Acceptor(), WebSocketLimits(handshake_timeout_s=0.02))
    peer = await RawPeer.dial(listener.url)
    peer.send(beginning)
    assert await peer.rest() == b""
    await peer.aclose()


async def test_a_peer_that_resets_in_the_middle_of_its_request_is_dropped_at_once(serve: Serve) -> None:
    listener = await serve(Acceptor(), WebSocketLimits(handshake_timeout_s=3600))
    handshakes = cast(Any, listener)._arrivals._handshakes
    parts = urlsplit(listener.url)
    with socket.create_connection((parts.hostname, parts.port)) as sock:
        # Whoever comes later is accepted later.
        later = await RawPeer.upgrade(listener.url)
        sock.send(request()[:50])
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    async with asyncio.timeout(PATIENCE_S):
        await handshakes._all_gone.wait()
    await later.aclose()


async def test_an_endless_request_is_dropped(serve: Serve) -> None:
    listener = await serve(Acceptor())
    peer = await RawPeer.dial(listener.url)
    peer.send(b"GET / HTTP/1.1\r\n", b"X: " + b"x" * 65536)
    assert await peer.rest() == b""
    await peer.aclose()


async def test_a_peer_that_does_not_take_its_answer_is_dropped(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = HttpResponse(status=200, body=b"x" * 32_000_000)
    is_gone = asyncio.Event()
    count_out = PendingHandshakes.end

    def look(handshakes: PendingHandshakes, sock: socket.socket) -> None:
        count_out(handshakes, sock)
        is_gone.set()

    monkeypatch.setattr(PendingHandshakes, "end", look)
    listener = await serve(Acceptor(), WebSocketLimits(handshake_timeout_s=0.05), http=lambda _: page)
    peer = await RawPeer.dial(listener.url)
    peer.stop_reading()
    peer.send(request("/", {"Host": "test"}))
    async with asyncio.timeout(20):
        await is_gone.wait()
    await peer.aclose()


# ---------------------------------------------------------------- start-up


def test_only_the_websocket_modules_import_the_library_below_them() -> None:
    program = (
        "import sys\n"
        "import paddock.transport.memory, paddock.transport.stdio, paddock.transport.unix\n"
        "print([name for name in ('paddock.transport.websocket', 'http', 'ssl') if name in sys.modules])\n"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    # asyncio itself imports ssl.
    assert found.stdout.strip() == "['ssl']"
