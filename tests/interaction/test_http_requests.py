"""`http/request`: what the host fetches for a client, whole or piece by piece."""

from __future__ import annotations

import asyncio
import base64
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import h11
import pytest

from paddock.config import Settings
from paddock.fetch.gated_stream import LINES_PER_TURN
from paddock.model.network_secret import NetworkSecret
from paddock.server.connection import ClientConnection
from paddock.server.handlers.fetch import ENCODED_BYTES, SMALL_BODY_BYTES
from paddock.server.memory_budget import Grant
from paddock.transport.limits import TransportLimits
from tests.http_origin import Asked, origin, response, say_ok
from tests.turn_count import counted
from tests.wire import Message, WireClient, WireError, attach, served, session, shell

SEND_BUFFER = 64 * 1024
TIME_FOR_A_HEAD_MS = 1500
"""Enough for the head of an answer to arrive on a busy host, so that what runs out of time is the body."""


async def fetch(client: WireClient, url: str, **params: Any) -> Any:
    return await client.call("http/request", {"method": "GET", "url": url, "requestId": "r"} | params)


async def delta(client: WireClient, request_id: str = "r") -> Message:
    """The next piece of a stream."""

    def wanted(message: Message) -> bool:
        is_delta = message.get("method") == "http/request/bodyDelta"
        return is_delta and message["params"]["requestId"] == request_id

    params: Message = (await client.take(wanted))["params"]
    return params


async def streamed(client: WireClient, request_id: str = "r") -> tuple[bytes, str | None]:
    """A whole stream; checks that it is numbered without gaps and ends with an empty piece."""
    body = b""
    seq = 0
    while True:
        params = await delta(client, request_id)
        seq += 1
        assert params["seq"] == seq
        piece = base64.b64decode(params["deltaBase64"])
        assert len(piece) <= 1024 * 1024
        if params["done"]:
            assert piece == b""
            return body, params["error"]
        body += piece


async def test_an_answer_comes_with_its_status_headers_and_body() -> None:
    async with session() as client, origin(say_ok) as remote:
        result = await fetch(
            client,
            f"{remote.url}/a?b=c d",
            method="POST",
            bodyBase64="aGk=",
            headers=[{"name": "X-A", "value": "1"}, {"name": "X-A", "value": "2"}],
        )

    assert result == {
        "status": 200,
        "headers": [
            {"name": "set-cookie", "value": "a=1"},
            {"name": "set-cookie", "value": "b=2"},
            {"name": "content-length", "value": "2"},
        ],
        "bodyBase64": "b2s=",
    }
    (asked,) = remote.requests
    assert (asked.method, asked.target, asked.body) == ("POST", "/a?b=c%20d", b"hi")
    assert asked.header("x-a") == ["1", "2"]


async def test_nothing_is_sent_that_the_client_did_not_ask_for() -> None:
    async with session() as client, origin(say_ok) as remote:
        await fetch(client, remote.url)
        await fetch(client, remote.url)

    for asked in remote.requests:
        assert {name for name, _ in asked.headers} == {"host", "accept"}
    assert remote.connections == 1


async def test_a_header_is_completed_from_the_environment_of_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PADDOCK_TEST_TOKEN", "hunter2")
    header = {"name": "Authorization", "value": "Bearer ", "valueEnvVar": "PADDOCK_TEST_TOKEN"}
    async with session() as client, origin(say_ok) as remote:
        await fetch(client, remote.url, headers=[header])

    assert remote.requests[0].header("authorization") == ["Bearer hunter2"]


async def redirect(asked: Asked, writer: asyncio.StreamWriter) -> None:
    """`/to/URL` leads to URL; anything else says what it is."""
    if asked.target.startswith("/to/"):
        writer.write(response(b"moved", f"Location: {asked.target[4:]}", status="302 Found"))
    else:
        writer.write(response(b"here"))


