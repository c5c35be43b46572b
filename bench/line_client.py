"""A small MCP client: a server as a child, a line of JSON for each message.

It does nothing but write a request and wait for its answer, so that its own time hides no server's.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.errors import BenchError

PROTOCOL = "2025-06-18"
STOP_TIMEOUT_S = 10.0


class LineClient:
    """A running server, past its handshake. `close` ends it."""

    def __init__(
        self, name: str, command: Sequence[str | Path], env: Mapping[str, str] | None = None
    ) -> None:
        self._name = name
        self._ids = 0
        begun = time.perf_counter()
        self._process = subprocess.Popen(
            command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        about = {"name": "bench", "version": "0"}
        self.request("initialize", protocolVersion=PROTOCOL, capabilities={}, clientInfo=about)
        self.ready_after_s = time.perf_counter() - begun
        """From the start of the program to the answer of the handshake."""
        self._send("notifications/initialized")

    def request(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the result of a request. Raises BenchError."""
        self._ids += 1
        self._send(method, id=self._ids, params=params)
        assert self._process.stdout is not None
        while line := self._process.stdout.readline():
            message = json.loads(line)
            if message.get("id") != self._ids:
                continue
            if "result" not in message:
                raise BenchError(f"{self._name}: {message.get('error')}")
            result: dict[str, Any] = message["result"]
            return result
        raise BenchError(f"{self._name} has ended")

    def close(self) -> None:
        """End the server."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def _send(self, method: str, **more: Any) -> None:
        assert self._process.stdin is not None
        message = {"jsonrpc": "2.0", "method": method, **more}
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()
