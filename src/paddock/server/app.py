"""The server as a whole: puts the engines together, listens, and ends in order.

`serve` is the way in, for the command line and for programs that embed a
server. Ending means: accept no more, TERM to every process, grace, KILL, and
then the spawner, which kills whatever is left.
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, assert_never

from msgspec.structs import replace

from paddock import own_program
from paddock.config import Settings
from paddock.fs.lanes import Lanes
from paddock.journal import Journal
from paddock.model.audit_failure import AuditFailure
from paddock.network.turn import Turns
from paddock.process.spawner import Spawner
from paddock.protocol.question import QuestionParams
from paddock.server.answer_memory import LARGE_ANSWERS_BYTES
from paddock.server.answer_turns import SharedAnswers
from paddock.server.audit import audited
from paddock.server.connection import ClientConnection
from paddock.server.control import open_control_socket
from paddock.server.descriptor_limit import DESCRIPTOR_LIMIT
from paddock.server.enclosures import Enclosures
from paddock.server.handlers import Handlers
from paddock.server.host_rules import HostRules, load_host_rules
from paddock.server.memory_budget import MemoryBudget
from paddock.server.metrics import Metrics
from paddock.server.profiles import Profiles
from paddock.server.questions import Answer
from paddock.server.services import Services
from paddock.server.sessions import SessionRegistry
from paddock.transport import runtime_directory
from paddock.transport.input_turns import InputTurns
from paddock.transport.limits import TransportLimits, WebSocketLimits
from paddock.transport.link import Link, Receiver
from paddock.transport.listener import Listener
from paddock.version import __version__

if TYPE_CHECKING:
    from paddock.protocol.control import ServerStatus
    from paddock.server.listen_policy import ListenPolicy
    from paddock.server.scrape import Scraper
    from paddock.transport.http import HttpPolicy
    from paddock.transport.websocket import WebSocketListener

journal = Journal(logging.getLogger(__name__))

SPAWNER_LOST = "the process spawner ended unexpectedly, and with it all knowledge of the process"

SWITCH_INTERVAL_S: Final = 0.0005
"""How long the event loop waits for a thread that computes, in each of its turns. A request takes some ten
turns, so with the interpreter's 5 ms one busy thread would hold up every client."""


