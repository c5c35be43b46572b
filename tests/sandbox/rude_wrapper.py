"""A client of the escalation protocol that does not keep to it, and then does. Runs in a sandbox.

Prints what came of each attempt, a line for each.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from typing import Any

from tests.interop.escalation_reference import ask, frame, send

DOOR = int(os.environ["CODEX_ESCALATE_SOCKET"])
UNAME: dict[str, Any] = {"file": "/usr/bin/uname", "argv": ["uname"], "workdir": os.getcwd(), "env": {}}
ID = {**UNAME, "file": "/usr/bin/id", "argv": ["id", "-u"]}


def knock(data: bytes, files: Sequence[int]) -> None:
    """Send something to the door."""
    with socket.socket(fileno=os.dup(DOOR)) as door:
        if files:
            send(door, data, files)
        else:
            door.send(data)


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
        ask(DOOR, ID, [0, 1])
    except ConnectionResetError:
        print("reset")
    print(ask(DOOR, UNAME)[0])
    print(ask(DOOR, {**UNAME, "file": "/usr/bin/ls"}))
    print(ask(DOOR, {**ID, "argv": ["uname"]}))
    print(ask(DOOR, {**ID, "workdir": "/"})[0])
    print(ask(DOOR, {**ID, "env": {"A": "1"}}, [os.open("/dev/null", os.O_RDWR)] * 3))


if __name__ == "__main__":
    main()