async def test_a_redirect_is_followed_over_the_same_connection() -> None:
    async with session() as client, origin(redirect) as remote:
        result = await fetch(client, f"{remote.url}/to//there", method="POST", bodyBase64="aGk=")

    assert (result["status"], result["bodyBase64"]) == (200, "aGVyZQ==")
    assert [(asked.method, asked.target) for asked in remote.requests] == [
        ("POST", "/to//there"),
        ("GET", "/there"),
    ]
    assert remote.connections == 1


async def test_a_redirect_is_shown_to_a_client_that_wants_to_stop_at_it() -> None:
    async with session() as client, origin(redirect) as remote:
        result = await fetch(client, f"{remote.url}/to//there", redirectPolicy="stop")

    assert (result["status"], result["bodyBase64"]) == (302, "bW92ZWQ=")
    assert {"name": "location", "value": "/there"} in result["headers"]


async def test_a_secret_is_not_repeated_to_another_origin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_TEST_TOKEN", "hunter2")
    headers = [
        {"name": "X-Key", "value": "", "valueEnvVar": "PADDOCK_TEST_TOKEN"},
        {"name": "X-Plain", "value": "1"},
    ]
    async with session() as client, origin(say_ok) as other, origin(redirect) as remote:
        await fetch(client, f"{remote.url}/to/{other.url}/", headers=headers)
        await fetch(client, f"{remote.url}/to//there", headers=headers)

    assert [asked.header("x-key") for asked in remote.requests] == [["hunter2"]] * 3
    assert other.requests[0].header("x-key") == []
    assert other.requests[0].header("x-plain") == ["1"]


async def test_redirects_without_end_and_to_other_schemes_fail() -> None:
    async def again(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(response(b"", f"Location: {asked.target}", status="307 Again"))

    async with session() as client, origin(again) as loop, origin(redirect) as remote:
        with pytest.raises(WireError, match="more than 10 redirects") as too_many:
            await fetch(client, loop.url)
        with pytest.raises(WireError, match="unsupported URL scheme: ftp"):
            await fetch(client, f"{remote.url}/to/ftp://example.invalid/")

    assert too_many.value.code == -32603
    assert len(loop.requests) == 11


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("nope", "relative URL without a base"),
        ("", "relative URL without a base"),
        ("ftp://x/", "only supports http and https URLs, got ftp"),
        ("http://", "empty host"),
        ("http://127.0.0.1:99999/", "invalid port number"),
        ("http://[::1", "url is invalid"),
        ("http://a\nb/", "url is invalid"),
    ],
)
async def test_a_bad_url_is_refused_before_anything_is_sent(url: str, problem: str) -> None:
    async with session() as client:
        with pytest.raises(WireError, match=problem) as refusal:
            await fetch(client, url)
    assert refusal.value.code == -32602


async def test_a_failure_names_the_url_without_its_password_and_the_reason() -> None:
    async with session() as client:
        with pytest.raises(WireError) as refusal:
            await fetch(client, "http://me:hunter2@127.0.0.1:1/x")
    assert refusal.value.code == -32603
    assert refusal.value.message == (
        "http/request failed: error sending request for url (http://127.0.0.1:1/x): Connection refused"
    )


async def stall(asked: Asked, writer: asyncio.StreamWriter) -> None:
    """Give three of ten bytes, or nothing, and no more."""
    if asked.target == "/body":
        writer.write(response(b"0123456789")[:-7])
        await writer.drain()
    await asyncio.Event().wait()


async def test_the_time_of_a_request_covers_the_head_and_the_body() -> None:
    async with session() as client, origin(stall) as remote:
        with pytest.raises(WireError, match=r"error sending request for url .*timed out"):
            await fetch(client, f"{remote.url}/head", timeoutMs=50)
        with pytest.raises(WireError, match="response body: timed out"):
            await fetch(client, f"{remote.url}/body", timeoutMs=TIME_FOR_A_HEAD_MS)
        await fetch(client, f"{remote.url}/body", timeoutMs=TIME_FOR_A_HEAD_MS, streamResponse=True)
        assert await streamed(client) == (b"012", "failed to read http/request response body: timed out")


