"""Both ends of the escalation protocol, written from its description and from nothing of Paddock's.

A `Decider` answers wrappers as a function says; `ask` is a wrapper that asks a decider.
"""

from __future__ import annotations

import array
import json
import os
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Action = str | dict[str, Any]


class Decider:
    """Answers wrappers. The shell is to have `file`, under the same number."""

    def __init__(
        self,
        decide: Callable[[dict[str, Any]], Action],
        kind: socket.SocketKind = socket.SOCK_DGRAM,
    ) -> None:
        self._ours, self._theirs = socket.socketpair(socket.AF_UNIX, kind)
        self._decide = decide
        self.requests: list[dict[str, Any]] = []
        self.errors: list[Exception] = []
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def file(self) -> int:
        return self._theirs.fileno()

    def run(
        self, shell: Path, wrapper: Path, script: str, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a script in a patched shell, to its end."""
        variables = {
            "PATH": os.defpath,
            **(env or {}),
            "CODEX_ESCALATE_SOCKET": str(self.file),
            "BASH_EXEC_WRAPPER": str(wrapper),
        }
        return subprocess.run(
            [shell, "-c", script],
            env=variables,
            pass_fds=[self.file],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
        )

    def close(self) -> None:
        # Wakes whoever waits there.
        self._ours.shutdown(socket.SHUT_RDWR)
        self._theirs.close()

    def _serve(self) -> None:
        while True:
            data, files = receive(self._ours, 8192)
            if not files:
                self._ours.close()
                return
            assert (data, len(files)) == (b"\0", 1)
            stream = socket.socket(fileno=files[0])
            # The original has made it non-blocking.
            stream.setblocking(True)
            threading.Thread(target=self._answer, args=(stream,), daemon=True).start()

    def _answer(self, stream: socket.socket) -> None:
        try:
            with stream:
                request = read_frame(stream)[0]
                self.requests.append(request)
                action = self._decide(request)
                stream.sendall(frame({"action": action}))
                if action == "Escalate":
                    self._escalate(stream, request)
        except Exception as error:
            self.errors.append(error)

    def _escalate(self, stream: socket.socket, request: dict[str, Any]) -> None:
        message, files = read_frame(stream)
        assert message == {"fds": [0, 1, 2]}
        stdin, stdout, stderr = files
        done = subprocess.run(
            request["argv"],
            executable=os.path.join(request["workdir"], request["file"]),
            cwd=request["workdir"],
            env=request["env"],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            check=False,
        )
        for file in files:
            os.close(file)
        stream.sendall(frame({"exit_code": done.returncode}))


def ask(decider: int, request: dict[str, Any], files: Sequence[int] = (0, 1, 2)) -> tuple[Action, int | None]:
    """Ask about a program as a wrapper does. Give the answer and, of a program that was let out, its code."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with ours:
        with theirs, socket.socket(fileno=os.dup(decider)) as channel:
            send(channel, b"\0", [theirs.fileno()])
        ours.sendall(frame(request))
        action: Action = read_frame(ours)[0]["action"]
        if action != "Escalate":
            return action, None
        send(ours, frame({"fds": [0, 1, 2]}), files)
        return action, read_frame(ours)[0]["exit_code"]


def frame(message: dict[str, Any]) -> bytes:
    data = json.dumps(message).encode()
    return struct.pack("<I", len(data)) + data


def read_frame(stream: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """One message, and the descriptors that came with its first byte."""
    head, files = receive(stream, 4)
    while len(head) < 4:
        head += _some(stream, 4 - len(head))
    (length,) = struct.unpack("<I", head)
    data = b""
    while len(data) < length:
        data += _some(stream, length - len(data))
    message: dict[str, Any] = json.loads(data)
    return message, files


def _some(stream: socket.socket, size: int) -> bytes:
    data = stream.recv(size)
    if not data:
        raise ConnectionResetError
    return data


def receive(file: socket.socket, size: int) -> tuple[bytes, list[int]]:
    data, parts, _, _ = file.recvmsg(size, socket.CMSG_SPACE(16 * 4))
    files = array.array("i")
    for _, _, received in parts:
        files.frombytes(received)
    return data, list(files)


def send(file: socket.socket, data: bytes, files: Sequence[int]) -> None:
    file.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))])
