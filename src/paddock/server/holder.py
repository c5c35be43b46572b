"""The process that keeps a sandbox in which no command runs.

Starts the process and ends it, and does not know what the sandbox is kept for.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from functools import partial

from paddock.own_program import ROOT
from paddock.process.group import ProcessGroup
from paddock.process.launch import LaunchSpec
from paddock.process.spawn_request import SpawnRequest
from paddock.process.spawner import ExitReport, Spawned, Spawner
from paddock.server.sandbox_enclosure import SandboxEnclosure

END_TIMEOUT_S = 2.0
"""A sandbox that was told to end has ended by then, unless a process hangs in the kernel."""

COMPLAINT_BYTES = 4096


class Holder:
    """The process that keeps a sandbox, for others to enter or for a command. `end` must follow."""

    def __init__(self, group: ProcessGroup, ended: asyncio.Future[ExitReport]) -> None:
        self._group = group
        self._ended = ended

    @classmethod
    async def start(cls, spawner: Spawner, enclosure: SandboxEnclosure) -> Holder:
        """Start the sandbox; it is in force when this returns. Raises RequestError."""
        ended: asyncio.Future[ExitReport] = asyncio.get_running_loop().create_future()
        with contextlib.ExitStack() as stack, null_device() as null:
            complaint, complaint_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            stack.callback(os.close, complaint)
            try:
                spec = enclosure.spec(NOTHING)
                request = SpawnRequest(
                    program=spec.program,
                    argv=spec.argv,
                    cwd=spec.cwd,
                    env=spec.env,
                    fds=(null, null, complaint_end),
                    is_terminal=False,
                    inherited=spec.inherited,
                    is_shielded=True,
                )
                spawned = await spawner.spawn(request, ended.set_result)
            finally:
                os.close(complaint_end)
            holder = cls(ProcessGroup(spawned.pid, spawned.pidfd), ended)
            try:
                await enclosure.confirmed(partial(os.read, complaint, COMPLAINT_BYTES))
            except BaseException:
                await holder.end()
                raise
        return holder

    def when_ended(self, tell: Callable[[], None]) -> None:
        """Call `tell` when the process has ended by itself, or was made to."""
        self._ended.add_done_callback(lambda _: tell())

    def hand_over(self, on_exit: Callable[[ExitReport], None]) -> Spawned:
        """Leave the process to a caller that has put a command into its sandbox; `end` must not follow.

        The caller closes the pidfd, and learns of the end.
        """
        self._ended.add_done_callback(lambda ended: on_exit(ended.result()))
        return Spawned(self._group.pid, self._group.release())

    async def end(self) -> ExitReport:
        """End everything in the sandbox. Bounded."""
        self._group.signal(signal.SIGTERM)
        await asyncio.wait([self._ended], timeout=END_TIMEOUT_S)
        self._group.kill()
        self._group.close()
        return self._ended.result() if self._ended.done() else KILLED


KILLED = ExitReport(wait_status=9, user_s=0.0, system_s=0.0, max_rss_bytes=0)
"""The report of a process whose end nobody saw."""

NOTHING = LaunchSpec(program="", argv=[], cwd=ROOT, env={}, terminal=None, has_stdin=False)
"""The launch of a sandbox that is kept: it starts no command."""


@contextlib.contextmanager
def null_device() -> Iterator[int]:
    """Open /dev/null for the time of the block and yield its descriptor."""
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        yield null
    finally:
        os.close(null)
