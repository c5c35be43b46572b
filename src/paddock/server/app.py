"""The server as a whole: puts the engines together, opens the door, and ends in order.

`serve` is the way in, for the command line and for programs that embed a
server. Ending means: accept no more, TERM to every process, grace, KILL, and
then the spawner, which kills whatever is left.
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import assert_never

from paddock import own_program
from paddock.config import Settings
from paddock.fs.local import Lanes
from paddock.journal import Journal
from paddock.process.spawner import Spawner
from paddock.protocol.control import ServerStatus
from paddock.server.address import StdioAddress, UnixAddress, WebSocketAddress
from paddock.server.audit import audited
from paddock.server.connection import LARGE_ANSWERS_BYTES, ClientConnection, Services
from paddock.server.control import open_control_socket
from paddock.server.descriptor_limit import DESCRIPTOR_LIMIT
from paddock.server.door import Door, names_files, open_door
from paddock.server.file_workers import FileWorkers
from paddock.server.handlers import handler_table
from paddock.server.metrics import Metrics
from paddock.server.profiles import Profiles
from paddock.server.room import Room
from paddock.server.sandboxes import Sandboxes
from paddock.server.scrape import METRICS_PATH, Scraper
from paddock.server.sessions import SessionRegistry
from paddock.transport import runtime_directory
from paddock.transport.limits import TransportLimits, WebSocketLimits
from paddock.transport.link import Link, Receiver
from paddock.transport.listener import Listener
from paddock.version import __version__

journal = Journal(logging.getLogger(__name__))

SPAWNER_LOST = "the process spawner ended unexpectedly, and with it all knowledge of the process"


class Server:
    """A running server. Made by `serve`."""

    def __init__(
        self, settings: Settings, profiles: Profiles, spawner: Spawner, sessions: SessionRegistry
    ) -> None:
        self.settings = settings
        self.finished = asyncio.Event()
        """Set when the server can't go on: its only client is gone (stdio), or the spawner is."""
        self.failure: str | None = None
        self._lanes = Lanes()
        self._sandboxes = Sandboxes(settings, profiles.cap)
        self._file_workers = FileWorkers(spawner, self._sandboxes)
        self._services = Services(
            settings=settings,
            spawner=spawner,
            sessions=sessions,
            handlers=handler_table(),
            describe_server=self.describe,
            metrics=sessions.metrics,
            lanes=self._lanes,
            large_answers=Room(LARGE_ANSWERS_BYTES),
            profiles=profiles,
            sandboxes=self._sandboxes,
            file_workers=self._file_workers,
        )
        self._sessions = sessions
        self._spawner = spawner
        self._listener: Listener | None = None
        self._control: Listener | None = None
        self._started_at_s = time.monotonic()
        self._connections: set[ClientConnection] = set()
        self._closings: set[asyncio.Task[None]] = set()
        self._accepted = 0
        self._is_single_client = False
        self._scraper = Scraper(sessions.metrics, sessions, self._connections)

    @property
    def url(self) -> str:
        """Where clients connect; `stdio` when the one client is at standard input and output."""
        return self._listener.url if self._listener is not None else "stdio"

    @property
    def control_url(self) -> str | None:
        """Where operators connect; None when there is no control socket."""
        return self._control.url if self._control is not None else None

    def describe(self) -> ServerStatus:
        """What an operator is told about the server itself."""
        uptime_ms = int((time.monotonic() - self._started_at_s) * 1000)
        return ServerStatus(pid=os.getpid(), url=self.url, version=__version__, uptime_ms=uptime_ms)

    def accept(self, link: Link) -> Receiver:
        """Serve one link, of whatever transport."""
        return self._accept(link, is_operator=False)

    def accept_operator(self, link: Link) -> Receiver:
        """Serve one link of somebody who may reach every session."""
        return self._accept(link, is_operator=True)

    def _accept(self, link: Link, *, is_operator: bool) -> ClientConnection:
        self._accepted += 1
        connection = ClientConnection(
            link, self._services, self._connection_closed, self._accepted, is_operator=is_operator
        )
        self._connections.add(connection)
        return connection

    async def open(self, door: Door) -> None:
        """Listen where the door is. Raises ListenError."""
        await self._listen(door)
        self._control = await open_control_socket(self.settings, self.accept_operator)
        journal.info("listening", url=self.url, control=self.control_url, version=__version__)

    async def _listen(self, door: Door) -> None:
        address = door.address
        match address:
            case WebSocketAddress():
                from paddock.transport import websocket

                limits = websocket_limits(self.settings)
                gate = replace(door.gate, pages={METRICS_PATH: self._scraper.page})
                self._listener = await websocket.listen(
                    address.host, address.port, self.accept, limits, gate.answer, ssl_context=door.tls
                )
            case UnixAddress():
                from paddock.transport import unix

                self._listener = await unix.listen(address.path, self.accept, line_limits(self.settings))
            case StdioAddress():
                from paddock.transport import stdio

                self._is_single_client = True
                await stdio.serve_stdio(self.accept, line_limits(self.settings))
            case _:
                assert_never(address)

    def spawner_lost(self) -> None:
        """Nothing can be started or waited for any more."""
        self.failure = SPAWNER_LOST
        journal.error("spawner lost", reason=SPAWNER_LOST)
        self._sessions.lose_processes(SPAWNER_LOST)
        self.finished.set()

    async def quiet(self) -> None:
        """Wait until the requests of every lost connection have ended."""
        while self._closings:
            await asyncio.wait(self._closings)

    async def aclose(self) -> None:
        """End everything in order. Bounded by the grace period and the transports' close timeouts."""
        doors = [door for door in (self._listener, self._control) if door is not None]
        for door in doors:
            door.close()
        journal.info("shutdown began", connections=len(self._connections), processes=self._sessions.live)
        await self._sessions.end_all(self.settings.shutdown_grace_s)
        journal.info("shutdown: processes ended")
        for door in doors:
            await door.aclose()
        for connection in list(self._connections):
            await connection.aclose()
        await self.quiet()
        journal.info("shutdown: connections closed")
        await self._lanes.aclose()
        await self._file_workers.aclose()
        await self._spawner.aclose()
        await self._sandboxes.aclose()
        journal.info("shutdown complete")

    def _connection_closed(self, connection: ClientConnection) -> None:
        self._connections.discard(connection)
        closing = asyncio.get_running_loop().create_task(connection.aclose())
        self._closings.add(closing)
        closing.add_done_callback(self._closings.discard)
        if self._is_single_client and not connection.is_operator:
            self.finished.set()