class Server:
    """A running server. Made by `serve`."""

    def __init__(
        self,
        settings: Settings,
        profiles: Profiles,
        spawner: Spawner,
        sessions: SessionRegistry,
        host_rules: HostRules,
        handlers: Handlers,
    ) -> None:
        self.settings = settings
        self.finished = asyncio.Event()
        """Set when the server can't continue: its only client has disconnected (stdio), or the spawner has
        ended."""
        self.failure: str | None = None
        self.sandbox_problem: str | None = None
        """Why the server can make no sandboxes, once it has found out."""
        self._lanes = Lanes()
        self._enclosures = Enclosures(settings, spawner, sessions.metrics, profiles.cap)
        self._services = Services(
            settings=settings,
            spawner=spawner,
            sessions=sessions,
            handlers=handlers,
            describe_server=self.describe,
            metrics=sessions.metrics,
            lanes=self._lanes,
            large_answers=MemoryBudget(LARGE_ANSWERS_BYTES),
            profiles=profiles,
            enclosures=self._enclosures,
            request_turns=InputTurns(),
            shared_answers=SharedAnswers(),
            proxy_turns=Turns(),
            host_rules=host_rules,
        )
        self._sessions = sessions
        self._spawner = spawner
        self._listener: Listener | None = None
        self._websockets: WebSocketListener | None = None
        self._control: Listener | None = None
        self._started_at_s = time.monotonic()
        self._connections: set[ClientConnection] = set()
        self._closings: set[asyncio.Task[None]] = set()
        self._accepted = 0
        self._is_single_client = False
        self._has_no_connection = asyncio.Event()
        self._has_no_connection.set()
        self._reloading = asyncio.Lock()
        self._scraper: Scraper | None = None

    @property
    def url(self) -> str:
        """Return where clients connect; `stdio` when the one client is at standard input and output."""
        return self._listener.url if self._listener is not None else "stdio"

    @property
    def control_url(self) -> str | None:
        """Return where operators connect; None when there is no control socket."""
        return self._control.url if self._control is not None else None

    def describe(self) -> ServerStatus:
        """Return the description of the server itself for operators."""
        from paddock.protocol.control import ServerStatus

        uptime_ms = int((time.monotonic() - self._started_at_s) * 1000)
        return ServerStatus(pid=os.getpid(), url=self.url, version=__version__, uptime_ms=uptime_ms)

    def accept(self, link: Link) -> Receiver:
        """Serve one link, of whatever transport."""
        return self._accept(link, has_operator_rights=self.settings.network_operators)

    def accept_operator(self, link: Link) -> Receiver:
        """Serve one link of an operator, who may reach every session."""
        return self._accept(link, is_operator=True, has_operator_rights=True)

    def _accept(
        self, link: Link, *, is_operator: bool = False, has_operator_rights: bool
    ) -> ClientConnection:
        self._accepted += 1
        connection = ClientConnection(
            link,
            self._services,
            self._connection_closed,
            self._accepted,
            is_operator=is_operator,
            has_operator_rights=has_operator_rights,
        )
        self._connections.add(connection)
        self._has_no_connection.clear()
        return connection

    async def ask(
        self, session_id: str, method: str, params: QuestionParams, timeout_s: float | None = None
    ) -> Answer:
        """Ask the client of a session, or an operator, and wait for the first answer.

        Raises UnknownSession, and what `SessionQuestions.ask` raises.
        """
        return await self._sessions.get(session_id).questions.ask(method, params, timeout_s)

    async def open(self, policy: ListenPolicy | None) -> None:
        """Listen as the policy says, or for operators alone. Raises ListenError."""
        if policy is not None:
            await self._listen(policy)
        self._control = await open_control_socket(self.settings, self.accept_operator)
        journal.info("listening", url=self.url, control=self.control_url, version=__version__)

    async def _listen(self, policy: ListenPolicy) -> None:
        from paddock.server.address import StdioAddress, UnixAddress, WebSocketAddress

        address = policy.address
        match address:
            case WebSocketAddress():
                from paddock.transport import websocket

                self._websockets = self._listener = await websocket.listen(
                    address.host,
                    address.port,
                    self.accept,
                    websocket_limits(self.settings),
                    self._http_policy(policy),
                    ssl_context=policy.tls,
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

    def _http_policy(self, policy: ListenPolicy) -> HttpPolicy:
        from paddock.server.scrape import METRICS_PATH, Scraper

        if self._scraper is None:
            metrics, sessions = self._sessions.metrics, self._sessions
            self._scraper = Scraper(metrics, sessions, self._connections, self._enclosures.count_spares)
        pages = {METRICS_PATH: self._scraper.page}
        return replace(policy.request_filter, pages=pages, unreadiness=self.unreadiness).answer

    def unreadiness(self) -> str | None:
        """Return why the server refuses every start now, in words fit for anyone; None if it accepts them."""
        if self.failure is not None:
            return "the process spawner is lost"
        audit = self._sessions.audit
        if (
            audit is not None
            and audit.condition.is_failing
            and self.settings.audit_failure == AuditFailure.STOP
        ):
            return "the audit log can't be written"
        must_confine = self.settings.require_sandbox or self._services.profiles.cap is not None
        if must_confine and self.sandbox_problem is not None:
            return "everything must be confined, and no sandboxes can be made on this host"
        return None

    async def reload(self, settings: Settings) -> None:
        """Apply the settings that can change in a running server; read secret files and rules again.

        Settings that need a restart are left as they are, with a warning. Connections that are open stay
        open, and processes keep the sandbox they were started in. Raises ConfigError, ListenError or
        SandboxUnenforceable, and then changes nothing.
        """
        from paddock.server.listen_policy import load_listen_policy
        from paddock.server.reload import changed_names, renewed_settings

        async with self._reloading:
            settings, left = renewed_settings(self.settings, settings)
            profiles = Profiles(settings)
            policy = await asyncio.to_thread(load_listen_policy, settings)
            host_rules = await self._services.host_rules.read()
            await self._enclosures.renew(settings, profiles.cap)
            self._services.host_rules.renew(host_rules)
            changed = changed_names(self.settings, settings)
            self.settings = settings
            self._services = replace(self._services, settings=settings, profiles=profiles)
            for connection in self._connections:
                connection.services = self._services
            if self._websockets is not None:
                self._websockets.renew(self._http_policy(policy), policy.tls)
        if left:
            journal.warning("some settings need a restart", settings=tuple(left))
        journal.info("settings reloaded", changed=tuple(changed))

    def spawner_lost(self) -> None:
        """Fail every process and finish: the server can no longer start or wait for anything."""
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
        listeners = [listener for listener in (self._listener, self._control) if listener is not None]
        for listener in listeners:
            listener.close()
        journal.info("shutdown began", connections=len(self._connections), processes=self._sessions.live)
        await self._sessions.end_all(self.settings.shutdown_grace_s)
        journal.info("shutdown: processes ended")
        for listener in listeners:
            await listener.aclose()
        # The connections that came from no listener: stdio, or links that a program accepted. They too get
        # what is queued.
        for connection in list(self._connections):
            connection.close()
        await self._has_no_connection.wait()
        await self.quiet()
        journal.info("shutdown: connections closed")
        await self._lanes.aclose()
        await self._enclosures.end_idle()
        await self._spawner.aclose()
        await self._enclosures.aclose()
        journal.info("shutdown complete")

    def _connection_closed(self, connection: ClientConnection) -> None:
        self._connections.discard(connection)
        if not self._connections:
            self._has_no_connection.set()
        closing = asyncio.get_running_loop().create_task(connection.aclose())
        self._closings.add(closing)
        closing.add_done_callback(self._closings.discard)
        if self._is_single_client and not connection.is_operator:
            self.finished.set()


@asynccontextmanager
async def serve(settings: Settings | None = None, *, is_listening: bool = True) -> AsyncIterator[Server]:
    """Run a server inside this program for the duration of the `async with` block.

    Without `is_listening` its clients are those whose links this program gives to `Server.accept`. Raises
    ConfigError when the settings do not fit together, ListenError when the address is unavailable or not
    allowed, AuditLogError when the audit log can't be written, and SpawnerLost when no process could be
    started. It leaves nothing running after an error.
    """
    settings = settings or Settings()
    sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_INTERVAL_S))
    own_program.open_all()
    runtime_directory.reserve(runtime_directory.everywhere(os.environ, os.geteuid()), os.geteuid())
    profiles = Profiles(settings)
    # The server refuses a policy before it starts anything.
    policy = await _loaded_policy(settings) if is_listening else None
    handlers = Handlers()
    host_rules = HostRules()
    if settings.network_rules_file is not None:
        host_rules = await asyncio.to_thread(load_host_rules, settings.network_rules_file)
    # The audit log closes last, because it records the processes until their end.
    async with audited(settings) as audit:
        sessions = SessionRegistry(settings, Metrics(), audit)
        lost = asyncio.get_running_loop().create_future()
        with DESCRIPTOR_LIMIT.raised() as former_limit:
            spawner = await Spawner.start(lambda: lost.set_result(None))
            server = Server(settings, profiles, spawner, sessions, host_rules, handlers)
            lost.add_done_callback(lambda done: None if done.cancelled() else server.spawner_lost())
            try:
                # Children get the limits of the spawner, which inherits the raised limit.
                resource.prlimit(spawner.helper_pid, resource.RLIMIT_NOFILE, former_limit)
                await server.open(policy)
                if is_listening:
                    # In the next turn, which comes before anything that a client sends: whoever has started
                    # the server need not wait for this.
                    asyncio.get_running_loop().call_soon(_load_the_rest, handlers)
                yield server
            finally:
                lost.cancel()
                await server.aclose()


def _load_the_rest(handlers: Handlers) -> None:
    from paddock.server import preload  # noqa: F401

    handlers.load_all()


async def _loaded_policy(settings: Settings) -> ListenPolicy:
    from paddock.server.listen_policy import load_listen_policy, names_files

    # A thread is only worth its memory for files.
    if names_files(settings):
        return await asyncio.to_thread(load_listen_policy, settings)
    return load_listen_policy(settings)


def line_limits(settings: Settings) -> TransportLimits:
    """Return the limits of transports that carry one message per line."""
    return TransportLimits(
        max_message_bytes=settings.max_message_bytes,
        write_high_water_bytes=settings.send_buffer_bytes,
        max_connections=settings.max_connections,
    )


def websocket_limits(settings: Settings) -> WebSocketLimits:
    """Return the limits of websocket connections."""
    return WebSocketLimits(
        max_message_bytes=settings.max_message_bytes,
        write_high_water_bytes=settings.send_buffer_bytes,
        max_connections=settings.max_connections,
        max_frame_bytes=settings.max_frame_bytes,
        handshake_timeout_s=settings.handshake_timeout_s,
        ping_interval_s=settings.ping_interval_s or None,
        ping_timeout_s=settings.ping_timeout_s or None,
    )
