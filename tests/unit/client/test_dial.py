"""What an address and its options come to, before anything is dialled."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

import paddock
from paddock.client.dial import DialOptions, dialer
from paddock.errors import ConnectError

SECRET = "s3cret-token"


def test_a_token_shows_in_no_representation() -> None:
    options = DialOptions(token=SECRET, headers={"X-Key": SECRET})
    assert SECRET not in repr(options)
    assert SECRET not in repr(paddock.connect("ws://127.0.0.1:1", token=SECRET).__dict__)


@pytest.mark.parametrize("token", ["", "two words", "line\nbreak", "ümlaut"])
async def test_a_token_that_no_header_can_carry_is_refused_without_showing_it(token: str) -> None:
    with pytest.raises(ValueError, match="printable ASCII") as refusal:
        await paddock.connect("ws://127.0.0.1:1", token=token)
    assert not token or token not in str(refusal.value)


@pytest.mark.parametrize(
    ("url", "options", "problem"),
    [
        ("unix:///x.sock", DialOptions(token=SECRET), "a unix socket needs neither"),
        ("unix:///x.sock", DialOptions(tls_verify=False), "a unix socket needs none"),
        ("ws://h:1", DialOptions(tls_ca="ca.pem"), "did you mean wss://"),
        ("ws://h:1", DialOptions(ssl_context=ssl.create_default_context()), "did you mean wss://"),
        ("ws://h:1", DialOptions(token=SECRET, headers={"authorization": "x"}), "not both"),
    ],
)
def test_options_that_do_not_go_together_are_refused(url: str, options: DialOptions, problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as refusal:
        dialer(url, options)
    assert SECRET not in str(refusal.value)


def test_a_session_is_resumed_where_it_is_and_not_on_a_private_server() -> None:
    with pytest.raises(ValueError, match="needs the url"):
        paddock.connect(resume="s")


def test_certificates_that_can_not_be_used_are_named(tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.touch()
    for path, reason in (
        (tmp_path / "missing.pem", r"missing\.pem: No such file"),
        (empty, r"empty\.pem holds no certificates in PEM form"),
    ):
        with pytest.raises(ConnectError, match=reason):
            dialer("wss://h:1", DialOptions(tls_ca=path))


async def headers_of(requests: int, **options: object) -> list[str]:
    """What a server of bare bytes gets to see in so many connections, which it all turns away."""
    seen: list[str] = []

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        for _ in range(requests):
            with pytest.raises(ConnectError, match="HTTP 401") as refusal:
                await paddock.connect(f"ws://{host}:{port}", **options)  # type: ignore[arg-type]
            assert SECRET not in str(refusal.value)
    return seen


async def test_the_token_and_the_headers_go_with_the_upgrade() -> None:
    (head,) = await headers_of(1, token=SECRET, headers={"X-Tenant": "t1"})
    assert f"Authorization: Bearer {SECRET}\r\n" in head
    assert "X-Tenant: t1\r\n" in head


async def test_a_function_gives_a_fresh_token_for_each_connection() -> None:
    tokens = iter(("first", "second"))
    heads = await headers_of(2, token=lambda: next(tokens))
    assert ["Bearer first" in heads[0], "Bearer second" in heads[1]] == [True, True]
