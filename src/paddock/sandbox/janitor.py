"""The launcher's side of paddock-janitor, which keeps the places that sandboxes need to exist.

A launching process has one janitor, started when it is first needed. It removes what
it made when the last sandbox that needs it has ended, and also when the launcher was
killed (native/janitor.c). What the places are for is not known here.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from paddock.errors import SandboxUnavailable
from paddock.sandbox.mount import Placeholder, PlaceholderKind

PROGRAM: Final = Path(__file__).parent.parent / "native" / "paddock-janitor"
PACKET_BYTES: Final = 64 << 10
"""As in native/janitor.c."""

_KINDS: Final = {PlaceholderKind.DIRECTORY: "d", PlaceholderKind.FILE: "f"}
_HOLD, _DROP, _LINGER = b"h", b"d", b"l"


class PlaceTaken(Exception):
    """Something has appeared where a placeholder was to be: what the plan was made of has changed."""


class Janitor:
    """The running helper. Its methods may be called from any thread and return within a few system calls."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection: socket.socket | None = None

    def hold(self, placeholders: Sequence[Placeholder]) -> None:
        """Make the places exist until each is given to `release`. All, or none.

        Raises PlaceTaken when something real is there now, SandboxUnavailable when a place can't be made.
        """
        if not placeholders:
            return
        items = [_KINDS[place.kind].encode() + os.fsencode(place.path) for place in placeholders]
        with self._lock:
            answers = self._ask(_HOLD, items)
            held = [place for place, problem in zip(placeholders, answers, strict=True) if problem == 0]
            if len(held) == len(placeholders):
                return
            self._ask(_DROP, [os.fsencode(place.path) for place in held])
        for place, problem in zip(placeholders, answers, strict=True):
            if problem == errno.EEXIST:
                raise PlaceTaken(place.path)
            if problem:
                raise SandboxUnavailable(
                    f"{place.path} is protected and missing, and its place can't be taken: "
                    f"{os.strerror(problem)}",
                    "make it, or let the profile grant write access to it",
                )

    def release(self, placeholders: Sequence[Placeholder], *, was_killed: bool) -> None:
        """Let go of places. They are gone when this returns if nobody else needs them.

        With `was_killed` they stay a moment longer, for processes that were killed may
        not be quite dead. Without a janitor they stay until the next one needs them.
        """
        verb = _LINGER if was_killed else _DROP
        if placeholders:
            with self._lock, contextlib.suppress(SandboxUnavailable):
                self._ask(verb, [os.fsencode(place.path) for place in placeholders])

    def close(self) -> None:
        """Let the helper clear away what is left, and end. It goes on for a moment by itself."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _ask(self, verb: bytes, items: Sequence[bytes]) -> list[int]:
        answers: list[int] = []
        for packet in _packets(verb, items):
            try:
                connection = self._connected()
                connection.send(packet)
                answer = connection.recv(PACKET_BYTES)
            except OSError:
                answer = b""
            if not answer:
                self._connection = None
                raise SandboxUnavailable("the janitor of mount points is gone", "try again")
            answers += answer
        return answers

    def _connected(self) -> socket.socket:
        if self._connection is None:
            self._connection = _start()
        return self._connection


def _packets(verb: bytes, items: Sequence[bytes]) -> Iterator[bytes]:
    packet = verb
    for item in items:
        if len(packet) + len(item) + 1 > PACKET_BYTES:
            yield packet
            packet = verb
        packet += item + b"\0"
    if len(packet) > 1:
        yield packet


def _start() -> socket.socket:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        os.posix_spawn(
            PROGRAM,
            [PROGRAM.name],
            {},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, theirs.fileno(), 0),
                # It outlives us: our output must not wait for its end.
                (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            ],
            # Nor may a signal to our group or from our terminal reach it.
            setsid=True,
        )
    except OSError as error:
        ours.close()
        raise SandboxUnavailable(
            f"{PROGRAM} can't be run: {error.strerror}", "build it with `make native`"
        ) from error
    finally:
        theirs.close()
    return ours
