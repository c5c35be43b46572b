"""Dialling a websocket: addresses, servers that refuse or stay silent, TLS."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
from websockets.asyncio.server import ServerConnection
from websockets.asyncio.server import serve as independent_serve

from paddock.errors import ConnectError, ConnectionLost, HandshakeRefused
from paddock.transport import websocket
from paddock.transport.http import HttpRequest
from paddock.transport.websocket_link import WebSocketLink
from tests.unit.transport.conftest import Serve
from tests.unit.transport.recorder import Acceptor


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:1", "ws://", "127.0.0.1:1", "ws://127.0.0.1:1/#part", "ws://127.0.0.1:x", "ws://[::1"],
)
async def test_a_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConnectError):
        await websocket.connect(url, Acceptor())


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("ws://127.0.0.1:70000", "port out of range"),
        ("ws://[::1", "invalid IPv6 URL"),
        ("ws://a..b:1", "its host or path holds characters that a URL can't carry"),
        ("ws://127.0.0.1:1/\udcff", "its host or path holds characters that a URL can't carry"),
    ],
)
async def test_what_is_wrong_with_a_url_is_said(url: str, reason: str) -> None:
    with pytest.raises(ConnectError, match=reason):
        await websocket.connect(url, Acceptor())


async def test_a_password_in_the_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(ConnectError, match="headers") as caught:
        await websocket.connect("ws://user:hunter2@127.0.0.1:1", Acceptor())
    assert "hunter2" not in str(caught.value)


async def test_a_password_in_a_url_that_is_none_is_not_repeated() -> None:
    with pytest.raises(ConnectError) as caught:
        await websocket.connect("ws://user:hunter2@127.0.0.1:x", Acceptor())
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("name", ["", "a b", "X\r\nY", "X:", "Upgrade", "sec-websocket-key"])
async def test_a_header_whose_name_is_none_or_our_own_is_refused(name: str) -> None:
    with pytest.raises(ConnectError, match="name of an additional header"):
        await websocket.connect("ws://127.0.0.1:1", Acceptor(), headers={name: "value"})


@pytest.mark.parametrize(
    ("resource", "path"),
    [("", "/"), ("/a%20b", "/a%20b"), ("/a b\r\n/c", "/a%20b/c"), ("/é?ü", "/%C3%A9"), ("?a=b", "/")],
)
async def test_a_url_is_quoted_where_it_must_be(
    serve: Serve, acceptor: Acceptor, resource: str, path: str
) -> None:
    seen: list[HttpRequest] = []
    listener = await serve(Acceptor(), http=seen.append)
    await websocket.connect(listener.url + resource, acceptor)
    assert seen[0].path == path
    assert seen[0].headers["Host"] == listener.url.removeprefix("ws://")


async def test_a_host_that_the_caller_names_is_sent_in_place_of_the_address(
    serve: Serve, acceptor: Acceptor
) -> None:
    seen: list[HttpRequest] = []
    listener = await serve(Acceptor(), http=seen.append)
    await websocket.connect(listener.url, acceptor, headers={"Host": "paddock.example"})
    assert seen[0].headers.all("Host") == ["paddock.example"]


async def test_both_sides_send_without_delay(
    serve: Serve, acceptor: Acceptor, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams: list[asyncio.Transport] = []
    open_link = WebSocketLink.open

    def look(link: WebSocketLink, stream: asyncio.Transport, early: bytes) -> None:
        streams.append(stream)
        open_link(link, stream, early)

    monkeypatch.setattr(WebSocketLink, "open", look)
    listener = await serve(Acceptor())
    await websocket.connect(listener.url, acceptor)
    sockets = [stream.get_extra_info("socket") for stream in streams]
    assert [sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for sock in sockets] == [1, 1]


async def test_connecting_where_nobody_listens_fails_with_the_reason() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"ws://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(ConnectError, match="connection refused") as caught:
            await websocket.connect(url, Acceptor())
    assert caught.value.address == url


@pytest.fixture
async def mute_server() -> AsyncIterator[tuple[str, asyncio.Queue[asyncio.StreamReader]]]:
    """Accept connections and never answer; give the URL and the connections."""
    arrivals: asyncio.Queue[asyncio.StreamReader] = asyncio.Queue()
    writers: list[asyncio.StreamWriter] = []

    def arrive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        arrivals.put_nowait(reader)

    server = await asyncio.start_server(arrive, "127.0.0.1", 0)
    yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}", arrivals
    server.close()
    for writer in writers:
        writer.transport.abort()


async def test_a_server_that_does_not_answer_is_given_up_and_hung_up_on(
    mute_server: tuple[str, asyncio.Queue[asyncio.StreamReader]],
) -> None:
    url, arrivals = mute_server
    with pytest.raises(ConnectError, match=r"no answer within 0\.05 s"):
        await websocket.connect(url, Acceptor(), timeout_s=0.05)
    reader = await arrivals.get()
    async with asyncio.timeout(20):
        assert (await reader.read(-1)).startswith(b"GET / HTTP/1.1")


async def test_a_cancelled_connect_leaves_nothing_open(
    mute_server: tuple[str, asyncio.Queue[asyncio.StreamReader]],
) -> None:
    url, arrivals = mute_server
    task = asyncio.create_task(websocket.connect(url, Acceptor()))
    reader = await arrivals.get()
    await reader.readuntil(b"\r\n\r\n")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(20):
        assert await reader.read(-1) == b""


async def answering(answer: bytes) -> asyncio.Server:
    """Serve one fixed answer and hang up."""

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()
        await writer.wait_closed()

    return await asyncio.start_server(respond, "127.0.0.1", 0)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"", "ended the connection during the handshake"),
        (b"SSH-2.0-OpenSSH_9.9\r\n\r\n", "HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\n\r\nhello", "refused with HTTP 200 hello"),
        (b"HTTP/1.1 302 Found\r\nLocation: ws://127.0.0.1:1/\r\n\r\n", "refused with HTTP 302"),
        (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", "upgrade"),
        (b"HTTP/1.1 101 Switching Protocols\r\nX: " + b"x" * 20_000, "16384"),
    ],
)
async def test_a_server_that_does_not_upgrade_is_no_server(answer: bytes, message: str) -> None:
    server = await answering(answer)
    url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    with pytest.raises(ConnectError, match=message):
        await websocket.connect(url, Acceptor())
    server.close()
    await server.wait_closed()


class Refuser:
    """Serves an answer piece by piece, each when the client has had time to read the one before."""

    def __init__(self, *pieces: bytes, hangs_up: bool) -> None:
        self._pieces = pieces
        self._hangs_up = hangs_up
        self._server: asyncio.Server
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> str:
        self._server = await asyncio.start_server(self._respond, "127.0.0.1", 0)
        return f"ws://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        await reader.readuntil(b"\r\n\r\n")
        for piece in self._pieces:
            writer.write(piece)
            for _ in range(5):
                await asyncio.sleep(0)
        if self._hangs_up:
            writer.close()


@pytest.mark.parametrize(
    ("pieces", "hangs_up", "text"),
    [
        ((b"HTTP/1.1 401 No\r\nContent-Length: 9\r\n\r\n", b"not ", b"today and more"), False, "not today"),
        ((b"HTTP/1.1 401 No\r\nContent-Length: 99\r\n\r\n", b"not ", b"today"), True, "not today"),
        ((b"HTTP/1.1 401 No\r\n\r\nn", b"ot", b" today"), True, "not today"),
        ((b"HTTP/1.1 401 No\r\n\r\n", b"x" * 3000, b"y" * 3000), False, "x" * 3000 + "y" * 1096),
        ((b"HTTP/1.1 401 No\r\nTransfer-Encoding: chunked\r\n\r\n", b"3\r\nnot\r\n"), False, ""),
        ((b"HTTP/1.1 401 No\r\nContent-Length: 2\r\n\r\n", b"\xff\n"), False, "\ufffd\n"),
    ],
)
async def test_the_whole_text_of_a_refusal_is_told_up_to_a_limit(
    pieces: tuple[bytes, ...], hangs_up: bool, text: str
) -> None:
    async with Refuser(*pieces, hangs_up=hangs_up) as url:
        with pytest.raises(HandshakeRefused) as caught:
            await websocket.connect(url, Acceptor(), timeout_s=20)
    assert (caught.value.status, caught.value.body) == (401, text)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"\x1b[31mgo away\x07\r\nfor ever\n", "HTTP 401 [31mgo away for ever"),
        (b"<p>\n" * 100, f"HTTP 401 {'<p> ' * 50}…"),
        (b"\n", "HTTP 401"),
    ],
)
async def test_the_error_of_a_refusal_is_one_line_whatever_the_server_says(body: bytes, told: str) -> None:
    async with Refuser(b"HTTP/1.1 401 No\r\n\r\n", body, hangs_up=True) as url:
        with pytest.raises(HandshakeRefused) as caught:
            await websocket.connect(url, Acceptor())
    assert caught.value.body == body.decode()
    assert str(caught.value) == f"can't connect to {url}: the server refused with {told}"


async def test_a_server_of_another_protocol_is_not_waited_for() -> None:
    async with Refuser(b"SSH-2.0-OpenSSH_9.9\r\n", hangs_up=False) as url:
        with pytest.raises(ConnectError, match="SSH-2"):
            await websocket.connect(url, Acceptor(), timeout_s=3600)


async def test_a_refusal_that_does_not_end_in_time_is_told_as_far_as_it_came() -> None:
    async with Refuser(b"HTTP/1.1 401 No\r\nContent-Length: 99\r\n\r\nnot t", hangs_up=False) as url:
        with pytest.raises(HandshakeRefused) as caught:
            await websocket.connect(url, Acceptor(), timeout_s=0.2)
    assert (caught.value.status, caught.value.body) == (401, "not t")


@pytest.mark.parametrize("turns", range(6))
async def test_a_reset_at_any_moment_of_connecting_spoils_no_later_connection(
    turns: int, serve: Serve, acceptor: Acceptor
) -> None:
    guests = Acceptor()
    listener = await serve(guests)
    # A listener that is closed resets those whom it has not accepted.
    fickle = socket.create_server(("127.0.0.1", 0))
    connecting = asyncio.ensure_future(
        websocket.connect(f"ws://127.0.0.1:{fickle.getsockname()[1]}", Acceptor())
    )
    for _ in range(turns):
        await asyncio.sleep(0)
    fickle.close()
    with pytest.raises(ConnectError):
        await connecting
    # Between them they get the descriptors that were closed.
    for number in range(2):
        link = await websocket.connect(listener.url, acceptor)
        link.send(b"hello")
        guest = await guests.arrived(number)
        assert await guest.received(1) == [b"hello"]


async def test_the_client_understands_another_implementation(acceptor: Acceptor) -> None:
    async def echo(connection: ServerConnection) -> None:
        async for message in connection:
            await connection.send(message)
        await connection.close(1011, "bye")

    async with independent_serve(echo, "127.0.0.1", 0, max_size=None) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        link = await websocket.connect(f"ws://127.0.0.1:{port}", acceptor)
        client = await acceptor.arrived()
        messages = [b"", b"x", b"x" * 126, b"x" * 65536, b"x" * 3_000_000]
        for message in messages:
            link.send(message)
        assert await client.received(len(messages)) == messages
        link.close()
        assert await client.ended() is None


async def test_a_server_that_dies_is_reported_as_lost(acceptor: Acceptor) -> None:
    async def die(connection: ServerConnection) -> None:
        connection.transport.abort()

    async with independent_serve(die, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        await websocket.connect(f"ws://127.0.0.1:{port}", acceptor)
        assert isinstance(await (await acceptor.arrived()).ended(), ConnectionLost)


# ---------------------------------------------------------------- TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a key and a certificate for 127.0.0.1, in one file."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    # Its own configuration: that of the host may be missing or ask for more.
    configuration = path.with_name("openssl.cnf")
    configuration.write_text("[req]\ndistinguished_name = name\n[name]\n")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=test"
    public = path.with_suffix(".crt")
    options = ["-config", str(configuration), "-addext", "subjectAltName=IP:127.0.0.1"]
    made = subprocess.run(
        [*command.split(), *options, "-keyout", str(path), "-out", str(public)],
        capture_output=True,
        check=False,
        text=True,
    )
    assert made.returncode == 0, made.stderr
    with path.open("ab") as file:
        file.write(public.read_bytes())
    return path


async def test_a_secure_url_is_spoken_to_over_tls(certificate: Path, acceptor: Acceptor) -> None:
    async def echo(connection: ServerConnection) -> None:
        async for message in connection:
            await connection.send(message)

    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(certificate)
    trusting = ssl.create_default_context(cafile=certificate)
    async with independent_serve(echo, "127.0.0.1", 0, ssl=server_side, max_size=None) as server:
        url = f"wss://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}"
        with pytest.raises(ConnectError, match="certificate"):
            await websocket.connect(url, acceptor)
        link = await websocket.connect(url, acceptor, ssl_context=trusting)
        client = await acceptor.arrived()
        link.send(b"x" * 1_000_000)
        assert await client.received(1) == [b"x" * 1_000_000]
        link.close()
        assert await client.ended() is None