async def test_a_streamed_body_follows_its_answer_in_numbered_pieces() -> None:
    body = bytes(range(256)) * 8192

    async def answer(_asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(response(body))

    async with session() as client, origin(answer) as remote:
        request_id = client.request(
            "http/request", {"method": "GET", "url": remote.url, "requestId": "r", "streamResponse": True}
        )
        first = await client.next()
        assert (first["id"], first["result"]["bodyBase64"]) == (request_id, "")
        assert await streamed(client) == (body, None)


async def test_a_body_that_breaks_off_is_said_to_be_incomplete() -> None:
    async def answer(_asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(response(b"0123456789")[:-7])
        await writer.drain()
        writer.close()

    async with session() as client, origin(answer) as remote:
        with pytest.raises(WireError, match="failed to read http/request response body"):
            await fetch(client, remote.url)
        await fetch(client, remote.url, streamResponse=True)
        body, problem = await streamed(client)
    assert body == b"012"
    assert problem is not None
    assert "failed to read http/request response body" in problem


async def test_the_id_of_a_stream_is_taken_until_its_end() -> None:
    async with session() as client, origin(stall) as remote, origin(say_ok) as other:
        await fetch(client, f"{remote.url}/body", streamResponse=True)
        with pytest.raises(WireError, match="'r' is already active") as refusal:
            await fetch(client, other.url, streamResponse=True)
        assert refusal.value.code == -32602
        assert (await fetch(client, other.url))["status"] == 200

        await fetch(client, other.url, streamResponse=True, requestId="s")
        await streamed(client, "s")
        await fetch(client, other.url, streamResponse=True, requestId="s")
        await streamed(client, "s")


async def test_the_id_of_a_stream_that_never_began_is_free() -> None:
    async with session() as client, origin(say_ok) as remote:
        with pytest.raises(WireError, match="Connection refused"):
            await fetch(client, "http://127.0.0.1:1/", streamResponse=True)
        await fetch(client, remote.url, streamResponse=True)
        assert await streamed(client) == (b"ok", None)


async def test_a_body_too_large_for_a_message_must_be_streamed() -> None:
    async def answer(_asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(response(b"x" * 100_000))

    async with session(max_message_bytes=100_000) as client, origin(answer) as remote:
        with pytest.raises(WireError, match="exceeds 75000 bytes; ask for it with streamResponse"):
            await fetch(client, remote.url)
        await fetch(client, remote.url, streamResponse=True)
        assert (await streamed(client))[0] == b"x" * 100_000


@pytest.mark.parametrize("size", [SMALL_BODY_BYTES, SMALL_BODY_BYTES + 1, 2 * ENCODED_BYTES + 1])
@pytest.mark.parametrize("is_announced", [True, False])
async def test_a_large_body_comes_whole_and_takes_memory_that_was_granted(
    monkeypatch: pytest.MonkeyPatch, size: int, is_announced: bool
) -> None:
    body = bytes(range(256)) * (size // 256 + 1)
    body = body[:size]

    async def answer(_asked: Asked, writer: asyncio.StreamWriter) -> None:
        if is_announced:
            writer.write(response(body))
        else:
            # A length beside chunks does not count.
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n")
            writer.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))

    granted: list[int] = []
    room_for = ClientConnection.room_for

    async def recorded(connection: ClientConnection, size_bytes: int) -> Grant:
        granted.append(size_bytes)
        return await room_for(connection, size_bytes)

    monkeypatch.setattr(ClientConnection, "room_for", recorded)
    async with session() as client, origin(answer) as remote:
        result = await fetch(client, remote.url)

    assert base64.b64decode(result["bodyBase64"]) == body
    largest = Settings().max_message_bytes // 4 * 3
    assert granted == ([] if size <= SMALL_BODY_BYTES else [(size if is_announced else largest) * 4 // 3])


async def test_a_client_that_reads_no_answers_has_no_more_bodies_read_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # More than the kernel keeps of a connection that nobody reads.
    body = bytes(12 * 1024 * 1024)
    sent: list[str] = []

    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(response(body))
        await writer.drain()
        sent.append(asked.target)

    monkeypatch.setattr("paddock.server.answer_memory.ANSWER_BYTES", len(body))
    async with served(send_buffer_bytes=SEND_BUFFER) as server, origin(answer) as remote:
        slow = attach(server, TransportLimits(write_high_water_bytes=SEND_BUFFER))
        await slow.initialize()
        slow.link.pause_reading()
        params = {"method": "GET", "url": remote.url, "requestId": "r"}
        requests = [slow.request("http/request", params) for _ in range(4)]
        # All are asked, one body is read and waits for its client.
        while len(remote.requests) < 4 or slow.server_link.buffered_bytes < len(body):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0)

        assert len(sent) <= 1
        slow.link.resume_reading()
        for request in requests:
            assert len((await slow.answer(request))["bodyBase64"]) > len(body)


async def endless(_asked: Asked, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
    while True:
        writer.write(b"x" * 65536)
        await writer.drain()


async def test_a_client_that_does_not_read_slows_the_remote_server_down() -> None:
    async with served(send_buffer_bytes=SEND_BUFFER) as server, origin(endless) as remote:
        slow = attach(server, TransportLimits(write_high_water_bytes=SEND_BUFFER))
        other = attach(server)
        await slow.initialize()
        await other.initialize()
        await fetch(slow, remote.url, streamResponse=True)
        slow.link.pause_reading()
        # Three million bytes take far longer to reach another client than to fill one buffer.
        await other.start("size", *shell("head -c 3000000 /dev/zero"))
        await other.finish("size")

        assert slow.server_link.buffered_bytes < 4 * SEND_BUFFER
        slow.link.resume_reading()
        for _ in range(100):
            await delta(slow)


@pytest.mark.parametrize("is_streamed", [True, False])
async def test_a_lost_connection_ends_its_requests(is_streamed: bool) -> None:
    async with served() as server, origin(endless) as remote:
        client = attach(server)
        await client.initialize()
        params = {"method": "GET", "url": remote.url, "requestId": "r", "streamResponse": is_streamed}
        client.request("http/request", params)
        await remote.is_asked.wait()
        client.link.abort()
        await remote.is_left.wait()


def test_the_http_library_is_not_loaded_before_it_is_needed() -> None:
    script = "import sys, paddock.server.app; sys.exit('httpx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


async def test_a_secret_of_the_settings_goes_into_no_header(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("PADDOCK_TEST_TOKEN", "PADDOCK_TEST_OTHER"):
        monkeypatch.setenv(variable, "hunter2")
    secret = NetworkSecret(hosts=("https://api.test",), variable="PADDOCK_TEST_TOKEN")
    async with session(network_secrets={"api": secret}) as client, origin(say_ok) as remote:
        header = {"name": "X", "value": "", "valueEnvVar": "PADDOCK_TEST_TOKEN"}
        with pytest.raises(WireError, match="secret of the settings"):
            await fetch(client, remote.url, headers=[header])
        assert remote.requests == []
        await fetch(client, remote.url, headers=[header | {"valueEnvVar": "PADDOCK_TEST_OTHER"}])
        assert remote.requests[0].header("x") == ["hunter2"]


async def test_slow_names_of_one_client_hold_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, answer = threading.Semaphore(0), threading.Event()
    look_up = socket.getaddrinfo

    def look_up_slowly(host: Any, *rest: Any, **named: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name.startswith("slow"):
            begun.release()
            answer.wait()
        return look_up("127.0.0.1" if name.endswith(".test") else host, *rest, **named)

    monkeypatch.setattr(socket, "getaddrinfo", look_up_slowly)
    async with served() as server, origin(say_ok) as remote:
        one, another = attach(server), attach(server)
        port = remote.url.rpartition(":")[2]
        for client in (one, another):
            await client.initialize()
        slow = [
            one.request(
                "http/request",
                {"method": "GET", "url": f"http://slow-{number}.test:{port}", "requestId": str(number)},
            )
            for number in range(48)
        ]
        try:
            await asyncio.get_running_loop().run_in_executor(ThreadPoolExecutor(1), begun.acquire)
            async with asyncio.timeout(20):
                assert (await fetch(another, f"http://quick.test:{port}"))["status"] == 200
        finally:
            answer.set()
        for request in slow:
            assert (await one.answer(request))["status"] == 200


async def say_tiny_chunks(_asked: Asked, writer: asyncio.StreamWriter) -> None:
    chunks = b"1\r\na\r\n" * 5000
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n")


@pytest.mark.parametrize("streams", [True, False])
async def test_small_chunks_are_read_a_few_in_a_turn(streams: bool) -> None:
    async with session() as client, origin(say_tiny_chunks) as remote:
        # Loads the library, which can then be counted.
        await fetch(client, remote.url)
        with counted(h11.Connection, "next_event") as events:
            asked = await asyncio.gather(
                *(fetch(client, remote.url, requestId=str(n), streamResponse=streams) for n in range(3))
            )
            for number, answer in enumerate(asked):
                body = (
                    (await streamed(client, str(number)))[0]
                    if streams
                    else base64.b64decode(answer["bodyBase64"])
                )
                assert body == b"a" * 5000
        assert events.on_loop > 15000
        assert events.most <= 2 * LINES_PER_TURN


async def test_informational_answers_and_headers_without_end_are_refused() -> None:
    async def say_endlessly(asked: Asked, writer: asyncio.StreamWriter) -> None:
        line = b"HTTP/1.1 100 \r\n\r\n" if asked.target == "/informational" else b"a:\r\n"
        writer.write((b"" if asked.target == "/informational" else b"HTTP/1.1 200 OK\r\n") + line * 5000)

    async with session() as client, origin(say_endlessly) as remote:
        for target in ("informational", "headers"):
            with pytest.raises(WireError, match="more than 1024 lines of headers"):
                await fetch(client, f"{remote.url}/{target}")


@pytest.mark.parametrize("folded", [b" ", b"\r\n "])
async def test_trailers_without_end_are_refused_and_some_are_not(folded: bytes) -> None:
    async def say_behind(asked: Asked, writer: asyncio.StreamWriter) -> None:
        body = b"".join(b"5;a=b\r\n0\r\n\r\n\r\n" for _ in range(3000))
        lines = 5000 if asked.target == "/endless" else 20 if asked.target == "/some" else 0
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding:" + folded + b"chunked\r\n\r\n"
        writer.write(head + body + b"0\r\n" + b"a:\r\n" * lines + b"\r\n")

    async with session() as client, origin(say_behind) as remote:
        for target in ("some", "none", "some"):
            answer = await fetch(client, f"{remote.url}/{target}")
            assert base64.b64decode(answer["bodyBase64"]) == b"0\r\n\r\n" * 3000
        with pytest.raises(WireError, match="more than 1024 lines of headers"):
            await fetch(client, f"{remote.url}/endless")
        assert remote.connections == 1


async def test_an_answer_behind_some_informational_ones_is_whole() -> None:
    text = b"line\n\r\n" * 20000

    async def say_early(_asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 100 Continue\r\nA: b\r\n\r\n" * 20 + response(text))

    async with session() as client, origin(say_early) as remote:
        for _ in range(3):
            answer = await fetch(client, remote.url)
            assert base64.b64decode(answer["bodyBase64"]) == text
        assert remote.connections == 1
