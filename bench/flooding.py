"""`python -m bench.flooding SOURCE URL DIRECTORY`: floods a server with one kind of events.

It goes on until it is killed.

Says one line when the flood is on.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
from itertools import count
from pathlib import Path

from bench.client import Client, request, start_request

FRAMES = 4000
"""Requests that are sent at once: several of the server's reads."""

VALUES = 4_000_000
"""Values of one message: 12 MB."""

TEXT_CHARS = 4 * 1024 * 1024 - 100
"""Line ends of one message: as much text as a server takes, in the form that takes longest to read."""

STREAMS = 8
"""Processes that write without end."""

IN_FLIGHT = 64
"""Processes that are being started at any time."""

WIDTH, DEPTH = 50, 40
"""A tree of 2000 directories: 50 that hold 39 others each."""

LARGE = 10_000
"""Directories of a large watch."""

STANDING = 8
"""Large watches of one client that only stand there."""


def frames(client: Client, _: Path) -> None:
    """Ask many small things at once, and read the answers."""
    block = b"".join(request(number, "environment/status") for number in range(FRAMES))
    reading = threading.Thread(target=_read_for_ever, args=(client,), daemon=True)
    reading.start()
    client.send(block)
    _begun()
    while True:
        client.send(block)


def values(client: Client, _: Path) -> None:
    """Send messages that hold far more values than a message may."""
    reading = threading.Thread(target=_read_for_ever, args=(client,), daemon=True)
    reading.start()
    block = request(0, "fs/getMetadata", {"path": "/", "unknown": [[]] * VALUES})
    client.send(block)
    _begun()
    while True:
        client.send(block)


def text(client: Client, _: Path) -> None:
    """Send messages that are as long as they may be."""
    reading = threading.Thread(target=_read_for_ever, args=(client,), daemon=True)
    reading.start()
    block = request(0, "fs/getMetadata", {"path": "/", "unknown": "\n" * TEXT_CHARS})
    client.send(block)
    _begun()
    while True:
        client.send(block)


def output(client: Client, _: Path) -> None:
    """Read what several processes write without end."""
    for number in range(STREAMS):
        client.send(start_request(number, f"p{number}", ["/bin/cat", "/dev/zero"]))
    _begun()
    _read_for_ever(client)


def exits(client: Client, _: Path) -> None:
    """Start processes that end at once, many at a time."""
    for number in range(IN_FLIGHT):
        _start(client, number)
    numbers = count(IN_FLIGHT)
    _begun()
    while True:
        for message in client.messages():
            if message.method == "process/closed":
                _start(client, next(numbers))


def renames(client: Client, directory: Path) -> None:
    """Watch a tree in which directories are renamed all the time."""
    for column in range(WIDTH):
        # An earlier flood may have ended between its two renames.
        shutil.rmtree(directory / f"e{column}", ignore_errors=True)
        for level in range(DEPTH - 1):
            (directory / f"d{column}" / f"{level}").mkdir(parents=True, exist_ok=True)
    _watch(client, 1, directory)
    reading = threading.Thread(target=_read_for_ever, args=(client,), daemon=True)
    reading.start()
    _begun()
    while True:
        for column in range(WIDTH):
            os.rename(directory / f"d{column}", directory / f"e{column}")
            os.rename(directory / f"e{column}", directory / f"d{column}")


def beside_watches(client: Client, directory: Path) -> None:
    """Watch a large tree several times, and ask many small things: what stands there must cost nothing."""
    _make_large(directory)
    for number in range(STANDING):
        _watch(client, number, directory)
    frames(client, directory)


def unwatch(client: Client, directory: Path) -> None:
    """Watch a large tree and end that, again and again."""
    _make_large(directory)
    watch_id = _watch(client, 1, directory)
    _begun()
    for number in count(2):
        client.send(request(0, "fs/unwatch", {"watchId": watch_id}))
        client.result(0)
        watch_id = _watch(client, number, directory)


def _make_large(directory: Path) -> None:
    for number in range(LARGE):
        (directory / str(number // 100) / str(number % 100)).mkdir(parents=True, exist_ok=True)


def _watch(client: Client, number: int, directory: Path) -> int:
    client.send(request(number, "fs/watch", {"path": str(directory), "recursive": True}))
    result = client.result(number)
    return int(result.partition(b":")[2].strip(b" }"))


def _start(client: Client, number: int) -> None:
    client.send(start_request(number, f"p{number}", ["/bin/true"]))


def _read_for_ever(client: Client) -> None:
    while True:
        client.receive()


def _begun() -> None:
    print("flooding", flush=True)


SOURCES = {
    each.__name__: each for each in (frames, output, exits, renames, unwatch, beside_watches, values, text)
}

if __name__ == "__main__":
    with Client(sys.argv[2]) as connected:
        SOURCES[sys.argv[1]](connected, Path(sys.argv[3]))
