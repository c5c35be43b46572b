"""Where to listen."""

from __future__ import annotations

import pytest

from paddock.errors import ListenError
from paddock.server.address import (
    ListenAddress,
    StdioAddress,
    UnixAddress,
    WebSocketAddress,
    parse_listen_address,
)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("ws://127.0.0.1:0", WebSocketAddress("127.0.0.1", 0)),
        ("ws://[::1]:4100", WebSocketAddress("::1", 4100)),
        ("ws://localhost:4100", WebSocketAddress("127.0.0.1", 4100)),
        ("ws://127.0.0.1:4100/", WebSocketAddress("127.0.0.1", 4100)),
        ("wss://127.0.0.1:4100", WebSocketAddress("127.0.0.1", 4100, is_secure=True)),
        ("ws://[::ffff:127.0.0.1]:0", WebSocketAddress("127.0.0.1", 0)),
        ("ws://[::ffff:0.0.0.0]:0", WebSocketAddress("0.0.0.0", 0)),
        ("unix:///run/p.sock", UnixAddress("/run/p.sock")),
        ("stdio", StdioAddress()),
        ("stdio://", StdioAddress()),
    ],
)
def test_an_address_is_read(text: str, address: ListenAddress) -> None:
    assert parse_listen_address(text) == address


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ws://build.example:1", "literal IP"),
        ("ws://127.0.0.1:x", "port"),
        ("ws://127.0.0.1", "give a port too"),
        ("ws://[::1]/", "give a port too"),
        ("ws://127.0.0.1:65536", "port"),
        ("ws://::1:5", "brackets"),
        ("http://127.0.0.1:1", "expected ws://"),
        ("unix://relative", "absolute"),
        ("", "expected ws://"),
    ],
)
def test_a_bad_address_is_refused_with_the_way_out(text: str, reason: str) -> None:
    with pytest.raises(ListenError, match=reason):
        parse_listen_address(text)


@pytest.mark.parametrize(
    ("text", "is_loopback"),
    [
        ("ws://127.0.0.1:0", True),
        ("ws://127.1.2.3:0", True),
        ("ws://[::1]:0", True),
        ("ws://[0:0::1]:0", True),
        ("ws://[::ffff:127.0.0.1]:0", True),
        ("ws://0.0.0.0:0", False),
        ("ws://[::]:0", False),
        ("ws://[::ffff:0.0.0.0]:0", False),
        ("ws://[::ffff:10.0.0.1]:0", False),
        ("ws://10.0.0.1:0", False),
        ("ws://169.254.1.1:0", False),
        ("ws://[fe80::1]:0", False),
    ],
)
def test_an_address_that_only_this_machine_can_reach_is_known(text: str, is_loopback: bool) -> None:
    address = parse_listen_address(text)
    assert isinstance(address, WebSocketAddress)
    assert address.is_loopback == is_loopback
