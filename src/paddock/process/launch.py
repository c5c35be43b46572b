"""Starting a process: descriptors, spawn, and who owns what afterwards."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct, field

from paddock.model.stream import Stream
from paddock.model.terminal import TerminalSize
from paddock.process.enclosure import Enclosure
from paddock.process.group import ProcessGroup
from paddock.process.input_stream import InputStream
from paddock.process.managed import ManagedProcess
from paddock.process.output_log import chunk_limit_for
from paddock.process.output_stream import OutputStream
from paddock.process.spawn_request import SpawnRequest
from paddock.process.spawner import ExitReport, Spawned
from paddock.process.terminal import open_terminal

SAID_BYTES = 4096


class LaunchSpec(Struct, frozen=True):
    """What to start. With a `terminal` size it runs on a PTY, otherwise on pipes."""

    program: str
    argv: Sequence[str]
    cwd: str
    env: Mapping[str, str]
    terminal: TerminalSize | None
    has_stdin: bool
    inherited: tuple[int, ...] = ()
    """Descriptors besides the standard ones, as in `SpawnRequest`. The caller keeps them."""
    is_shielded: bool = False
    """As in `SpawnRequest`."""
    cwd_without_links: bool = False
    """As in `SpawnRequest`."""


class Starter(Protocol):
    """Starts processes: a `Spawner`, or a wrapper around one."""

    async def spawn(self, request: SpawnRequest, on_exit: Callable[[ExitReport], None]) -> Spawned:
        """Start a process, as `Spawner.spawn` does."""
        ...


class _Descriptors(Struct):
    """Both ends of a child's streams; `close` closes every end that nobody has taken over."""

    child: list[int] = field(default_factory=list)
    outputs: list[tuple[Stream, int]] = field(default_factory=list)
    input_fd: int = -1

    def said(self) -> bytes:
        """Read a piece of the last output, which is stderr or the terminal."""
        with contextlib.suppress(OSError):
            return os.read(self.outputs[-1][1], SAID_BYTES)
        return b""

    def close_child_ends(self) -> None:
        while self.child:
            os.close(self.child.pop())

    def close(self) -> None:
        self.close_child_ends()
        while self.outputs:
            os.close(self.outputs.pop()[1])
        if self.input_fd >= 0:
            os.close(self.input_fd)
            self.input_fd = -1


class _Ending:
    """Keeps the end of a process until a listener is ready for it."""

    __slots__ = ("_report", "_tell")

    def __init__(self) -> None:
        self._report: ExitReport | None = None
        self._tell: Callable[[ExitReport], None] | None = None

    def exited(self, report: ExitReport) -> None:
        self._report = report
        if self._tell is not None:
            self._tell(report)

    def tell(self, listener: Callable[[ExitReport], None]) -> None:
        self._tell = listener
        if self._report is not None:
            listener(self._report)


async def launch(
    spawner: Starter,
    spec: LaunchSpec,
    process: ManagedProcess,
    retained_bytes: int,
    enclosure: Enclosure | None = None,
) -> None:
    """Spawn `process` and hand it its streams. The caller calls `process.begin()` when events may come.

    Raises SpawnError, SpawnerLost, OSError (out of descriptors) or an error of the enclosure; leaves
    nothing behind then.
    """
    descriptors = _Descriptors()
    ending = _Ending()
    try:
        if spec.terminal is not None:
            _open_terminal(descriptors, spec.terminal)
        else:
            _open_pipes(descriptors, spec.has_stdin)
        spawned = await spawner.spawn(
            SpawnRequest(
                program=spec.program,
                argv=spec.argv,
                cwd=spec.cwd,
                env=spec.env,
                fds=tuple(descriptors.child),
                is_terminal=spec.terminal is not None,
                inherited=spec.inherited,
                is_shielded=spec.is_shielded,
                cwd_without_links=spec.cwd_without_links,
            ),
            ending.exited,
        )
        descriptors.close_child_ends()
        group = ProcessGroup(spawned.pid, spawned.pidfd)
        try:
            if enclosure is not None:
                await enclosure.confirmed(descriptors.said)
            _hand_over(descriptors, process, group, spec, retained_bytes, enclosure)
        except BaseException:
            group.kill()
            group.close()
            raise
        ending.tell(process.exited)
    except BaseException:
        descriptors.close()
        raise


def _open_terminal(descriptors: _Descriptors, size: TerminalSize) -> None:
    master, slave = open_terminal(size)
    descriptors.child.append(slave)
    descriptors.outputs.append((Stream.PTY, master))
    os.set_blocking(master, False)
    # Input has a descriptor of its own, so that closing it leaves the output open.
    descriptors.input_fd = os.dup(master)


def _open_pipes(descriptors: _Descriptors, has_stdin: bool) -> None:
    if has_stdin:
        read_end, descriptors.input_fd = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(descriptors.input_fd, False)
    else:
        read_end = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    descriptors.child.append(read_end)
    for stream in (Stream.STDOUT, Stream.STDERR):
        read_end, write_end = os.pipe2(os.O_CLOEXEC)
        descriptors.outputs.append((stream, read_end))
        descriptors.child.append(write_end)
        os.set_blocking(read_end, False)


def _hand_over(
    descriptors: _Descriptors,
    process: ManagedProcess,
    group: ProcessGroup,
    spec: LaunchSpec,
    retained_bytes: int,
    enclosure: Enclosure | None,
) -> None:
    chunk_bytes = chunk_limit_for(retained_bytes)
    output_streams = [
        OutputStream(fd, stream, chunk_bytes, process.output_received, process.output_ended)
        for stream, fd in descriptors.outputs
    ]
    window_fd = descriptors.outputs[0][1] if spec.terminal is not None else -1
    is_terminal = spec.terminal is not None
    input_stream = (
        InputStream(descriptors.input_fd, is_terminal=is_terminal) if descriptors.input_fd >= 0 else None
    )
    descriptors.outputs.clear()
    descriptors.input_fd = -1
    process.adopt(group, output_streams, input_stream, window_fd, enclosure)
