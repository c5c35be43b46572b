"""File operations under a profile: in workers inside sandboxes, kept for the next request.

A worker serves every request under its profile until none has come for a while. Before each request the
server plans the worker's sandbox again. It replaces a worker whose sandbox it would make differently now, or
whose mounts are no longer on the files that have these names, have disappeared, or are no longer those of the
host. This module does not know what workers are asked to do.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from msgspec import Struct, field

from paddock import own_program
from paddock.errors import OperationFailed, SandboxUnenforceable
from paddock.model.restriction import Restriction
from paddock.own_program import ROOT, own_environment
from paddock.process.spawn_request import FIRST_INHERITED, SpawnRequest
from paddock.process.spawner import ExitReport, Spawner
from paddock.sandbox.enforce.mount_table import MountChanges, MountTable
from paddock.server.confinement import Confinement
from paddock.server.holder import NOTHING, Holder, null_device
from paddock.server.sandbox_enclosure import SandboxEnclosure
from paddock.server.sandboxes import Sandboxes

if TYPE_CHECKING:
    from paddock.fs.remote import WorkerOperations
    from paddock.server.plan_snapshot import PlanSnapshot

MAX_WORKERS = 32
"""Each is a process with some 10 MiB of its own."""

CLIENT_SHARE = 8
"""The number of workers that one client may use at once, with requests under way and open files."""

BUSY_TIMEOUT_S = 10.0
"""How long a request waits for a worker when all are in use."""

IDLE_S = 60.0
"""How long a worker waits for the next request."""

IDLE_WITH_PLACEHOLDERS_S = 0.05
"""The same for a worker with placeholders, which others see: long enough from one step of a patch to the
next."""


class _Worker(Struct, eq=False):
    """A worker, its sandbox, and its users."""

    confinement: Confinement
    snapshot: PlanSnapshot
    enclosure: SandboxEnclosure
    holder: Holder
    mounts: MountTable
    host_changes: int
    """The number of changes to the host's mounts before the worker's sandbox was planned."""
    operations: WorkerOperations
    users: Counter[int] = field(default_factory=Counter)
    """The number of requests and open files of each client that use it."""
    is_retired: bool = False
    timer: asyncio.TimerHandle | None = None

    def is_good_for(self, snapshot: PlanSnapshot, host_changes: int) -> bool:
        has_lost = self.mounts.has_lost() or self.enclosure.has_lost_placeholders()
        is_same = self.snapshot == snapshot and self.host_changes >= host_changes
        return is_same and not self.operations.has_ended and not has_lost

    async def aclose(self) -> None:
        await self.operations.aclose()
        self.mounts.close()
        await self.enclosure.cleared(await self.holder.end())


class FileWorkers:
    """The workers of a server. `aclose` must follow, before that of the spawner and of the sandboxes."""

    def __init__(self, spawner: Spawner, sandboxes: Sandboxes) -> None:
        self._spawner = spawner
        self._sandboxes = sandboxes
        self._fork_server: socket.socket | None = None
        self._fork_server_lock = asyncio.Lock()
        self._workers: OrderedDict[Confinement, _Worker] = OrderedDict()
        self._turns: WeakValueDictionary[Confinement, asyncio.Lock] = WeakValueDictionary()
        self._host_mounts: MountChanges | None = None
        self._count = 0
        self._shares: Counter[int] = Counter()
        """The number of workers that each client uses or has asked for."""
        self._freed = asyncio.Event()
        self._closings: set[asyncio.Task[None]] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def admit(self, confinement: Confinement) -> None:
        """Refuse a profile that exceeds the server's cap, even if the operation needs less. Raises
        RequestError."""
        await self._sandboxes.admit(confinement)

    @asynccontextmanager
    async def worker(self, confinement: Confinement, client: int) -> AsyncIterator[WorkerOperations]:
        """Lend a worker in such a sandbox to `client` for the duration of the block. Raises RequestError."""
        while (worker := await self._taken(confinement, client)) is None:
            # This wait does not hold the turn of the confinement, for which others may wait.
            await self._free(
                lambda: self._shares[client] < CLIENT_SHARE, f"{CLIENT_SHARE} profiles of this client"
            )
        self._workers.move_to_end(confinement)
        if worker.timer is not None:
            worker.timer.cancel()
            worker.timer = None
        try:
            yield worker.operations
        finally:
            self._give_back(worker, client)

    def give_up_placeholders(self) -> None:
        """End idle workers that have placeholders: a client has disconnected, and may look at its tree."""
        for worker in list(self._workers.values()):
            if worker.enclosure.has_placeholders and not worker.users:
                self._retire(worker)

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run work on a worker that no request waits for."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def aclose(self) -> None:
        """End every worker. Bounded."""
        for worker in list(self._workers.values()):
            worker.users.clear()
            self._retire(worker)
        while self._closings:
            await asyncio.wait(self._closings)
        if self._fork_server is not None:
            self._fork_server.close()
        if self._host_mounts is not None:
            self._host_mounts.close()
            self._host_mounts = None

    # --- the end of a worker ------------------------------------------------

    def _give_back(self, worker: _Worker, client: int) -> None:
        worker.users[client] -= 1
        if worker.users[client] > 0:
            return
        del worker.users[client]
        self._leave_share(client)
        if worker.users:
            return
        if worker.is_retired:
            self._end(worker)
        else:
            idle_s = IDLE_WITH_PLACEHOLDERS_S if worker.enclosure.has_placeholders else IDLE_S
            worker.timer = asyncio.get_running_loop().call_later(idle_s, self._retire, worker)

    def _leave_share(self, client: int) -> None:
        self._shares[client] -= 1
        if not self._shares[client]:
            del self._shares[client]
        self._freed.set()

    def _retire(self, worker: _Worker) -> None:
        """Retire a worker: no further request gets it, and it ends after the last one that has it."""
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

    def _host_changes(self) -> int:
        """Return how often the mounts of the host have changed so far. Raises RequestError."""
        try:
            if self._host_mounts is None:
                self._host_mounts = MountChanges()
            return self._host_mounts.count()
        except OSError as error:
            raise SandboxUnenforceable(f"can't find out the mounts of the host: {error.strerror}") from error

    async def _taken(self, confinement: Confinement, client: int) -> _Worker | None:
        """Return a worker that the client uses from now on; None if it uses its share.

        Raises RequestError.
        """
        host_changes = self._host_changes()
        snapshot = await self._sandboxes.snapshot(confinement)
        async with self._turns.setdefault(confinement, asyncio.Lock()):
            worker = self._workers.get(confinement)
            if worker is not None and not worker.is_good_for(snapshot, host_changes):
                self._retire(worker)
                worker = None
            if worker is None or client not in worker.users:
                if self._shares[client] >= CLIENT_SHARE:
                    return None
                self._shares[client] += 1
                try:
                    worker = worker or await self._start(confinement, snapshot, host_changes)
                except BaseException:
                    self._leave_share(client)
                    raise
            worker.users[client] += 1
        return worker

    async def _start(self, confinement: Confinement, snapshot: PlanSnapshot, host_changes: int) -> _Worker:
        await self._make_room()
        self._count += 1
        try:
            fill = partial(self._fill, confinement, snapshot, host_changes)
            worker = await self._sandboxes.enclose(confinement, NOTHING, [], fill)
        except BaseException:
            self._count -= 1
            raise
        self._workers[confinement] = worker
        return worker

    async def _make_room(self) -> None:
        def has_room() -> bool:
            if self._count < MAX_WORKERS:
                return True
            if idle := next((worker for worker in self._workers.values() if not worker.users), None):
                self._retire(idle)
            return False

        await self._free(has_room, f"{MAX_WORKERS} other profiles")

    async def _free(self, is_free: Callable[[], bool], in_use: str) -> None:
        """Wait until `is_free`. Raises OperationFailed if that takes too long."""
        try:
            async with asyncio.timeout(BUSY_TIMEOUT_S):
                while not is_free():
                    self._freed.clear()
                    await self._freed.wait()
        except TimeoutError as error:
            raise OperationFailed(
                f"file operations under {in_use} are under way; close files or try again"
            ) from error

    async def _fill(
        self,
        confinement: Confinement,
        snapshot: PlanSnapshot,
        host_changes: int,
        enclosure: SandboxEnclosure,
    ) -> _Worker:
        """Start a sandbox that nothing runs in, and let a worker enter it."""
        from paddock.fs.namespace_entry import open_namespaces

        holder = mounts = None
        try:
            holder = await Holder.start(self._spawner, enclosure)
            mounts = MountTable(enclosure.first_pid())
            with contextlib.ExitStack() as stack:
                namespaces = [_owned(stack, file) for file in open_namespaces(enclosure.first_pid())]
                operations = await self._worker_in(namespaces, enclosure.restriction())
            return _Worker(confinement, snapshot, enclosure, holder, mounts, host_changes, operations)
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
        from paddock.fs.fork_server import request_worker
        from paddock.fs.remote import WorkerOperations

        connection = await self._running_fork_server()
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                request_worker(connection, theirs, namespaces, restriction)
                return await WorkerOperations.attach(ours)
            except BaseException:
                ours.close()
                raise

    async def _running_fork_server(self) -> socket.socket:
        """Return the fork server. Start it when it is first needed, and again should it have ended."""
        async with self._fork_server_lock:
            if self._fork_server is None:
                self._fork_server = await self._start_fork_server()
            return self._fork_server

    async def _start_fork_server(self) -> socket.socket:
        from paddock.fs import fork_server, namespace_entry

        try:
            library = own_program.opened(namespace_entry.LIBRARY)
        except OSError as error:
            raise SandboxUnenforceable(
                f"{namespace_entry.LIBRARY}: {error.strerror}; {namespace_entry.REMEDY}"
            ) from error
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs, null_device() as null:
                request = SpawnRequest(
                    program=f"/proc/self/fd/{FIRST_INHERITED + 1}",
                    argv=own_program.python_command(fork_server.__name__),
                    cwd=ROOT,
                    # Clients can read this environment in /proc, too.
                    env=own_environment(),
                    fds=(null, null, null),
                    is_terminal=False,
                    inherited=(theirs.fileno(), own_program.python(), library),
                )
                spawned = await self._spawner.spawn(request, partial(self._fork_server_ended, ours))
        except BaseException:
            ours.close()
            raise
        os.close(spawned.pidfd)
        return ours

    def _fork_server_ended(self, ours: socket.socket, _: ExitReport) -> None:
        ours.close()
        if self._fork_server is ours:
            self._fork_server = None


def _owned(stack: contextlib.ExitStack, file: int) -> int:
    stack.callback(os.close, file)
    return file
