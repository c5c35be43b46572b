"""Traffic of every kind over a connection that breaks: every byte once and in order.

All of it is in closed loops: a process writes when it was told to, and is told when the
client has read. So nobody runs ahead of what a server retains, however slow the machine
is, and any gap is a fault. The loops run until a `CuttingProxy` has made its last cut.
"""

from __future__ import annotations

import asyncio
import re
import sys
from random import Random
from typing import Final

import paddock
from tests.interaction.cutting_proxy import CuttingProxy

WINDOW_BURSTS: Final = 8
WINDOW_BYTES: Final = 256 * 1024
"""How far a loop may run ahead of its reader: a quarter of what a server retains."""

# For each line that it reads, a burst of numbered lines of many lengths, to every stream that it has.
PRODUCER: Final = r"""
import sys
streams = (sys.stdout,) if sys.stdout.isatty() else (sys.stdout, sys.stderr)
print("ready", flush=True)
number = 0
for order in sys.stdin:
    if order == "quit\n":
        break
    burst = "".join(f"{n} {'x' * (n % 89)}\n" for n in range(number, number + 200))
    number += 200
    for stream in streams:
        stream.write(burst)
        stream.flush()
for stream in streams:
    stream.write(f"end {number}\n")
"""
BURST_LINES: Final = 200
LINE: Final = re.compile(rb"(\d+) (x*)")


class NumberedLines:
    """Checks one stream of a producer as it comes."""

    def __init__(self) -> None:
        self.count = 0
        self.size_bytes = 0
        self.is_ended = False
        self._rest = b""

    def add(self, data: bytes) -> None:
        self.size_bytes += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._check(line.removesuffix(b"\r"))

    def _check(self, line: bytes) -> None:
        assert not self.is_ended
        if line == b"end %d" % self.count:
            self.is_ended = True
            return
        found = LINE.fullmatch(line)
        assert found is not None, line
        assert (int(found[1]), len(found[2])) == (self.count, self.count % 89)
        self.count += 1


async def read_ready(process: paddock.Process) -> None:
    """Read the first line, which says that the process is there."""
    seen = b""
    async for output in process:
        seen += output.data
        if seen.endswith(b"\n"):
            break
    assert seen.rstrip() == b"ready"


class Producer:
    """A process that writes numbered lines, a few bursts ahead of the reader."""

    def __init__(self, box: paddock.Box, proxy: CuttingProxy, *, is_terminal: bool) -> None:
        self._box = box
        self._proxy = proxy
        self._is_terminal = is_terminal
        self._process: paddock.Process

    async def start(self) -> None:
        """Start the process and wait until it takes orders."""
        script = 'stty -echo; exec "$0" -c "$1"' if self._is_terminal else 'exec "$0" -c "$1"'
        argv = ["sh", "-c", script, sys.executable, PRODUCER]
        self._process = await self._box.start(argv, tty=self._is_terminal, stdin=True)
        await read_ready(self._process)

    async def check(self) -> int:
        """Have lines produced until the last cut; returns how many bytes came."""
        process = self._process
        streams = [paddock.Stream.STDOUT, paddock.Stream.STDERR]
        checks = {
            stream: NumberedLines() for stream in ([paddock.Stream.PTY] if self._is_terminal else streams)
        }
        await process.write(b"\n" * WINDOW_BURSTS)
        ordered = WINDOW_BURSTS
        is_quitting = False
        async for output in process:
            checks[output.stream].add(output.data)
            wanted = min(check.count for check in checks.values()) // BURST_LINES + WINDOW_BURSTS
            if self._proxy.finished.is_set():
                if not is_quitting:
                    is_quitting = True
                    await process.write(b"quit\n")
            elif wanted > ordered:
                await process.write(b"\n" * (wanted - ordered))
                ordered = wanted
        assert await process.wait() == 0
        assert all(check.is_ended for check in checks.values())
        return sum(check.size_bytes for check in checks.values())


class Echo:
    """Random bytes through a `cat`, compared as they come back."""

    def __init__(self, box: paddock.Box, proxy: CuttingProxy, *, is_terminal: bool) -> None:
        self._box = box
        self._proxy = proxy
        self._is_terminal = is_terminal
        self._process: paddock.Process
        self._random = Random(1)
        self._on_its_way = bytearray()
        self._has_room = asyncio.Event()
        self._is_last = False

    async def start(self) -> None:
        """Start the process and wait until its terminal is set up."""
        script = "stty raw -echo; echo ready; exec cat" if self._is_terminal else "echo ready; exec cat"
        self._process = await self._box.start(["sh", "-c", script], tty=self._is_terminal, stdin=True)
        await read_ready(self._process)

    async def check(self) -> int:
        """Go on until the last cut; returns how many bytes came back."""
        size_bytes = 0
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._feed())
            async for output in self._process:
                assert self._on_its_way.startswith(output.data)
                del self._on_its_way[: len(output.data)]
                size_bytes += len(output.data)
                self._has_room.set()
                if self._is_last and not self._on_its_way:
                    break
        await self._process.terminate()
        return size_bytes

    async def _feed(self) -> None:
        while not self._proxy.finished.is_set():
            await self._write(self._random.randbytes(int(10 ** self._random.uniform(0, 4.9))))
        # Something is echoed after this, so that the reader sees it.
        self._is_last = True
        await self._write(b"last")

    async def _write(self, data: bytes) -> None:
        self._on_its_way += data
        await self._process.write(data)
        while len(self._on_its_way) > WINDOW_BYTES:
            self._has_room.clear()
            await self._has_room.wait()


async def check_commands(box: paddock.Box, proxy: CuttingProxy) -> None:
    """Run one command after another, each once, until the last cut."""
    count = 0
    while not proxy.finished.is_set():
        done = await box.run(["sh", "-c", "cat; exit 7"], input=b"%d" % count)
        assert (done.returncode, done.stdout, done.stderr) == (7, b"%d" % count, b"")
        count += 1
    assert count > 0


async def check_everything(box: paddock.Box, proxy: CuttingProxy) -> int:
    """All of it at once, from now to the last cut; returns how many bytes of output were right."""
    loops = [kind(box, proxy, is_terminal=flag) for kind in (Producer, Echo) for flag in (False, True)]
    for loop in loops:
        await loop.start()
    proxy.is_cutting = True
    async with asyncio.TaskGroup() as tasks:
        checks = [tasks.create_task(loop.check()) for loop in loops]
        # Elsewhere, a start that is cut off can't be repeated.
        if box.has("startIdempotency"):
            tasks.create_task(check_commands(box, proxy))
    assert all(check.result() > 0 for check in checks)
    return sum(check.result() for check in checks)
