"""A hundred thousand broken frames against a live server: no crash, nothing leaked."""

from __future__ import annotations

import json
import random
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.processes import descendants_of, open_descriptors

FRAMES = 100_000
FRAMES_PER_CONNECTION = 250
GARBAGE_CONNECTIONS = 200
GROWTH_LIMIT_KIB = 64 * 1024
PATIENCE_S = 30

START = {"argv": ["/bin/true"], "cwd": "/", "env": {"A": "b"}, "tty": False, "pipeStdin": True}
SEEDS = [
    {"id": 1, "method": "initialize", "params": {"clientName": "x", "resumeSessionId": None}},
    {"method": "initialized", "params": {}},
    {"id": 2, "method": "process/start", "params": {"processId": "p", **START}},
    {"id": 3, "method": "process/start", "params": {"processId": "q", **START, "tty": True}},
    {"id": "s", "method": "process/read", "params": {"processId": "p", "afterSeq": 0, "maxBytes": 1}},
    {"id": 4, "method": "process/write", "params": {"processId": "p", "chunk": "eA==", "writeId": "1"}},
    {"id": 5, "method": "process/signal", "params": {"processId": "p", "signal": "SIGCONT"}},
    {
        "id": 6,
        "method": "process/terminate",
        "params": {"processId": "q", "mode": {"graceful": {"timeoutMs": 5}}},
    },
    {"id": 7, "method": "process/snapshot", "params": {"processId": "p"}},
    {"id": 8, "method": "process/resize", "params": {"processId": "q", "rows": 3, "cols": 4}},
    {"id": 9, "method": "process/list"},
    {"id": -1, "method": "environment/info"},
    {"id": 10, "method": "fs/readFile", "params": {"path": "file:///etc/passwd", "sandbox": None}},
]


