"""File operations under a profile: in workers inside sandboxes, kept for the next request.

A worker serves every request under its profile, until nobody has asked for a while. Before
each one the plan of its sandbox is made anew, and a worker is replaced whose sandbox would not be
made in the same way now, or whose mounts are no longer on the files that have these names, or are gone. What
is asked of workers is not known here.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections import OrderedDict
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

from paddock import own_program
from paddock.errors import OperationFailed, SandboxNotMade, SandboxUnenforceable
from paddock.fs import forge
from paddock.fs.entering import open_namespaces
from paddock.fs.forge import request_worker
from paddock.fs.remote import WorkerOperations
from paddock.model.restriction import Restriction
from paddock.own_program import ROOT, own_environment
from paddock.process.group import ProcessGroup
from paddock.process.launch import LaunchSpec
from paddock.process.spawn_request import FIRST_INHERITED, SpawnRequest
from paddock.process.spawner import ExitReport, Spawner
from paddock.sandbox.mount_table import MountTable
from paddock.server.sandboxes import ATTEMPTS, Confinement, Enclosure, Sandboxes, View

MAX_WORKERS = 32
"""Each is a process with some 10 MiB of its own."""

BUSY_TIMEOUT_S = 10.0
"""How long a request waits for a place, when so many other profiles have requests under way or files open."""

IDLE_S = 60.0
"""How long a worker waits for the next request."""

IDLE_WITH_PLACES_S = 0.05
"""The same if places are held in the tree for it, which others see: from one step of a patch to the next."""

END_TIMEOUT_S = 2.0
"""A sandbox that was told to end is gone by then, unless a process hangs in the kernel."""

COMPLAINT_BYTES = 4096


@dataclass(slots=True, eq=False)
class _Worker:
    """A worker, the sandbox that it is in, and how many requests have it."""

    confinement: Confinement
    view: View
    enclosure: Enclosure
    holder: Holder
    mounts: MountTable
    operations: WorkerOperations
    users: int = 0
    is_retired: bool = False
    timer: asyncio.TimerHandle | None = None

    def is_good_for(self, view: View) -> bool:
        has_lost = self.mounts.has_lost() or self.enclosure.has_lost_places()
        return self.view == view and not self.operations.has_ended and not has_lost

    async def aclose(self) -> None:
        await self.operations.aclose()
        self.mounts.close()
        await self.enclosure.cleared(await self.holder.end())


class FileWorkers:
    """The workers of a server. `aclose` must follow, before that of the spawner and of the sandboxes."""

    def __init__(self, spawner: Spawner, sandboxes: Sandboxes) -> None:
        self._spawner = spawner
        self._sandboxes = sandboxes
        self._forge: socket.socket | None = None
        self._forging = asyncio.Lock()
        self._workers: OrderedDict[Confinement, _Worker] = OrderedDict()
        self._turns: WeakValueDictionary[Confinement, asyncio.Lock] = WeakValueDictionary()
        self._count = 0
        self._freed = asyncio.Event()
        self._closings: set[asyncio.Task[None]] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def admit(self, confinement: Confinement) -> None:
        """Refuse what the server grants nobody, also to those who use less of it. Raises RequestError."""
        await self._sandboxes.admit(confinement)

    @asynccontextmanager
    async def worker(self, confinement: Confinement) -> AsyncIterator[WorkerOperations]:
        """A worker in such a sandbox, for the time of the block. Raises RequestError."""
        view = await self._sandboxes.view(confinement)
        async with self._turns.setdefault(confinement, asyncio.Lock()):
            worker = self._workers.get(confinement)
            if worker is not None and not worker.is_good_for(view):
                self._retire(worker)
                worker = None
            if worker is None:
                worker = await self._start(confinement, view)
            worker.users += 1
        self._workers.move_to_end(confinement)
        if worker.timer is not None:
            worker.timer.cancel()
            worker.timer = None
        try:
            yield worker.operations
        finally:
            self._give_back(worker)

    def give_up_places(self) -> None:
        """End idle workers for which places are held in the tree: a client has gone, and may look at it."""
        for worker in list(self._workers.values()):
            if worker.enclosure.has_places and not worker.users:
                self._retire(worker)

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something with a worker that nobody waits for."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def aclose(self) -> None:
        """End every worker. Bounded."""
        for worker in list(self._workers.values()):
            worker.users = 0
            self._retire(worker)
        while self._closings:
            await asyncio.wait(self._closings)
        if self._forge is not None:
            self._forge.close()

    # --- the end of a worker ------------------------------------------------

    def _give_back(self, worker: _Worker) -> None:
        worker.users -= 1
        if worker.users > 0:
            return
        self._freed.set()
        if worker.is_retired:
            self._end(worker)
        else:
            idle_s = IDLE_WITH_PLACES_S if worker.enclosure.has_places else IDLE_S
            worker.timer = asyncio.get_running_loop().call_later(idle_s, self._retire, worker)

    def _retire(self, worker: _Worker) -> None:
        """No further request gets it; it ends after the last one that has it."""
        worker.is_retired = True
        if self._workers.get(worker.confinement) is worker:
            del self._workers[worker.confinement]
        if not worker.users:
            self._end(worker)

    def _end(self, worker: _Worker) -> None:
        if worker.timer is not None:
            worker.timer.cancel()
        closing = asyncio.get_running_loop().create_task(worker.aclose())
        self._closings.add(closing)
        closing.add_done_callback(self._ended)

    def _ended(self, closing: asyncio.Task[None]) -> None:
        self._closings.discard(closing)
        self._count -= 1
        self._freed.set()

    # --- its beginning ------------------------------------------------------

    async def _start(self, confinement: Confinement, view: View) -> _Worker:
        await self._make_room()
        self._count += 1
        try:
            worker = await self._try(confinement, view)
        except BaseException:
            self._count -= 1
            raise
        self._workers[confinement] = worker
        return worker

    async def _try(self, confinement: Confinement, view: View) -> _Worker:
        for _ in range(ATTEMPTS - 1):
            with contextlib.suppress(SandboxNotMade):
                return await self._fill(confinement, view)
        return await self._fill(confinement, view)

    async def _make_room(self) -> None:
        try:
            async with asyncio.timeout(BUSY_TIMEOUT_S):
                while self._count >= MAX_WORKERS:
                    self._freed.clear()
                    if idle := next((worker for worker in self._workers.values() if not worker.users), None):
                        self._retire(idle)
                    await self._freed.wait()
        except TimeoutError as error:
            raise OperationFailed(
                f"file operations under {MAX_WORKERS} other profiles are under way; close files or try again"
            ) from error

    async def _fill(self, confinement: Confinement, view: View) -> _Worker:
        """Start a sandbox that nothing runs in, and let a worker enter it."""
        enclosure = await self._sandboxes.enclose(confinement, _NOTHING, [])
        holder = mounts = None
        try:
            holder = await Holder.start(self._spawner, enclosure)
            mounts = MountTable(enclosure.first_pid())
            with contextlib.ExitStack() as stack:
                namespaces = [_owned(stack, file) for file in open_namespaces(enclosure.first_pid())]
                operations = await self._worker_in(namespaces, enclosure.restriction())
            return _Worker(confinement, view, enclosure, holder, mounts, operations)
        except BaseException as error:
            if mounts is not None:
                mounts.close()
            if holder is not None:
                await enclosure.cleared(await holder.end())
            else:
                await enclosure.abandon()
            if isinstance(error, OSError):
                raise SandboxUnenforceable(f"its sandbox can't be entered: {error.strerror}") from error
            raise

    async def _worker_in(self, namespaces: list[int], restriction: Restriction) -> WorkerOperations:
        forge_socket = await self._forged()
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                request_worker(forge_socket, theirs, namespaces, restriction)
                return await WorkerOperations.attach(ours)
            except BaseException:
                ours.close()
                raise

    async def _forged(self) -> socket.socket:
        """The forge, started when it is first needed, and again should it have ended."""
        async with self._forging:
            if self._forge is None:
                self._forge = await self._start_forge()
            return self._forge

    async def _start_forge(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs, _null() as null:
                request = SpawnRequest(
                    program=f"/proc/self/fd/{FIRST_INHERITED + 1}",
                    argv=own_program.python_command(forge.__name__),
                    cwd=ROOT,
                    # Clients can read it in /proc, too.
                    env=own_environment(),
                    fds=(null, null, null),
                    is_terminal=False,
                    inherited=(theirs.fileno(), own_program.python()),
                )
                spawned = await self._spawner.spawn(request, partial(self._forge_ended, ours))
        except BaseException:
            ours.close()
            raise
        os.close(spawned.pidfd)
        return ours

    def _forge_ended(self, ours: socket.socket, _: ExitReport) -> None:
        ours.close()
        if self._forge is ours:
            self._forge = None


class Holder:
    """The process that keeps a sandbox for others to enter. `end` must follow."""

    def __init__(self, group: ProcessGroup, ended: asyncio.Future[ExitReport]) -> None:
        self._group = group
        self._ended = ended

    @classmethod
    async def start(cls, spawner: Spawner, enclosure: Enclosure) -> Holder:
        """Start the sandbox; it is in force when this returns. Raises RequestError."""
        ended: asyncio.Future[ExitReport] = asyncio.get_running_loop().create_future()
        with contextlib.ExitStack() as stack, _null() as null:
            complaint, complaint_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            _owned(stack, complaint)
            try:
                spec = enclosure.spec(_NOTHING)
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

    async def end(self) -> ExitReport:
        """End everything in the sandbox. Bounded."""
        self._group.signal(signal.SIGTERM)
        await asyncio.wait([self._ended], timeout=END_TIMEOUT_S)
        self._group.kill()
        self._group.close()
        return self._ended.result() if self._ended.done() else KILLED


KILLED = ExitReport(wait_status=9, user_s=0.0, system_s=0.0, max_rss_bytes=0)
"""Of a process whose end was not seen."""

_NOTHING = LaunchSpec(program="", argv=[], cwd=ROOT, env={}, terminal=None, has_stdin=False)


@contextlib.contextmanager
def _null() -> Iterator[int]:
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        yield null
    finally:
        os.close(null)


def _owned(stack: contextlib.ExitStack, file: int) -> int:
    stack.callback(os.close, file)
    return file