@asynccontextmanager
async def serve(settings: Settings | None = None) -> AsyncIterator[Server]:
    """Run a server inside this program, for the time of the `async with` block.

    Raises ConfigError when the settings do not fit together, ListenError when the address
    can't be had or must not be, AuditLogError when the audit log can't be written, and
    SpawnerLost when no process could be started; nothing is left running then.
    """
    settings = settings or Settings()
    own_program.open_all()
    runtime_directory.reserve(runtime_directory.everywhere(os.environ, os.geteuid()), os.geteuid())
    profiles = Profiles(settings)
    # A door that is refused is so before anything is started. A thread is only worth its memory for files.
    door = await asyncio.to_thread(open_door, settings) if names_files(settings) else open_door(settings)
    # The audit log is closed last: it tells what becomes of the processes until the end.
    async with audited(settings) as audit:
        sessions = SessionRegistry(settings, Metrics(), audit)
        lost = asyncio.get_running_loop().create_future()
        with DESCRIPTOR_LIMIT.raised() as former_limit:
            spawner = await Spawner.start(lambda: lost.set_result(None))
            server = Server(settings, profiles, spawner, sessions)
            lost.add_done_callback(lambda done: None if done.cancelled() else server.spawner_lost())
            try:
                # Children have the limits of the spawner, which has inherited the raised one.
                resource.prlimit(spawner.helper_pid, resource.RLIMIT_NOFILE, former_limit)
                await server.open(door)
                yield server
            finally:
                lost.cancel()
                await server.aclose()


def line_limits(settings: Settings) -> TransportLimits:
    """The limits of transports that carry one message per line."""
    return TransportLimits(
        max_message_bytes=settings.max_message_bytes,
        write_high_water_bytes=settings.send_buffer_bytes,
        max_connections=settings.max_connections,
    )


def websocket_limits(settings: Settings) -> WebSocketLimits:
    """The limits of websocket connections."""
    return WebSocketLimits(
        max_message_bytes=settings.max_message_bytes,
        write_high_water_bytes=settings.send_buffer_bytes,
        max_connections=settings.max_connections,
        max_frame_bytes=settings.max_frame_bytes,
        handshake_timeout_s=settings.handshake_timeout_s,
        ping_interval_s=settings.ping_interval_s or None,
        ping_timeout_s=settings.ping_timeout_s or None,
    )
