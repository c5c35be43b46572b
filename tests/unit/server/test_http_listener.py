"""The listener for another protocol over HTTP: where it listens, whom it accepts, its certificate."""

from __future__ import annotations

import asyncio
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest

from paddock.config import Settings, make_settings
from paddock.errors import ListenError, PaddockError
from paddock.server.http_listener import HttpListener, websocket_url
from tests import tls


def settings(listen: str, **others: Any) -> Settings:
    return make_settings({"listen": websocket_url(listen), **others})


def encrypted(directory: Path, certificate: Path, key: Path) -> Settings:
    """Settings with this certificate; its key is a file that only its owner can read."""
    private = directory / "key.pem"
    private.write_bytes(key.read_bytes())
    private.chmod(0o600)
    return settings("https://127.0.0.1:0", tls_cert=str(certificate), tls_key=str(private))


async def shown_certificate(context: ssl.SSLContext) -> bytes | None:
    """Return the certificate that a new client of a server with this context sees."""
    ready: asyncio.Event = asyncio.Event()
    server = await asyncio.start_server(lambda _reader, _writer: ready.set(), "127.0.0.1", 0, ssl=context)
    client = ssl.create_default_context()
    client.check_hostname = False
    client.verify_mode = ssl.CERT_NONE
    async with server:
        port = server.sockets[0].getsockname()[1]
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client)
        await ready.wait()
        shown: bytes | None = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.transport.abort()
    return shown


def der(certificate: Path) -> bytes:
    # The first one in the file is the server's own; others lead to its authority.
    first, end, _ = certificate.read_text().partition(ssl.PEM_FOOTER)
    return ssl.PEM_cert_to_DER_cert(first[first.index(ssl.PEM_HEADER) :] + end)


@pytest.mark.parametrize(
    ("listen", "meant"), [("http://127.0.0.1:1", "ws://127.0.0.1:1"), ("https://[::1]:2/", "wss://[::1]:2")]
)
def test_an_address_is_checked_as_that_of_a_websocket(listen: str, meant: str) -> None:
    assert websocket_url(listen) == meant


def test_another_scheme_is_refused_with_those_that_work() -> None:
    with pytest.raises(PaddockError, match="can't listen on ftp://x; expected http://IP:PORT"):
        websocket_url("ftp://x")


def test_the_url_names_the_port_that_the_kernel_chose() -> None:
    bound, url = HttpListener(settings("http://127.0.0.1:0")).listen()
    with bound:
        assert url == f"http://127.0.0.1:{bound.getsockname()[1]}"


def test_the_url_of_an_address_of_the_sixth_version_has_brackets() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this host has no loopback of IPv6")
    bound, url = HttpListener(settings("http://[::1]:0")).listen()
    with bound:
        assert url == f"http://[::1]:{bound.getsockname()[1]}"


def test_an_address_that_is_taken_is_refused_by_its_url() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ListenError, match=f"{url}.*address already in use"):
            HttpListener(settings(url)).listen()


def test_pages_of_the_server_itself_are_accepted_once_it_says_so() -> None:
    listener = HttpListener(settings("http://127.0.0.1:0"))
    assert listener.request_filter.allowed_origins == frozenset()
    listener.accept_own_pages(4100)
    assert "http://localhost:4100" in listener.request_filter.allowed_origins


def test_a_listener_without_a_certificate_encrypts_nothing() -> None:
    assert HttpListener(settings("http://127.0.0.1:0")).tls_context() is None


async def test_a_new_client_sees_the_newest_certificate(tmp_path: Path) -> None:
    listener = HttpListener(encrypted(tmp_path, tls.CERT, tls.KEY))
    bound, url = listener.listen()
    bound.close()
    assert url.startswith("https://127.0.0.1:")
    context = listener.tls_context()
    assert context is not None
    assert await shown_certificate(context) == der(tls.CERT)

    listener.renew(encrypted(tmp_path, tls.OTHER_CERT, tls.OTHER_KEY))

    assert await shown_certificate(context) == der(tls.OTHER_CERT)
