"""The socket by which wrappers ask: what a confined command sends there costs the server nothing for good."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from paddock.intercept import wire
from paddock.intercept.wire import ExecRequest, WireError
from paddock.sandbox.denial.exec_answer import ExecPolicy, Run
from paddock.server.wrapper_server import VALUES_LIMIT, WrapperServer
from tests.interop.escalation_reference import frame, send


@pytest.fixture(name="door")
def door_of_a_server() -> Iterator[socket.socket]:
    served = WrapperServer(ExecPolicy(lambda call, settle: Run()), None)
    served.begin()
    with socket.socket(fileno=served.file) as door:
        yield door
    served.finish()


def ask(door: socket.socket, said: bytes) -> bytes:
    """Say something on a new stream, and wait for its end: all that came before it was served by then."""
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            send(door, b"\0", [theirs.fileno()])
        ours.sendall(said)
        return ours.recv(100)


def test_what_is_no_stream_leaves_no_descriptor_open(door: socket.socket) -> None:
    ask(door, frame({}))
    before = len(os.listdir("/proc/self/fd"))
    file, (datagrams, other) = os.open("/dev/null", os.O_RDONLY), socket.socketpair(type=socket.SOCK_DGRAM)
    for _ in range(20):
        send(door, b"\0", [file])
        send(door, b"\0", [datagrams.fileno()])
        send(door, b"\0", [file, file])
        send(door, b"x", [file])
    os.close(file)
    datagrams.close()
    other.close()
    assert ask(door, frame({})) == b""
    assert len(os.listdir("/proc/self/fd")) == before


def test_no_objects_are_made_of_a_message_with_too_many_values(
    door: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[bytes] = []

    def read_request(message: bytes) -> ExecRequest:
        read.append(message)
        raise WireError("it is only counted here")

    monkeypatch.setattr(wire, "read_request", read_request)
    few, many = (b"[" + b"[]," * count + b"[]]" for count in (VALUES_LIMIT // 2, VALUES_LIMIT))
    for message in (many, few):
        assert ask(door, len(message).to_bytes(4, "little") + message) == b""
    assert [len(message) for message in read] == [len(few)]
