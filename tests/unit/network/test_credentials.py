"""Secrets that the proxy adds: who gets one, over real sockets and TLS, and that nobody else does."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from paddock.errors import SecretUnusable
from paddock.model.endpoint import Endpoint, NetworkProtocol
from paddock.model.network_secret import NetworkSecret, Scheme, SecretHost
from paddock.network.authority import Authority
from paddock.network.credential import Credentials, make_credential
from paddock.network.gateway import Secrets
from paddock.network.route import TRUST_VARIABLES, trusting_environment
from tests.certificate import TestAuthority
from tests.unit.network.scene import Origin, Scene, proxy_scene, read_head

GOOD, OTHER = "192.0.2.1", "192.0.2.2"
TOKEN = b"s3cr3t-t0k3n"
DECLARED = NetworkSecret(
    hosts=("http://good.test", "https://good.test", "https://bad.test"), variable="T", template="Bearer {}"
)


def sent(origin: Origin) -> list[bytes]:
    """Give the value of each header that has to do with authorization, of all requests."""
    return [
        line.partition(b":")[2].strip()
        for head in origin.heads
        for line in head.split(b"\r\n")
        if line.lower().startswith(b"authorization")
    ]


def plain(target: str, *more: str, host: str = "good.test", method: str = "GET") -> bytes:
    return "\r\n".join((f"{method} {target} HTTP/1.1", f"Host: {host}", *more, "", "")).encode()


@pytest.fixture
def authority(tmp_path: Path) -> TestAuthority:
    return TestAuthority(tmp_path)


@pytest.fixture
def own(authority: TestAuthority) -> Authority:
    return Authority(map(SecretHost.parse, DECLARED.hosts), authority.certificate)


class Servers:
    """Two hosts, each on both ports, that remember what they were asked."""

    def __init__(self, scene: Scene, own: Authority) -> None:
        self.scene = scene
        self.good, self.good_tls, self.other, self.other_tls = Origin(), Origin(), Origin(), Origin()
        self._context = ssl.create_default_context(cadata=own.bundle.decode())

    @asynccontextmanager
    async def tls(
        self, host: str, name: str | None = None
    ) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """Speak TLS to a host through the proxy, as a command does that trusts the bundle."""
        reader, writer = await self.scene.open()
        writer.write(f"CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\n\r\n".encode())
        await read_head(reader)
        try:
            await writer.start_tls(self._context, server_hostname=name or host)
            yield reader, writer
        finally:
            writer.transport.abort()


@pytest.fixture
async def servers(authority: TestAuthority, own: Authority) -> AsyncIterator[Servers]:
    secrets = Secrets(Credentials([make_credential("t", DECLARED, TOKEN)]), own)
    hosts = ["good.test", "other.test", "bad.test", GOOD]
    async with proxy_scene(hosts, secrets=secrets, good_test=GOOD, other_test=OTHER, bad_test=OTHER) as scene:
        made = Servers(scene, own)
        await scene.add_server(GOOD, 80, made.good.serve)
        await scene.add_server(GOOD, 443, made.good_tls.serve, authority.server_context("good.test"))
        await scene.add_server(OTHER, 80, made.other.serve)
        # Under the name bad.test the same server shows a certificate that is not for it.
        await scene.add_server(OTHER, 443, made.other_tls.serve, authority.server_context("other.test"))
        yield made


async def test_secret_goes_to_its_host_and_to_no_other(servers: Servers) -> None:
    said = plain("http://good.test/", "Connection: close"), plain("http://other.test/", host="other.test")
    assert b" 200 " in await servers.scene.say(said[0])
    reader, writer = await servers.scene.open()
    writer.write(said[1])
    await read_head(reader)
    writer.close()
    assert sent(servers.good) == [b"Bearer " + TOKEN]
    assert sent(servers.other) == []


@pytest.mark.parametrize("name", ["Authorization", "AUTHORIZATION", "authorization"])
async def test_header_of_the_command_is_replaced(servers: Servers, name: str) -> None:
    # A header that is for the next receiver alone would be left out; ours is not.
    mine = (f"{name}: Bearer mine", "Connection: close, authorization")
    await servers.scene.say(plain("http://good.test/", *mine))
    assert sent(servers.good) == [b"Bearer " + TOKEN]


@pytest.mark.parametrize(("header", "template"), [("X_Api_Key", "{}"), ("X-Api-Key", " Key {} ")])
async def test_header_is_the_only_one_and_can_be_sent_however_it_is_declared(
    header: str, template: str
) -> None:
    declared = NetworkSecret(hosts=("http://good.test",), variable="T", header=header, template=template)
    secrets = Secrets(Credentials([make_credential("t", declared, TOKEN)]))
    origin = Origin()
    async with proxy_scene(["good.test"], secrets=secrets, good_test=GOOD) as scene:
        await scene.add_server(GOOD, 80, origin.serve)
        mine = ("X-Api-Key: mine", "x_api_key: mine", "X_API-KEY: mine")
        assert b" 200 " in await scene.say(plain("http://good.test/", *mine, "Connection: close"))
    assert b"mine" not in origin.heads[0]
    assert origin.heads[0].count(TOKEN) == 1


async def test_requests_of_one_client_to_several_hosts_get_what_is_theirs(servers: Servers) -> None:
    reader, writer = await servers.scene.open()
    for host in ("good.test", "other.test", "good.test"):
        writer.write(plain(f"http://{host}/", host=host))
        await read_head(reader)
        await reader.readexactly(3)
    writer.close()
    assert sent(servers.good) == [b"Bearer " + TOKEN] * 2
    assert sent(servers.other) == []


@pytest.mark.parametrize(
    "request_",
    [
        plain("http://other.test/", host="good.test"),
        plain("http://good.test/", host="other.test"),
        plain("http://good.test:8080/", host="good.test"),
        plain(f"http://{GOOD}/", host=GOOD),
        plain("http://good.test/", method="TRACE"),
    ],
)
async def test_nothing_that_is_said_leads_a_secret_elsewhere(servers: Servers, request_: bytes) -> None:
    reader, writer = await servers.scene.open()
    writer.write(request_)
    await read_head(reader)
    writer.close()
    assert sent(servers.good) == sent(servers.other) == []


async def test_secret_is_added_inside_of_tls_that_both_ends_verify(servers: Servers) -> None:
    async with servers.tls("good.test") as (reader, writer):
        for path in ("/1", "/2"):
            writer.write(plain(path, "Authorization: Bearer mine"))
            assert b" 200 " in await read_head(reader)
            await reader.readexactly(3)
    assert [head.split()[1] for head in servers.good_tls.heads] == [b"/1", b"/2"]
    assert b"\r\nHost: good.test\r\n" in servers.good_tls.heads[0]
    assert sent(servers.good_tls) == [b"Bearer " + TOKEN] * 2
    assert sent(servers.good) == []


async def test_other_tls_is_not_opened_and_verifies_as_ever(servers: Servers) -> None:
    async with servers.tls("other.test") as (reader, writer):
        certificate = writer.get_extra_info("peercert")
        assert (("commonName", "an authority of tests"),) in certificate["issuer"]
        writer.write(plain("/", host="other.test"))
        assert b" 200 " in await read_head(reader)
    assert sent(servers.other_tls) == []


async def test_host_that_can_not_show_who_it_is_gets_nothing(servers: Servers) -> None:
    async with servers.tls("bad.test") as (reader, writer):
        writer.write(plain("/", host="bad.test"))
        answer = await reader.read()
    assert b" 502 " in answer
    assert b"its certificate is not valid" in answer
    assert servers.other_tls.heads == []


async def test_tls_for_another_name_is_not_opened(servers: Servers) -> None:
    # Both hosts are allowed, and a command may ask one for the other; but never where a secret is added.
    with pytest.raises(ConnectionError):
        async with servers.tls("good.test", "other.test"):
            pass
    assert "other.test" in str(servers.scene.judge.denials[0].rule)
    assert servers.good_tls.heads == []


@pytest.mark.parametrize(
    "request_",
    [
        plain("/", host="other.test"),
        plain("http://other.test/", host="other.test"),
        plain("other.test:443", host="other.test:443", method="CONNECT"),
    ],
)
async def test_request_inside_of_tls_has_to_be_for_its_host(servers: Servers, request_: bytes) -> None:
    async with servers.tls("good.test") as (reader, writer):
        writer.write(request_)
        assert b" 200 " not in await read_head(reader)
    assert servers.good_tls.heads == []


async def test_large_bodies_pass_inside_of_tls(servers: Servers, authority: TestAuthority) -> None:
    size = 5 << 20

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        body = await reader.readexactly(size)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + body[::-1])
        await writer.drain()
        writer.close()

    await servers.scene.add_server(GOOD, 443, serve, authority.server_context("good.test"))
    body = bytes(range(256)) * (size // 256)
    async with servers.tls("good.test") as (reader, writer):
        writer.write(plain("/", f"Content-Length: {size}", method="POST") + body)
        await read_head(reader)
        assert await reader.readexactly(size) == body[::-1]


async def test_connection_that_changes_its_protocol_goes_on_inside_of_tls(
    servers: Servers, authority: TestAuthority
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert b"Bearer " + TOKEN in await read_head(reader)
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n")
        while data := await reader.read(1024):
            writer.write(data.upper())
        writer.close()

    await servers.scene.add_server(GOOD, 443, serve, authority.server_context("good.test"))
    async with servers.tls("good.test") as (reader, writer):
        writer.write(plain("/", "Connection: upgrade", "Upgrade: echo"))
        assert b" 101 " in await read_head(reader)
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"HELLO"


def test_authority_can_sign_for_the_hosts_of_secrets_alone(own: Authority) -> None:
    # As if somebody had its key, which nobody has.
    trusting = ssl.create_default_context(cadata=own.bundle.decode())
    shake_hands(own.context("good.test"), trusting, "good.test")
    with pytest.raises(ssl.SSLCertVerificationError, match="permitted subtree"):
        shake_hands(own.context("other.test"), trusting, "other.test")


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> None:
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    waiting = [
        client.wrap_bio(back, there, server_hostname=name),
        server.wrap_bio(there, back, server_side=True),
    ]
    while waiting:
        end = waiting.pop(0)
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            waiting.append(end)


# --- what becomes of a value ------------------------------------------------


def endpoint(host: str, port: int) -> Endpoint:
    return Endpoint(host, port, NetworkProtocol.HTTP)


@pytest.mark.parametrize(
    ("declared", "header", "value"),
    [
        ({}, b"authorization", TOKEN),
        ({"template": "Bearer {}"}, b"authorization", b"Bearer " + TOKEN),
        ({"header": "X-Api-Key"}, b"x-api-key", TOKEN),
        ({"basic_user": "me"}, b"authorization", b"Basic bWU6czNjcjN0LXQwazNu"),
    ],
)
def test_secret_becomes_the_header_that_its_declaration_says(
    declared: dict[str, str], header: bytes, value: bytes
) -> None:
    secret = NetworkSecret(hosts=("http://a.test",), variable="T", **declared)
    made = make_credential("t", secret, b" " + TOKEN + b"\n")
    assert Credentials([made]).headers_for(Scheme.HTTP, endpoint("a.test", 80), b"GET") == {header: value}
    assert TOKEN.decode() not in repr(made)


@pytest.mark.parametrize(
    ("pattern", "scheme", "host", "port", "is_meant"),
    [
        ("http://a.test", Scheme.HTTP, "a.test", 80, True),
        ("http://a.test", Scheme.HTTP, "a.test", 443, False),
        ("http://a.test", Scheme.HTTPS, "a.test", 80, False),
        ("https://a.test", Scheme.HTTPS, "a.test", 443, True),
        ("https://a.test", Scheme.HTTP, "a.test", 443, False),
        ("https://a.test", Scheme.HTTPS, "b.a.test", 443, False),
        ("https://a.test:8443", Scheme.HTTPS, "a.test", 8443, True),
        ("https://a.test:8443", Scheme.HTTPS, "a.test", 443, False),
        ("https://*.a.test", Scheme.HTTPS, "b.a.test", 443, True),
        ("https://*.a.test", Scheme.HTTPS, "a.test", 443, False),
        ("https://*.a.test", Scheme.HTTPS, "a.test.evil.test", 443, False),
        ("https://**.a.test", Scheme.HTTPS, "a.test", 443, True),
    ],
)
def test_secret_is_for_the_hosts_that_its_declaration_names(
    pattern: str, scheme: Scheme, host: str, port: int, is_meant: bool
) -> None:
    assert SecretHost.parse(pattern).has(scheme, host, port) is is_meant


@pytest.mark.parametrize("content", [b"", b" \n", b"two\nlines", b"\xff", b"a\0b", b"x" * 20_000])
def test_value_that_can_not_be_sent_is_an_error_without_it(content: bytes) -> None:
    with pytest.raises(SecretUnusable) as caught:
        make_credential("t", DECLARED, content)
    assert repr(content.strip())[2:-1] not in str(caught.value) or not content.strip()


@pytest.mark.parametrize(
    "declared",
    [
        {"hosts": ["a.test"], "variable": "T"},
        {"hosts": ["ftp://a.test"], "variable": "T"},
        {"hosts": ["https://*"], "variable": "T"},
        {"hosts": ["https://a.test:*"], "variable": "T"},
        {"hosts": ["https://a.test"]},
        {"hosts": ["https://a.test"], "variable": "T", "file": "/t"},
        {"hosts": ["https://a.test"], "file": "t"},
        {"hosts": ["https://a.test"], "variable": "T", "header": "a b"},
        {"hosts": ["https://a.test"], "variable": "T", "header": "Host"},
        {"hosts": ["https://a.test"], "variable": "T", "template": "no mark"},
        {"hosts": ["https://a.test"], "variable": "T", "template": "a\r\nb {}"},
        {"hosts": ["https://a.test"], "variable": "T", "header": "A", "basic_user": "u"},
        {"hosts": ["https://a.test"], "variable": "T", "basic_user": "u:v"},
    ],
)
def test_declaration_that_means_nothing_is_refused(declared: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="secret"):
        NetworkSecret(**declared)  # type: ignore[arg-type]


def test_every_program_is_told_whom_to_trust_whatever_it_was_told_before() -> None:
    told = trusting_environment({"SSL_CERT_FILE": "/mine", "HOME": "/home/me"}, "/bundle")
    assert told == {"HOME": "/home/me", **dict.fromkeys(TRUST_VARIABLES, "/bundle")}
