"""The name in the first message of TLS."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.network.client_hello import HELLO_LIMIT_BYTES, Unnamed, server_name
from tests.unit.network.scene import client_hello

HELLO = client_hello("good.test")


def test_name_is_found_when_the_message_is_whole() -> None:
    assert server_name(HELLO) == "good.test"
    assert all(server_name(HELLO[:size]) is Unnamed.INCOMPLETE for size in range(1, len(HELLO)))
    assert server_name(client_hello(None)) is Unnamed.NO_NAME


def test_message_in_several_records_is_one() -> None:
    body = HELLO[5:]
    pieces = (body[start : start + 50] for start in range(0, len(body), 50))
    records = b"".join(HELLO[:3] + len(piece).to_bytes(2) + piece for piece in pieces)
    assert server_name(records) == "good.test"


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1", b"\x16\x02", b"SSH-2.0", b"\x00"])
def test_other_protocols_are_no_tls(data: bytes) -> None:
    assert server_name(data) is Unnamed.NOT_TLS


def test_message_that_never_ends_is_damaged() -> None:
    endless = b"\x16\x03\x01\x00\x04\x01\xff\xff\xff" + b"\x16\x03\x01\x00\x00" * (HELLO_LIMIT_BYTES // 5)
    assert server_name(endless) is Unnamed.DAMAGED


@given(st.integers(5, len(HELLO) - 1), st.integers(0, 255))
def test_damaged_message_never_fails(at: int, value: int) -> None:
    server_name(HELLO[:at] + bytes((value,)) + HELLO[at + 1 :])
