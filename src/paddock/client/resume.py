"""Opens a session on a server, and resumes it after a lost connection.

A `Session` shakes hands when a connection is made. When its link is lost, it dials again and asks for the
same session, as patiently as its policy says. The connection catches up on what it missed. If the server no
longer has the session, everything in it is lost, and the client opens another one if the policy allows it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from math import isinf
from typing import Final

from paddock.client.connection import Connection
from paddock.client.reconnect import Backoff, ReconnectPolicy
from paddock.errors import (
    ConnectionLost,
    HandshakeRefused,
    InvalidRequest,
    PaddockError,
    SessionAttached,
    UnknownSession,
)
from paddock.protocol.session import (
    ClientCapabilities,
    EnvironmentInfo,
    InitializeParams,
    InitializeResult,
)
from paddock.transport.link import Accept, Link

log = logging.getLogger(__name__)

NOTIFICATIONS: Final = ["process/failed", "question/closed"]
"""The optional notifications that this client understands. Servers of the reference protocol ignore this
list."""

FINAL_STATUSES: Final = frozenset((400, 401, 403, 404))
"""HTTP statuses that a retry does not change."""

Dial = Callable[[Accept], Awaitable[Link]]
"""Makes a link to the server. Raises TransportError."""


class Session:
    """The session that a connection is attached to. `open` it, and `aclose` it before the connection."""

    def __init__(
        self,
        connection: Connection,
        dial: Dial,
        *,
        client_name: str,
        policy: ReconnectPolicy | None,
        connect_timeout_s: float,
    ) -> None:
        self.id = ""
        """The session's id on the server; it changes if the session is lost. Empty until it is open."""
        self.environment: EnvironmentInfo
        """The server's description of its host."""
        self._connection = connection
        self._dial = dial
        self._client_name = client_name
        self._policy = policy
        self._connect_timeout_s = connect_timeout_s
        self._backoff = Backoff(policy or ReconnectPolicy())
        self._opened_at_s = 0.0
        self._task: asyncio.Task[None] | None = None

    async def open(self, resume: str | None = None) -> None:
        """Connect, and open a session or resume one.

        Raises TransportError, UnknownSession, or SessionAttached when another client holds it;
        the link is dropped then.
        """
        try:
            await self._dial(self._connection.attach)
            try:
                greeting = await self._greet(resume)
            except InvalidRequest as error:
                if resume is None:
                    raise
                raise UnknownSession(resume) from error
            if resume is not None and greeting.session_id != resume:
                raise UnknownSession(resume)
            self._adopt(greeting)
        except BaseException:
            self._connection.drop_link()
            raise
        self._connection.revive = self._revive

    async def aclose(self) -> None:
        """Stop trying to reconnect."""
        self._policy = None
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    # --- coming back --------------------------------------------------------

    def _revive(self, loss: ConnectionLost) -> bool:
        if self._policy is None:
            return False
        loop = asyncio.get_running_loop()
        log.info("%s; connecting again", loss)
        self._backoff.was_connected(loop.time() - self._opened_at_s)
        if self._policy.on_change is not None:
            self._policy.on_change(False)
        self._task = loop.create_task(self._come_back(self._policy, loss))
        return True

    async def _come_back(self, policy: ReconnectPolicy, loss: ConnectionLost) -> None:
        try:
            failure = await self._keep_trying(policy)
        except Exception as error:
            # For example an error from a caller's token function, which would otherwise go unreported.
            log.exception("connecting again failed unexpectedly")
            failure = error
        if self._connection.is_connected:
            return
        reason = f", and connecting again failed: {failure}" if failure is not None else ""
        final = ConnectionLost(f"{loss}{reason}")
        final.__cause__ = failure or loss
        log.warning("%s", final)
        self._connection.give_up(final)

    async def _keep_trying(self, policy: ReconnectPolicy) -> Exception | None:
        """Keep dialling until there is a connection, and return None; return the reason if there will be
        none."""
        failure: PaddockError | None = None
        try:
            async with asyncio.timeout(None if isinf(policy.max_time_s) else policy.max_time_s):
                while self._connection.is_open and not (failure is not None and _is_final(failure)):
                    await asyncio.sleep(self._backoff.next_delay_s())
                    failure = await self._try_once(policy)
                    if failure is None:
                        break
        except TimeoutError:
            pass
        return failure

    async def _try_once(self, policy: ReconnectPolicy) -> PaddockError | None:
        try:
            await self._try(policy)
        except PaddockError as error:
            log.debug("no connection yet: %s", error)
            return error
        finally:
            if not self._connection.is_connected:
                self._connection.drop_link()
        return None

    async def _try(self, policy: ReconnectPolicy) -> None:
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                await self._dial(self._connection.attach)
                greeting = await self._resume(policy)
        except TimeoutError as error:
            raise ConnectionLost(f"no answer within {self._connect_timeout_s} s") from error
        if self.id and greeting.session_id != self.id:
            self._lose(policy, f"the server gave another session than {self.id!r}")
        self._adopt(greeting)
        if policy.on_change is not None:
            policy.on_change(True)

    async def _resume(self, policy: ReconnectPolicy) -> InitializeResult:
        while True:
            try:
                return await self._greet(self.id or None)
            except SessionAttached:
                # The server has not noticed yet that the old connection is lost.
                await asyncio.sleep(policy.attached_delay_s)
            except InvalidRequest as error:
                if not self.id:
                    raise
                self._lose(policy, str(error))

    def _lose(self, policy: ReconnectPolicy, reason: str) -> None:
        log.warning("session %s is lost: %s", self.id, reason)
        lost = UnknownSession(self.id)
        self.id = ""
        if not policy.new_session:
            raise lost
        self._connection.lose_session(f"its session is gone: {reason}")

    # --- the handshake ------------------------------------------------------

    async def _greet(self, resume: str | None) -> InitializeResult:
        capabilities = ClientCapabilities(
            extensions=True, notifications=NOTIFICATIONS, requests=self._connection.answering.methods
        )
        return await self._connection.greet(
            InitializeParams(
                client_name=self._client_name, resume_session_id=resume, capabilities=capabilities
            )
        )

    def _adopt(self, greeting: InitializeResult) -> None:
        self._connection.open()
        self.id = greeting.session_id
        self.environment = greeting.environment_info
        self._opened_at_s = asyncio.get_running_loop().time()


def _is_final(error: PaddockError) -> bool:
    """Return whether another attempt would only fail in the same way."""
    if isinstance(error, HandshakeRefused):
        return error.status in FINAL_STATUSES
    return isinstance(error, UnknownSession)