class Fuzzer:
    """Frames from a fixed seed: random bytes, mutations of valid messages, and shuffled JSON."""

    def __init__(self) -> None:
        self.random = random.Random(20)

    def frame(self) -> bytes:
        match self.random.randrange(10):
            case 0:
                return self.random.randbytes(self.random.randrange(200))
            case 1:
                return json.dumps(self.value(4)).encode()
            case 2:
                return json.dumps(self.random.choice(SEEDS)).encode()
            case _:
                return self.mutated(json.dumps(self.random.choice(SEEDS)).encode())

    def mutated(self, message: bytes) -> bytes:
        data = bytearray(message)
        for _ in range(self.random.randrange(1, 6)):
            at = self.random.randrange(len(data) + 1)
            match self.random.randrange(4):
                case 0:
                    data[at:at] = self.random.randbytes(self.random.randrange(1, 5))
                case 1:
                    del data[at : at + self.random.randrange(1, 12)]
                case 2:
                    data[at:at] = data[: self.random.randrange(1, 40)]
                case _:
                    data[at : at + 1] = self.random.choice(
                        [b'"', b"{", b"}", b"[", b",", b"null", b"\\", b"9" * 30]
                    )
        return bytes(data)

    def value(self, depth: int) -> object:
        if depth == 0 or self.random.random() < 0.3:
            return self.random.choice([None, True, -1, 1.5, 2**70, "", "process/start", "\0", "\ud800"])
        if self.random.random() < 0.5:
            return [self.value(depth - 1) for _ in range(self.random.randrange(4))]
        keys = ["id", "method", "params", "result", "error", "processId", "argv", "chunk", "x"]
        return {self.random.choice(keys): self.value(depth - 1) for _ in range(self.random.randrange(5))}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[int, str]]:
    """A server whose sessions end with their connections."""
    config = tmp_path / "paddock.toml"
    # Clients made by hand answer no pings, and on a busy host the watcher is silent for long.
    config.write_text(
        "session_ttl_s = 0\nclosed_process_ttl_s = 0\nshutdown_grace_period_ms = 0\nping_interval_s = 0\n"
    )
    argv = [sys.executable, "-P", "-m", "paddock", "serve", "--config", str(config)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.pid, process.stdout.readline().strip()
            assert process.poll() is None, "the server has ended"
        finally:
            process.terminate()


@pytest.mark.unmeasured
@pytest.mark.timeout(300)
def test_a_hundred_thousand_broken_frames_leave_the_server_as_it_was(server: tuple[int, str]) -> None:
    pid, url = server
    fuzzer = Fuzzer()
    with RawClient(url) as watcher:
        watcher.upgrade()
        watcher.send(*GREETING)
        watcher.pass_fence()
        before = open_descriptors(pid)
        memory_kib = resident_kib(pid)

        sent = 0
        while sent < FRAMES:
            sent += bombard(url, fuzzer)
        for _ in range(GARBAGE_CONNECTIONS):
            throw_garbage(url, fuzzer)

        settle(watcher, pid, before)
        assert resident_kib(pid) - memory_kib < GROWTH_LIMIT_KIB


class RawClient:
    """A websocket made by hand, which can send what no library would."""

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        self.socket = socket.create_connection((address.hostname, address.port), PATIENCE_S)

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def upgrade(self) -> None:
        self.socket.sendall(UPGRADE)
        answer = b""
        while b"\r\n\r\n" not in answer:
            data = self.socket.recv(4096)
            if not data:
                raise ConnectionError("no answer to the upgrade")
            answer += data
        assert answer.startswith(b"HTTP/1.1 101")

    def send(self, *frames: bytes) -> None:
        self.socket.sendall(b"".join(masked(frame) for frame in frames))

    def pass_fence(self) -> None:
        """Be served like an ordinary client."""
        self.send(FENCE)
        assert self.is_answered(b'"fence","result":{"status":"ready"}')

    def is_answered(self, mark: bytes) -> bool:
        """Whether an answer that holds `mark` comes before the end of the connection."""
        received = b""
        while mark not in received:
            data = self.socket.recv(1 << 16)
            if not data:
                return False
            received = received[-len(mark) :] + data
        return True


UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
GREETING = (
    b'{"id":0,"method":"initialize","params":{"clientName":"fuzz"}}',
    b'{"method":"initialized"}',
)
FENCE = b'{"id":"fence","method":"environment/status"}'


def masked(payload: bytes) -> bytes:
    """A text frame with a mask of zeros, which changes nothing."""
    size = len(payload)
    length = bytes((0x80 | size,)) if size < 126 else b"\xfe" + size.to_bytes(2, "big")
    return b"\x81" + length + bytes(4) + payload


def bombard(url: str, fuzzer: Fuzzer) -> int:
    """Send broken frames over one connection. How many, if the server took them all."""
    with RawClient(url) as client, suppress(ConnectionError):
        client.upgrade()
        if fuzzer.random.random() < 0.8:
            client.send(*GREETING)
        client.send(*(fuzzer.frame() for _ in range(FRAMES_PER_CONNECTION)), FENCE)
        if client.is_answered(b'"fence"'):
            return FRAMES_PER_CONNECTION
    return 0


def throw_garbage(url: str, fuzzer: Fuzzer) -> None:
    """Bytes that are not even a websocket, or stop being one after the upgrade."""
    with RawClient(url) as client, suppress(ConnectionError):
        if fuzzer.random.random() < 0.6:
            client.upgrade()
        client.socket.sendall(fuzzer.random.randbytes(fuzzer.random.randrange(1, 2000)))


def settle(watcher: RawClient, pid: int, descriptors: int) -> None:
    """Wait until there are no more descriptors than before, and no process but the spawner.

    There may be fewer: a server that has just started looks at its host, with a few descriptors and a child.
    Between two looks a client that was there all the time is served, so the server has had its turns.
    The time limit of the test is the limit.
    """
    while open_descriptors(pid) > descriptors or len(descendants_of(pid)) > 1:
        watcher.pass_fence()


def resident_kib(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError("no VmRSS")
