"""A client of the escalation protocol that does not keep to it, and then does. Runs in a sandbox.

Prints what came of each attempt, a line for each.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from typing import Any

from tests.interop.escalation_reference import ask, frame, send

ESCALATION = int(os.environ["CODEX_ESCALATE_SOCKET"])
UNAME: dict[str, Any] = {"file": "/usr/bin/uname", "argv": ["uname"], "workdir": os.getcwd(), "env": {}}
ID = {**UNAME, "file": "/usr/bin/id", "argv": ["id", "-u"]}


def knock(data: bytes, files: Sequence[int]) -> None:
    """Send something to the server."""
    with socket.socket(fileno=os.dup(ESCALATION)) as channel:
        if files:
            send(channel, data, files)
        else:
            channel.send(data)


def talk(said: bytes, files: Sequence[int] = ()) -> bytes:
    """Say something on a new stream. Give what is answered."""
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            knock(b"\0", [theirs.fileno()])
        if files:
            send(ours, said, files)
        else:
            ours.sendall(said)
        return ours.recv(100)


def main() -> None:
    """Try everything."""
    for data, files in (
        (b"", []),
        (b"\0", []),
        (b"x", [0]),
        (b"\0", [0]),
        (b"\0", [0, 1]),
        (b"\0", [0] * 40),
        (b"\0" * 5000, [0]),
    ):
        knock(data, files)
    for said in (frame({"file": 1}), b"\xff" * 4, frame({**UNAME, "workdir": "x"})):
        print(talk(said))
    print(talk(frame(UNAME), [0]))
    try:
        ask(ESCALATION, ID, [0, 1])
    except ConnectionResetError:
        print("reset")
    print(ask(ESCALATION, UNAME)[0])
    print(ask(ESCALATION, {**UNAME, "file": "/usr/bin/ls"}))
    print(ask(ESCALATION, {**ID, "argv": ["uname"]}))
    print(ask(ESCALATION, {**ID, "workdir": "/"})[0])
    print(ask(ESCALATION, {**ID, "env": {"A": "1"}}, [os.open("/dev/null", os.O_RDWR)] * 3))


if __name__ == "__main__":
    main()
