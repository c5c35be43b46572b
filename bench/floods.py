"""Rows about one client that floods the server, and how long another one waits meanwhile.

Each source of events is flooded in turn. The figure is the slowest answer that the other client got, so a
single turn of the server's loop that takes too long shows. The flood comes from a process of its own.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar

from bench.client import request
from bench.errors import BenchError
from bench.row import Figure, Row, Unit
from bench.servers import REPOSITORY, Contender, RunningServer

METHOD = "environment/status"
FLOODED_S = 1.5
"""How long the other client asks: several hundred times, and the slowest counts."""

PATIENCE_S = 0.05
"""What nobody should have to wait longer than."""


class Flood(Row):
    """The slowest of many small calls while `source` is flooded by another client."""

    source: ClassVar[str]
    is_for_peer: ClassVar[bool] = True
    rounds = 3

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="paddock-flood-")

    def measure(self, contender: Contender) -> Sequence[float | None]:
        if not self.is_for_peer and contender.name == "peer":
            return (None,)
        with contender.fresh_server() as server, _flooding(self.source, server, self._directory.name):
            return (_slowest(server),)

    def close(self) -> None:
        self._directory.cleanup()


@contextmanager
def _flooding(source: str, server: RunningServer, directory: str) -> Iterator[None]:
    flooder = subprocess.Popen(
        [sys.executable, "-m", "bench.flooding", source, server.url, directory],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
    )
    assert flooder.stdout is not None
    try:
        # When it has begun.
        if not flooder.stdout.readline():
            raise BenchError(f"nothing floods the server with {source}")
        yield
        if flooder.poll() is not None:
            raise BenchError(f"the flood of {source} has ended before its time")
    finally:
        flooder.kill()
        flooder.wait()
        flooder.stdout.close()


def _slowest(server: RunningServer) -> float:
    slowest = 0.0
    with server.connect(has_quick_ack=True) as client:
        asked = request(1, METHOD)
        end = time.perf_counter() + FLOODED_S
        while (begun := time.perf_counter()) < end:
            client.send(asked)
            client.result(1)
            slowest = max(slowest, time.perf_counter() - begun)
    return slowest


def _figure(what: str) -> tuple[Figure, ...]:
    return (Figure(f"slowest call while flooded with {what}", Unit.SECONDS, bound=PATIENCE_S),)


class FloodOfFrames(Flood):
    name = "flood-frames"
    source = "frames"
    figures = _figure("frames")


class FloodOfValues(Flood):
    name = "flood-values"
    source = "values"
    is_for_peer = False
    figures = _figure("messages of millions of values")


class FloodOfText(Flood):
    name = "flood-text"
    source = "text"
    is_for_peer = False
    figures = _figure("messages of 8 MiB")


class FloodOfOutput(Flood):
    name = "flood-output"
    source = "output"
    figures = _figure("output")


class FloodOfExits(Flood):
    name = "flood-exits"
    source = "exits"
    figures = _figure("starts and exits")


class FloodOfRenames(Flood):
    name = "flood-renames"
    source = "renames"
    is_for_peer = False
    figures = _figure("renames in a watched tree")


class FloodBesideLargeWatches(Flood):
    name = "flood-beside-watches"
    source = "beside_watches"
    is_for_peer = False
    figures = _figure("frames beside large watches")


class FloodOfUnwatching(Flood):
    name = "flood-unwatch"
    source = "unwatch"
    is_for_peer = False
    figures = _figure("ends of large watches")
