"""The place where all clients' commands run: one connection to a Paddock server, opened on first need.

A private server that was lost is replaced by the next call; what ran on it is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from paddock.agent.command_rules import CommandRules
from paddock.client.box import Box
from paddock.client.connect import Connecting, connect
from paddock.mcp_server.shell_questions import ExecQuestions
from paddock.protocol.question import EXEC_APPROVAL

CLIENT_NAME = "paddock-mcp"


class Terms(Struct, frozen=True):
    """Terms that the user who starts the server lays down for all clients."""

    profile: str | Mapping[str, Any]
    """The most that any client gets."""
    tools: tuple[str, ...]
    workspace: str | None = None
    """None leaves it to each client: its roots, or the directory of the server."""
    extra_roots: tuple[str, ...] = ()
    """Directories that the profile itself adds to the workspace."""
    prompt_timeout_s: float = 300.0


class ServerAddress(Struct, frozen=True):
    """The address of the Paddock server to use; a private one without a URL."""

    url: str | None = None
    token: str | None = None
    tls_ca: str | None = None


class Workplace:
    """The connection, and the rules. `aclose` it in the end."""

    def __init__(self, address: ServerAddress, rules: CommandRules) -> None:
        self.rules = rules
        self.questions = ExecQuestions()
        self._address = address
        self._box: Box | None = None
        self._opening = asyncio.Lock()

    @property
    def is_remote(self) -> bool:
        """Return whether paths may be those of another host."""
        return self._address.url is not None

    async def box(self) -> Box:
        """Return the open connection. Raises ConnectError."""
        async with self._opening:
            if self._box is not None and not self._can_serve(self._box):
                lost, self._box = self._box, None
                await lost.aclose()
            if self._box is None:
                self._box = await self._connecting()
            return self._box

    async def aclose(self) -> None:
        """End all commands and the connection."""
        if self._box is not None:
            await self._box.aclose()

    def _can_serve(self, box: Box) -> bool:
        """Return whether a connection works, or may come back by itself.

        A private server ends with its connection, so there is no way back to it. The client gives up a server
        that is away for long.
        """
        return box.is_open if self.is_remote else box.is_connected

    def _connecting(self) -> Connecting:
        answers = {EXEC_APPROVAL: self.questions}
        if self._address.url is None:
            return connect(client_name=CLIENT_NAME, on_request=answers, allow_escalation=True)
        return connect(
            self._address.url,
            client_name=CLIENT_NAME,
            token=self._address.token,
            tls_ca=self._address.tls_ca,
            on_request=answers,
        )
